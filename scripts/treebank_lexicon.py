"""The words of the quickstart treebank: what there is to say, and how each word is inflected.

Word lists run from frequent to rare, since the grammar draws words by rank. The frames say which words go
together: what a verb or a noun takes as its dependents. They decide every contested attachment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

Option = TypeVar("Option")
Words = tuple[str, ...]
Modifier = tuple[str, str]  # a preposition and the kind of noun after it


def words(text: str) -> Words:
    return tuple(text.split())


@dataclass(frozen=True)
class Frame:
    """What some verbs take: an object, a preposition with the noun after it, both or neither."""

    verbs: Words
    object: str
    preposition: str
    complement: str

    @classmethod
    def parse(cls, line: str) -> Frame:
        verbs, pattern = line.split(":")
        kinds = pattern.split()
        taken = kinds.pop(0) if len(kinds) % 2 else ""
        preposition, complement = kinds or ("", "")
        return cls(words(verbs), taken, preposition, complement)


Frames = tuple[Frame, ...]


def frames(text: str) -> Frames:
    return tuple(Frame.parse(line) for line in text.strip().splitlines())


# Nouns by kind, and the adjectives that suit each kind

NOUNS = {
    "people": words("""
        man woman boy girl child friend teacher doctor farmer king nurse baker queen driver guest sailor
        painter singer guard cook writer hunter judge student thief pilot waiter priest soldier lawyer poet
        actor dancer clerk tailor miller captain artist prince witch widow monk uncle aunt cousin porter rider
        spy knight maid clown mayor hero butcher potter barber coach banker plumber gardener weaver rival
        tutor tenant merchant stranger orphan hermit duke tourist scholar jeweller"""),
    "animals": words("""
        dog cat bird horse cow fox mouse hen goat duck bear wolf sheep pig lion owl frog rabbit goose donkey
        bee snake crow swan deer spider tiger turtle eagle otter parrot camel monkey hare lamb calf moth
        badger beetle whale seal lizard raven stork hamster mole falcon"""),
    "foods": words("""
        apple cake egg pie pear plum carrot onion potato cherry lemon nut peach loaf pancake melon biscuit
        bean bun fig tart radish turnip sandwich sausage muffin"""),
    "texts": words("""
        book letter story poem song note report novel essay tale diary message article review play"""),
    "things": words("""
        box coin bag coat ring cup hat ball lamp clock plate shoe basket bottle bell mirror vase kite drum
        glove purse toy candle jar bowl pillow scarf umbrella violin blanket wallet button helmet ribbon
        carpet statue wagon lantern kettle flute globe crown anchor barrel teapot necklace trophy puppet"""),
    "places": words("""
        house garden village park kitchen forest market shop school office church station barn castle farm
        library museum hotel town mill harbour inn cave tower theatre valley palace yard chapel cottage
        meadow cellar attic prison bakery tavern orchard stable temple factory abbey vineyard gallery"""),
    "furniture": words("table shelf desk bench bed floor chair stove sofa"),
    "tools": words("knife hammer stick brush axe spoon rope spade fork broom"),
    "lenses": words("telescope camera lens torch"),
    "limbs": words("tail leg ear nose eye paw"),
    "features": words("beard hat smile voice scar nose"),
    "events": words("war storm party wedding fire flood race trip feast meeting match concert strike"),
}
LOOKS = words("""
    old new small big red long white black green blue heavy round strange broken clean empty cheap pretty
    dirty soft huge grey yellow thin plain narrow brown wide simple shiny ugly thick rusty smooth pale fancy
    curious tiny solid worn bright purple fragile dusty neat crooked odd splendid modest sturdy faded precious
    polished spotted elegant clumsy""")
ADJECTIVES = dict.fromkeys(NOUNS, LOOKS) | {
    "people": words("""
        young old happy kind tall poor clever tired sad rich angry brave proud quiet shy famous polite lazy
        wise honest rude calm lonely gentle hungry nervous merry cruel jolly busy loyal cheerful strict
        patient bold vain grumpy careful jealous sleepy modest humble silly stubborn anxious noble fierce
        timid generous"""),
    "foods": words("""
        fresh sweet hot cold good warm sour dry tasty ripe bitter salty spicy rotten mild stale crisp
        delicious"""),
    "places": words("""
        old small quiet dark big cold busy new empty warm famous noisy lovely ruined distant dusty sunny
        gloomy crowded peaceful lonely grand shabby ancient snowy muddy"""),
    "texts": words("long short new old sad funny strange good famous secret boring clever dull curious"),
    "events": words("long great last terrible famous first"),
}
MATERIALS = words("kitchen garden silver paper winter village glass leather school gold holiday copper")

# What nouns and verbs take: `saw the girl with a lens` differs from `met the girl with a lens` by these tables.

NOUN_FRAMES: dict[str, tuple[Modifier, ...]] = dict.fromkeys(NOUNS, ()) | {
    "people": (("with", "features"), ("with", "lenses"), ("with", "tools"), ("in", "places")),
    "animals": (("with", "limbs"), ("in", "places"), ("of", "people")),
    "texts": (("about", "events"), ("about", "animals"), ("from", "people"), ("on", "furniture")),
    "things": (("on", "furniture"), ("under", "furniture"), ("of", "people")),
    "foods": (("on", "furniture"), ("from", "people")),
    "places": (("near", "places"), ("of", "people")),
    "events": (("in", "places"),),
}
TRANSITIVE = frames("""
    see love meet know like follow help watch hear thank miss visit trust fear praise: people
    see love watch feed find catch follow chase hear own paint fear wash count tame: animals
    eat cook want taste like share buy slice peel bake: foods
    read write like burn love print know finish study copy praise recite: texts
    find buy lose want like break open clean fix need wash drop paint own admire repair: things
    visit like know leave clean love own guard search: places
    clean buy paint move repair: furniture
    use need lose borrow: tools
    want buy lose own: lenses
    see notice touch: limbs
    notice admire remember: features
    like remember hate fear enjoy watch describe: events
