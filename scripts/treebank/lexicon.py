"""The lexicon of the quickstart treebank: words, frames and inflection.

Word lists go from frequent to rare words, because words are sampled by rank. Frames give the dependents that
a verb or noun takes. They determine all ambiguous attachments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeVar

Option = TypeVar("Option")
Words = tuple[str, ...]
Modifier = tuple[str, str]  # a preposition and the kind of noun after it


def words(text: str) -> Words:
    return tuple(text.split())


class Frame(NamedTuple):
    """The complements of some verbs: an object, a prepositional phrase, both or neither."""

    verbs: Words
    object: str
    preposition: str
    complement: str


def frames(text: str) -> tuple[Frame, ...]:
    return tuple(frame(*line.split(":")) for line in text.strip().splitlines())


def frame(verbs: str, pattern: str) -> Frame:
    kinds = pattern.split()
    taken = kinds.pop(0) if len(kinds) % 2 else ""
    return Frame(words(verbs), taken, *(kinds or ("", "")))


# Nouns by kind, and the adjectives that suit each kind

NOUNS = {
    "people": words("""
        man woman boy girl child friend teacher doctor farmer king nurse baker queen driver guest sailor
        painter singer guard cook writer hunter judge student pilot waiter priest soldier lawyer poet
        actor dancer clerk tailor miller captain artist prince witch widow monk uncle aunt cousin porter
        spy knight maid clown mayor butcher potter barber coach banker plumber gardener weaver rival"""),
    "animals": words("""
        dog cat bird horse cow fox mouse hen goat duck bear pig lion owl frog rabbit donkey bee snake crow
        swan spider tiger turtle eagle otter parrot camel monkey hare lamb moth badger beetle whale seal"""),
    "texts": words("book letter story poem song note report novel essay tale diary message article play"),
    "things": words("""
        box coin bag coat ring cup hat ball lamp clock plate shoe basket bottle bell mirror vase kite drum
        glove purse toy candle jar bowl pillow umbrella violin blanket wallet button helmet ribbon carpet"""),
    "places": words("""
        house garden village park kitchen forest market shop school office church station barn castle farm
        library museum hotel town mill harbour inn cave tower theatre valley palace yard chapel cottage"""),
    "furniture": words("table desk bench bed floor chair stove sofa"),
    "tools": words("knife hammer stick brush axe spoon rope spade fork broom"),
    "lenses": words("telescope camera lens torch"),
    "features": words("beard hat smile voice scar nose"),
    "events": words("war storm party wedding fire flood race trip feast meeting match concert strike"),
}
LOOKS = words("""
    old new small big red long white black green blue heavy round strange broken clean empty cheap pretty
    dirty soft huge grey yellow thin plain narrow brown wide simple shiny ugly thick rusty smooth pale fancy
    curious tiny solid worn bright purple fragile dusty neat crooked odd splendid modest sturdy""")
ADJECTIVES = dict.fromkeys(NOUNS, LOOKS) | {
    "people": words("""
        young old happy kind tall poor clever tired sad rich angry brave proud quiet shy famous polite lazy
        wise rude calm lonely gentle hungry nervous merry cruel jolly busy loyal cheerful strict"""),
    "places": words("old small quiet dark big cold busy new empty warm famous noisy lovely ruined distant"),
    "texts": words("long short new old sad funny strange good famous secret boring clever dull curious"),
    "features": words("long red strange big white soft sad"),
    "events": words("long great last terrible famous first"),
}
MATERIALS = words("kitchen garden silver paper winter village glass leather school gold holiday copper")

# Complements of nouns and verbs, which distinguish `saw the girl with a lens` from `met the girl with a
# lens`.

NOUN_FRAMES: dict[str, tuple[Modifier, ...]] = dict.fromkeys(NOUNS, ()) | {
    "people": (("with", "features"), ("with", "lenses"), ("with", "tools"), ("in", "places")),
    "animals": (("in", "places"), ("of", "people")),
    "texts": (("about", "events"), ("about", "animals"), ("from", "people"), ("on", "furniture")),
    "things": (("on", "furniture"), ("under", "furniture"), ("of", "people")),
    "places": (("near", "places"), ("of", "people")),
    "events": (("in", "places"),),
}
TRANSITIVE = frames("""
    see love meet know like follow help watch hear thank miss visit trust fear praise: people
    see love watch feed find catch follow chase hear own paint fear wash count tame: animals
    read write like burn love print know finish study copy praise recite: texts
    find buy lose want like break open clean fix need wash drop paint own admire repair: things
    visit like know leave clean love own guard search: places
    clean buy paint move repair: furniture
    use need lose borrow: tools
    want buy lose own: lenses
    notice admire remember: features
    like remember hate fear enjoy watch describe: events