""")
WITH_PREPOSITION = frames("""
    cut open fix clean break hit: things with tools
    cut taste eat stir: foods with tools
    see watch spot find: people with lenses
    see watch spot find: animals with lenses
    put leave keep place drop: things on furniture
    put leave keep hide: things under furniture
    put leave keep place: texts on furniture
    put keep drop: foods on furniture
    meet kiss greet marry hug: people in places
    feed catch chase keep meet: animals in places
    send bring take sell lend: things to people
    send read bring hand: texts to people
    carry take bring drag: things to places
    take steal borrow buy get: foods from people
    take steal borrow hide: texts from people
    ask tell warn remind: people about events
""")
WITH_PARTICLE = frames("""
    pick+up put+down throw+away give+away bring+back send+back: things
    write+down tear+up put+down: texts
    wake+up call+up: people
    eat+up finish+up: foods
    wake+up stand+up get+up sit+down come+back run+back go+away:
""")
PREPOSITIONAL = frames("""
    look laugh point shout smile stare: at people
    listen talk speak write pray: to people
    dance talk play argue live dine: with people
    wait care pay search: for people
    talk dream think complain worry: about events
    sit stand lie sleep: on furniture
    live work stay sit hide: in places
    walk run go come hurry ride drive step march wander rush return sail crawl limp: to places
    walk run ride drive march wander: through places
""")
INTRANSITIVE = frames("""
    sleep laugh wait sing smile arrive dance cry work leave fall rest stay swim shout whistle play \
    cough disappear snore pray shiver kneel blush giggle tremble nap starve faint quarrel sneeze hesitate:
""")
OF_ANIMALS = frames("""
    sleep run bark jump play eat swim sing hide bite wait growl die drink howl graze:
    sleep hide wait play: in places
    run come jump swim: to places
    see follow watch chase bite: animals
    see follow fear love: people