""")
WITH_PREPOSITION = frames("""
    cut open fix clean break hit: things with tools
    see watch spot find: people with lenses
    put leave keep place drop: things on furniture
    put leave keep hide: texts on furniture
    meet kiss greet marry hug: people in places
    feed catch chase keep: animals in places
    send bring sell offer: things to people
    send read bring: texts to people
    take steal borrow buy: texts from people
    ask tell warn: people about events
""")
PREPOSITIONAL = frames("""
    look laugh point shout smile stare: at people
    listen talk speak write pray: to people
    dance talk play argue live dine: with people
    wait care pay search: for people
    sit stand lie sleep: on furniture
    live work stay sit hide: in places
    walk run go come hurry ride drive step march wander rush return sail crawl limp: to places
""")
INTRANSITIVE = frames("""
    sleep laugh wait sing smile arrive dance cry work leave fall rest stay swim shout whistle play cough:
""")
OF_ANIMALS = frames("""
    sleep run bark jump play eat swim sing hide wait growl die drink howl graze:
    run come jump swim: to places
    see follow watch chase fear: animals
""")
FRAMES_BY_SUBJECT: dict[str, dict[Sequence[Frame], int]] = {
    "people": {INTRANSITIVE: 24, PREPOSITIONAL: 16, TRANSITIVE: 25, WITH_PREPOSITION: 18},
    "animals": {OF_ANIMALS: 1},
}
TAKING_OBJECT = {kind: [frame for frame in TRANSITIVE if frame.object == kind] for kind in NOUNS}
SUBJECTS = {"people": 76, "animals": 13, "things": 4, "texts": 3, "places": 2}
PREDICATES = {kind: {"be found": 1, "be old": 1} for kind in NOUNS} | {
    "people": {"act": 70, "be found": 3, "be old": 8, "know (that) Anna slept": 9, "want to sleep": 8},
    "animals": {"act": 12, "be found": 2, "be old": 4},
}
REPORTING = words("think say know believe hope hear claim see guess notice forget remember fear feel doubt")
OPINING = words("think believe say hope claim")
WANTING = words("want try need hope plan decide refuse learn promise agree forget love")
ARRIVING = words("arrive come call appear leave")

# Names, adverbs and closed classes

FIRST_NAMES = words("""
    Tom Anna Mary John Eva Paul Lucy Max Emma Peter Clara Ben Nora Sam Ida Jack Rose Leo Alice Hugo Ruth Felix
    Jane Oscar Ella Frank Grace Adam Martha Simon Olive David Helen Henry Julia Karl Agnes Victor Edith""")
LAST_NAMES = words("Brown Smith Gray Wood Hill Stone Moore Fox King Bell Young Reed Cole Marsh Lane Hart")
DAYS = words("Monday Sunday Friday Tuesday Saturday")
MANNERS = words("quickly slowly quietly well loudly carefully gladly badly gently sadly calmly")
DEGREES = words("very really rather truly")
ADVERBS = words("again soon later early now late here there outside upstairs") + MANNERS
MODALS = words("will can must should could would")
AUXILIARIES = {"": 80, "have": 9, **dict.fromkeys(MODALS, 2)}
DETERMINERS = {
    "Sing": {"the": 46, "a": 29, "every": 4, "this": 4, "that": 3, "Anna's": 6, "my": 8},
    "Plur": {"the": 46, "none": 15, "some": 14, "two": 4, "these": 4, "those": 3, "Anna's": 6, "my": 8},
}
SINGULAR_OF = {"these": "this", "those": "that"}
NUMERALS = words("two three four five six ten seven eight")
SUBORDINATORS = words("when because if while although before after until since")
PRONOUNS_OF_PEOPLE = words("he she they I we you")
PRONOUNS_OF_THINGS = words("it they")
PRONOUN_NUMBERS = {"he": "Sing", "she": "Sing", "it": "Sing", "I": "Sing", "we": "Plur", "they": "Plur"}
OBJECT_FORMS = {"he": "him", "she": "her", "I": "me", "we": "us", "they": "them"}
POSSESSIVES = words("his her my their our your")
STEMS_BEFORE_NOT = {"can": "ca", "will": "wo"}

OPEN_CLASSES = [*NOUNS.values(), *ADJECTIVES.values(), FIRST_NAMES, LAST_NAMES, MANNERS]
RESERVED = frozenset(word for words in OPEN_CLASSES for word in words[5::5])  # only in dev and test


class Sampler:
    """Random choices. Reserved words are sampled only if `reserved_allowed`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.reserved_allowed = False

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options: Sequence[Option]) -> Option:
        return self.random.choices(options)[0]

    def weighted(self, weights: Mapping[Option, int]) -> Option:
        return self.random.choices(list(weights), list(weights.values()))[0]

    def word(self, words: Words) -> str:
        """Sample a word by its rank in the list, by Zipf's law."""
        allowed = [word for word in words if self.reserved_allowed or word not in RESERVED]
        return self.random.choices(allowed, [1 / (rank + 6) for rank in range(len(allowed))])[0]


# Inflection

IRREGULAR_PLURALS = {"man": "men", "woman": "women", "child": "children", "mouse": "mice", "knife": "knives"}
PRINCIPAL_PARTS = words("""
    be/were/been break/broke/broken bring/brought/brought buy/bought/bought catch/caught/caught come/came/come
    cut/cut/cut do/did/done drink/drank/drunk drive/drove/driven eat/ate/eaten fall/fell/fallen feed/fed/fed
    feel/felt/felt find/found/found forget/forgot/forgotten go/went/gone have/had/had hear/heard/heard
    hide/hid/hidden hit/hit/hit keep/kept/kept know/knew/known leave/left/left lie/lay/lain lose/lost/lost
    meet/met/met pay/paid/paid put/put/put read/read/read ride/rode/ridden run/ran/run say/said/said
    see/saw/seen sell/sold/sold send/sent/sent sing/sang/sung sit/sat/sat sleep/slept/slept speak/spoke/spoken
    stand/stood/stood steal/stole/stolen swim/swam/swum take/took/taken tell/told/told think/thought/thought
    write/wrote/written""")
IRREGULAR_VERBS = {lemma: forms for lemma, *forms in (parts.split("/") for parts in PRINCIPAL_PARTS)}
IRREGULAR_FORMS = {
    **{"have VBZ": "has", "do VBZ": "does", "go VBZ": "goes", "be VBZ": "is", "be VBP": "are"},
    **{"be VBP I": "am", "be VBD I": "was", "be VBD Sing": "was"},
}
DOUBLING_STEM = re.compile(r"[^aeiou]*[aeiou][bdgmnprt]")


def with_s(word: str) -> str:
    """Add -s, as in the plural of nouns and the third person of verbs."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if ends_in_consonant_y(word) else word + "s"


def with_ed(verb: str) -> str:
    """hope, hoped; carry, carried; stop, stopped"""
    if verb.endswith("e"):
        return verb + "d"
    if ends_in_consonant_y(verb):
        return verb[:-1] + "ied"
    return verb + verb[-1] + "ed" if DOUBLING_STEM.fullmatch(verb) else verb + "ed"


def ends_in_consonant_y(word: str) -> bool:
    return word[-1] == "y" and word[-2] not in "aeiou"


def plural(noun: str) -> str:
    return IRREGULAR_PLURALS.get(noun) or with_s(noun)


def verb_form(lemma: str, tag: str, agreement: str) -> str:
    """The form of a verb for a Penn Treebank tag; `be` also agrees with `I`, and in the past with number."""
    irregular = IRREGULAR_FORMS.get(f"{lemma} {tag} {agreement}") or IRREGULAR_FORMS.get(f"{lemma} {tag}")
    if irregular or tag in ("VB", "VBP"):
        return irregular or lemma
    if tag == "VBZ":
        return with_s(lemma)
    past, participle = IRREGULAR_VERBS.get(lemma) or [with_ed(lemma)] * 2
    return past if tag == "VBD" else participle