""")
FRAMES_BY_SUBJECT = {
    "people": {INTRANSITIVE: 20, PREPOSITIONAL: 16, TRANSITIVE: 26, WITH_PREPOSITION: 20, WITH_PARTICLE: 8},
    "animals": {OF_ANIMALS: 1},
}
TAKING_OBJECT = {kind: [frame for frame in TRANSITIVE if frame.object == kind] for kind in NOUNS}
CLAIMED = {
    verb: [(frame.preposition, frame.complement) for frame in WITH_PREPOSITION if verb in frame.verbs]
    for row in WITH_PREPOSITION
    for verb in row.verbs
}
REPORTING = words("think say know believe hope hear claim see guess notice forget remember fear feel doubt")
OPINING = words("think believe say hope claim")
WANTING = words("want try need hope plan decide refuse learn promise agree forget love")
SEEMING = words("seem look feel become sound remain")
ARRIVING = words("arrive come call appear leave")
NEVER_PROGRESSIVE = words("""
    know love like believe want need seem become see hear fear own hate sound remain doubt remember trust
    admire notice forget guess agree find lose promise refuse hope claim think""")

# Names, adverbs and closed classes

FIRST_NAMES = words("""
    Tom Anna Mary John Eva Paul Lucy Max Emma Peter Clara Ben Nora Sam Ida Jack Rose Leo Alice Hugo Ruth Felix
    Jane Oscar Ella Frank Grace Adam Martha Simon Olive David Helen Henry Julia Karl Agnes Victor Edith Philip
    Irene Walter Flora George Hazel Bruno Vera Arthur Sylvia Conrad""")
LAST_NAMES = words("""
    Brown Smith Gray Wood Hill Stone Moore Fox King Bell Young Reed Cole Marsh Carter Lane Hart Webb Frost
    Burns Porter Nash Doyle Hale Pratt Quinn Lowe Finch""")
DAYS = words("Monday Sunday Friday Tuesday Saturday")
MANNERS = words("""
    quickly slowly quietly well loudly carefully gladly badly gently sadly calmly suddenly bravely happily
    politely softly kindly proudly angrily secretly eagerly boldly lazily warmly cheerfully nervously""")
FREQUENCIES = words("often always sometimes usually still")
DEGREES = words("very really rather truly")
MOMENTS = words("again soon later early now late here there outside upstairs")
MODALS = words("will can must should could would")
NUMERALS = words("two three four five six ten seven eight")
SUBORDINATORS = words("when because if while although before after until since")
PERSONAL_PRONOUNS = words("he she they I we you")
THING_PRONOUNS = words("it they")
PRONOUNS = {  # object form and number
    **{"he": ("him", "Sing"), "she": ("her", "Sing"), "it": ("it", "Sing"), "I": ("me", "Sing")},
    **{"they": ("them", "Plur"), "we": ("us", "Plur"), "you": ("you", "")},
}
POSSESSIVES = words("his her my their our your")
CONTRACTIONS = {"is": "'s", "are": "'re", "am": "'m", "have": "'ve", "has": "'s", "will": "'ll"}
STEMS_BEFORE_NOT = {"can": "ca", "will": "wo"}
DEMONSTRATIVES = {  # lemma and number
    **{"this": ("this", "Sing"), "that": ("that", "Sing")},
    **{"these": ("this", "Plur"), "those": ("that", "Plur")},
}

# Every fifth word of the open classes waits for dev and test.
OPEN_CLASSES = [
    *NOUNS.values(),
    *ADJECTIVES.values(),
    FIRST_NAMES,
    LAST_NAMES,
    MANNERS,
    INTRANSITIVE[0].verbs,
]
RESERVED = frozenset(word for open_class in OPEN_CLASSES for word in open_class[5::5])


class Dice:
    """All the chance in the treebank. Reserved words are drawn only while they are allowed."""

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
        """A word drawn by its rank in the list, as Zipf's law has it."""
        allowed = [word for word in words if self.reserved_allowed or word not in RESERVED]
        return self.random.choices(allowed, [1 / (rank + 6) for rank in range(len(allowed))])[0]


# Inflection

IRREGULAR_PLURALS = dict(
    tuple(pair.split("/"))
    for pair in words("""
    man/men woman/women child/children thief/thieves mouse/mice goose/geese sheep/sheep deer/deer wolf/wolves
    calf/calves loaf/loaves shelf/shelves scarf/scarves knife/knives potato/potatoes hero/heroes""")
)
PRINCIPAL_PARTS = words("""
    be/were/been become/became/become bite/bit/bitten break/broke/broken bring/brought/brought buy/bought/bought
    catch/caught/caught come/came/come cut/cut/cut do/did/done drink/drank/drunk drive/drove/driven
    eat/ate/eaten fall/fell/fallen feed/fed/fed feel/felt/felt find/found/found forget/forgot/forgotten
    get/got/got give/gave/given go/went/gone have/had/had hear/heard/heard hide/hid/hidden hit/hit/hit
    keep/kept/kept kneel/knelt/knelt know/knew/known leave/left/left lend/lent/lent lie/lay/lain
    lose/lost/lost meet/met/met pay/paid/paid put/put/put read/read/read ride/rode/ridden run/ran/run
    say/said/said see/saw/seen sell/sold/sold send/sent/sent show/showed/shown sing/sang/sung sit/sat/sat
    sleep/slept/slept speak/spoke/spoken stand/stood/stood steal/stole/stolen swim/swam/swum
    take/took/taken teach/taught/taught tear/tore/torn tell/told/told think/thought/thought
    throw/threw/thrown wake/woke/woken write/wrote/written""")
IRREGULAR_VERBS = {lemma: forms for lemma, *forms in (parts.split("/") for parts in PRINCIPAL_PARTS)}
IRREGULAR_FORMS = {
    **{"have VBZ": "has", "do VBZ": "does", "go VBZ": "goes", "lie VBG": "lying", "die VBG": "dying"},
    **{"be VBZ": "is", "be VBP": "are", "be VBP I": "am", "be VBD I": "was", "be VBD Sing": "was"},
}
DOUBLING_STEM = re.compile(r"[^aeiou]*[aeiou][bdgmnprt]|forget|quarrel")
VOWEL_SOUND = re.compile(r"[aeiou]|hon")


def with_s(word: str) -> str:
    """The ending that the plural of nouns and the third person of verbs share."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def with_vowel_ending(verb: str, ending: str) -> str:
    """Join -ed or -ing: hope, hoping; carry, carried; stop, stopped."""
    if verb.endswith("e"):
        return verb[:-1] + ending
    if verb.endswith("y") and verb[-2] not in "aeiou" and ending == "ed":
        return verb[:-1] + "ied"
    if DOUBLING_STEM.fullmatch(verb):
        return verb + verb[-1] + ending
    return verb + ending


def plural(noun: str) -> str:
    return IRREGULAR_PLURALS.get(noun) or with_s(noun)


def indefinite_article(next_word: str) -> str:
    return "an" if VOWEL_SOUND.match(next_word) else "a"


def verb_form(lemma: str, tag: str, agreement: str = "") -> str:
    """The form of a verb for a Penn Treebank tag; `be` also agrees with `I`, and in the past with number."""
    irregular = IRREGULAR_FORMS.get(f"{lemma} {tag} {agreement}") or IRREGULAR_FORMS.get(f"{lemma} {tag}")
    if irregular:
        return irregular
    if tag == "VBZ":
        return with_s(lemma)
    if tag == "VBG":
        return with_vowel_ending(lemma, "ing")
    if tag in ("VBD", "VBN"):
        past, participle = IRREGULAR_VERBS.get(lemma) or [with_vowel_ending(lemma, "ed")] * 2
        return past if tag == "VBD" else participle
    return lemma
