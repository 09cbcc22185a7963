"""The words of the quickstart treebank: what there is to say, and how each word is inflected.

Word lists run from frequent to rare, since the grammar draws them by rank. Which words go together is data
too: a `NounFrame` says which prepositional phrase a noun takes, a `VerbFrame` which objects and prepositional
phrases a verb takes. These two tables decide every contested attachment of the treebank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Words = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NounClass:
    """Nouns that fit the same places, with the words that may modify them."""

    nouns: Words
    adjectives: Words
    modifiers: Words = ()
    countable: bool = True
    animate: bool = False
    described: bool = False  # never without an adjective: a dog with a leg is no news


@dataclass(frozen=True)
class NounFrame:
    """A noun takes this prepositional phrase: `the letter from the king`."""

    nouns: NounClass
    preposition: str
    complement: NounClass


@dataclass(frozen=True)
class VerbFrame:
    """A verb takes such an object: `read the letter`."""

    verbs: Words
    object: NounClass


@dataclass(frozen=True)
class PrepositionalVerbFrame(VerbFrame):
    """A verb takes a prepositional phrase besides its object: `put the cup on the table`."""

    preposition: str
    complement: NounClass


def words(text: str) -> Words:
    return tuple(text.split())


# Adjectives

SIZES_AND_COLOURS = words("""
    old new small big red long white black green blue heavy round strange broken clean empty cheap pretty
    dirty soft huge grey yellow thin plain narrow brown wide simple shiny ugly thick rusty
    smooth pale fancy curious tiny solid worn bright purple fragile dusty neat crooked odd splendid
    modest sturdy faded precious polished spotted elegant clumsy
""")
TEMPERS = words("""
    young old happy kind tall poor clever tired sad rich angry brave proud quiet shy famous polite lazy wise
    honest rude calm lonely gentle hungry nervous merry cruel jolly busy loyal cheerful strict patient bold
    vain grumpy careful jealous sleepy modest humble silly stubborn anxious noble fierce timid generous
""")
TASTES = words("""
    fresh sweet hot cold good warm sour dry tasty ripe bitter salty spicy rotten mild stale crisp delicious
""")
MOODS_OF_PLACES = words("""
    old small quiet dark big cold busy new empty warm famous noisy lovely ruined distant dusty sunny gloomy
    crowded peaceful lonely grand shabby ancient snowy muddy
""")
COMPARATIVES = {
    "old": "older",
    "young": "younger",
    "tall": "taller",
    "rich": "richer",
    "poor": "poorer",
    "kind": "kinder",
    "small": "smaller",
    "big": "bigger",
    "heavy": "heavier",
    "clean": "cleaner",
    "quiet": "quieter",
    "wise": "wiser",
}

# Nouns

PEOPLE = NounClass(
    words("""
        man woman boy girl child friend teacher doctor farmer king nurse baker queen driver guest sailor
        painter singer guard cook writer hunter judge student thief pilot waiter priest soldier lawyer poet
        actor dancer clerk tailor miller captain artist prince witch widow monk uncle aunt cousin porter
        rider spy knight maid clown mayor hero butcher potter barber coach banker plumber gardener weaver
        rival tutor tenant merchant stranger orphan hermit duke tourist scholar jeweller
    """),
    TEMPERS,
    words("village army school palace city court ship hotel"),
    animate=True,
)
KIN = NounClass(
    words("son daughter brother sister mother father wife"),
    TEMPERS,
    animate=True,
)
ANIMALS = NounClass(
    words("""
        dog cat bird horse cow fox mouse hen goat duck bear wolf sheep pig lion owl frog rabbit goose donkey
        bee snake crow swan deer spider tiger turtle eagle otter parrot camel monkey hare lamb calf moth
        badger beetle whale seal lizard raven stork hamster mole falcon
    """),
    SIZES_AND_COLOURS,
    words("farm forest mountain circus house"),
)
FOODS = NounClass(
    words("""
        apple cake egg pie pear plum carrot onion potato cherry lemon nut peach loaf pancake melon biscuit
        bean bun fig tart radish turnip sandwich sausage muffin
    """),
    TASTES,
    words("kitchen holiday garden birthday"),
)
SUPPLIES = NounClass(
    words(
        "bread milk tea rice water soup honey cheese butter wine salt coffee meat sugar jam flour juice oil"
    ),
    TASTES,
    countable=False,
)
TEXTS = NounClass(
    words("book letter story poem song note report novel essay tale diary message article review play"),
    words("long short new old sad funny strange good famous secret boring clever dull curious"),
    words("love travel school war newspaper"),
)
THINGS = NounClass(
    words("""
        box coin bag coat ring cup hat ball lamp clock plate shoe basket bottle bell mirror vase kite drum
        glove purse toy candle jar bowl pillow scarf umbrella violin blanket wallet button helmet ribbon
        carpet statue wagon lantern kettle flute globe crown anchor barrel teapot necklace trophy puppet
    """),
    SIZES_AND_COLOURS,
    words("kitchen silver paper winter glass leather gold garden copper"),
)
PLACES = NounClass(
    words("""
        garden village park kitchen forest market shop school office station barn farm library museum hotel
        town mill harbour inn cave theatre valley palace yard chapel meadow cellar attic prison bakery
        tavern orchard stable temple factory abbey vineyard gallery
    """),
    MOODS_OF_PLACES,
    words("village city palace country stone hotel"),
)
BUILDINGS = NounClass(
    words("house church castle tower cottage hut villa mansion temple lighthouse"),
    MOODS_OF_PLACES,
    words("stone village family country"),
)
HEIGHTS = NounClass(words("hill street path road bridge mountain ladder wall"), MOODS_OF_PLACES)
SURFACES = NounClass(
    words("table shelf desk bench bed floor chair stove sofa"),
    SIZES_AND_COLOURS,
    words("kitchen garden office"),
)
PARTS_OF_BUILDINGS = NounClass(
    words("roof door window gate chimney balcony"),
    SIZES_AND_COLOURS,
    described=True,
)
PARTS_OF_ANIMALS = NounClass(
    words("tail leg ear nose eye paw"),
    words("broken long white black short grey"),
    described=True,
)
FEATURES = NounClass(
    words("beard hat smile voice scar nose"),
    words("long red strange big white soft sad"),
    described=True,
)
TOOLS = NounClass(
    words("knife hammer stick brush axe spoon rope spade fork broom"),
    SIZES_AND_COLOURS,
)
LENSES = NounClass(words("telescope camera lens torch"), SIZES_AND_COLOURS)
ROUTES = NounClass(words("key road way path ticket map"), SIZES_AND_COLOURS)
VESSELS = NounClass(words("cup glass bottle bag bowl jar"), SIZES_AND_COLOURS)
EVENTS = NounClass(
    words("war storm party wedding fire flood race trip feast meeting match concert strike"),
    words("long great last terrible famous first"),
)
LIVING = (PEOPLE, KIN, ANIMALS)
PLANS = NounClass(words("plan chance wish right promise order"), words("new secret good last"))

FIRST_NAMES = words("""
    Tom Anna Mary John Eva Paul Lucy Max Emma Peter Clara Ben Nora Sam Ida Jack Rose Leo Alice Hugo Ruth
    Felix Jane Oscar Ella Frank Grace Adam Martha Simon Olive David Helen Henry Julia Karl Agnes Victor
    Edith Philip Irene Walter Flora George Hazel Bruno Vera Arthur Sylvia Conrad
""")
LAST_NAMES = words("""
    Brown Smith Gray Wood Hill Stone Moore Fox King Bell Young Reed Cole Marsh Carter Lane Hart Webb Frost
    Burns Porter Nash Doyle Hale Pratt Quinn Lowe Finch
""")
CITIES = words("Paris Rome London Oslo Vienna Berlin Madrid Athens Dublin Prague Lisbon Cairo")
DAYS = words("Monday Sunday Friday Tuesday Saturday")
PARTS_OF_DAY = words("morning evening afternoon summer winter spring")
SPANS_OF_TIME = words("week year summer month winter")

# Verbs

SPEAKING_OR_THINKING = words("""
    think say know believe hope hear claim see guess notice forget learn remember fear feel doubt admit deny
""")
OPINING = words("think believe say")
WONDERING = words("know ask wonder forget learn remember")
WANTING = words("want try need hope plan decide refuse learn promise agree forget love")
URGING = words("ask tell help want force teach order invite allow beg")
SEEMING = words("seem look feel become sound remain")
MAKING = words("make find keep consider")
GIVING = words("give show send lend offer bring hand sell")
IDLING = words("""
    sleep laugh wait sing smile arrive dance cry work leave fall rest stay swim shout whistle play wake
    cough disappear snore pray shiver kneel blush giggle tremble nap starve faint quarrel sneeze hesitate
""")
IDLING_OF_ANIMALS = words("sleep run bark jump play eat swim sing hide bite wait growl die drink howl graze")
MOVING = words("walk run go come hurry ride drive step march wander rush return sail crawl limp")
ARRIVING = words("arrive come call appear leave")
APPEARING = words("appear arrive come")
NOT_IN_PROGRESS = words("""
    know love like believe want need seem become see hear fear own hate sound remain doubt remember have
    trust admire notice forget guess agree find lose promise refuse
""")

PREPOSITIONAL_VERBS = (
    (words("look laugh point shout smile stare"), "at", PEOPLE),
    (words("listen talk speak write pray"), "to", PEOPLE),
    (words("dance talk play argue live dine"), "with", PEOPLE),
    (words("wait care pay search"), "for", PEOPLE),
    (words("talk dream think complain worry"), "about", EVENTS),
    (words("sit stand lie sleep"), "on", SURFACES),
    (words("live work stay sit hide"), "in", PLACES),
)

TRANSITIVE = (
    VerbFrame(
        words("see love meet know like follow help watch hear thank miss visit trust fear praise"), PEOPLE
    ),
    VerbFrame(
        words("see love watch feed find catch follow chase hear own paint fear wash count tame"), ANIMALS
    ),
    VerbFrame(words("eat cook want taste like share buy slice peel bake"), FOODS),
    VerbFrame(words("want drink like need buy fetch taste heat"), SUPPLIES),
    VerbFrame(words("read write like burn love print know finish study copy praise recite"), TEXTS),
    VerbFrame(
        words("find buy lose want like break open clean fix need wash drop paint own admire repair"), THINGS
    ),
    VerbFrame(words("visit like know leave clean love own guard search"), PLACES),
    VerbFrame(words("see build buy visit like paint sell love own admire enter"), BUILDINGS),
    VerbFrame(words("find lose know need want draw study"), ROUTES),
    VerbFrame(words("like remember hate fear enjoy watch describe"), EVENTS),
    VerbFrame(words("open close clean paint fix lock repair"), PARTS_OF_BUILDINGS),
    VerbFrame(words("have make remember forget"), PLANS),
    VerbFrame(words("see meet know help visit love"), KIN),
    VerbFrame(words("want bring buy fill need"), VESSELS),
)
WITH_PURPOSE = (
    VerbFrame(words("buy open break clean paint"), THINGS),
    VerbFrame(words("fetch buy heat"), SUPPLIES),
    VerbFrame(words("visit leave search"), PLACES),
    VerbFrame(words("catch feed wash"), ANIMALS),
)
WITH_PREPOSITION = (
    PrepositionalVerbFrame(words("cut open fix clean break hit"), THINGS, "with", TOOLS),
    PrepositionalVerbFrame(words("cut taste eat stir"), FOODS, "with", TOOLS),
    PrepositionalVerbFrame(words("hit clean open paint repair"), PARTS_OF_BUILDINGS, "with", TOOLS),
    PrepositionalVerbFrame(words("see watch spot find"), PEOPLE, "with", LENSES),
    PrepositionalVerbFrame(words("see watch spot find"), ANIMALS, "with", LENSES),
    PrepositionalVerbFrame(words("see watch spot"), BUILDINGS, "with", LENSES),
    PrepositionalVerbFrame(words("put leave keep place drop"), THINGS, "on", SURFACES),
    PrepositionalVerbFrame(words("put leave keep hide"), THINGS, "under", SURFACES),
    PrepositionalVerbFrame(words("put leave keep place"), TEXTS, "on", SURFACES),
    PrepositionalVerbFrame(words("meet kiss greet marry hug"), PEOPLE, "in", PLACES),
    PrepositionalVerbFrame(words("feed catch chase keep meet"), ANIMALS, "in", PLACES),
    PrepositionalVerbFrame(words("send bring take sell lend"), THINGS, "to", PEOPLE),
    PrepositionalVerbFrame(words("send read bring hand"), TEXTS, "to", PEOPLE),
    PrepositionalVerbFrame(words("carry take bring drag"), THINGS, "to", PLACES),
    PrepositionalVerbFrame(words("take steal borrow buy get"), THINGS, "from", PEOPLE),
    PrepositionalVerbFrame(words("take steal borrow hide"), TEXTS, "from", PEOPLE),
    PrepositionalVerbFrame(words("bake cook buy make"), FOODS, "for", PEOPLE),
    PrepositionalVerbFrame(words("ask tell warn remind"), PEOPLE, "about", EVENTS),
    PrepositionalVerbFrame(words("ask tell warn"), PEOPLE, "about", ANIMALS),
)
WITH_PARTICLE = (
    (words("pick"), "up", THINGS),
    (words("put"), "down", THINGS),
    (words("throw give"), "away", THINGS),
    (words("bring give send"), "back", THINGS),
    (words("write put"), "down", TEXTS),
    (words("tear"), "up", TEXTS),
    (words("wake call"), "up", PEOPLE),
    (words("lock clean"), "up", BUILDINGS),
    (words("eat finish"), "up", FOODS),
    (words("drink use"), "up", SUPPLIES),
)
PARTICLES_ALONE = (
    (words("sit lie"), "down"),
    (words("stand get wake give"), "up"),
    (words("come run"), "back"),
    (words("go move"), "away"),
)

NOUN_FRAMES = (
    NounFrame(PEOPLE, "with", FEATURES),
    NounFrame(PEOPLE, "with", LENSES),
    NounFrame(PEOPLE, "with", TOOLS),
    NounFrame(PEOPLE, "in", PLACES),
    NounFrame(KIN, "of", PEOPLE),
    NounFrame(ANIMALS, "with", PARTS_OF_ANIMALS),
    NounFrame(ANIMALS, "in", PLACES),
    NounFrame(TEXTS, "about", EVENTS),
    NounFrame(TEXTS, "about", ANIMALS),
    NounFrame(TEXTS, "from", PEOPLE),
    NounFrame(TEXTS, "on", SURFACES),
    NounFrame(THINGS, "on", SURFACES),
    NounFrame(THINGS, "under", SURFACES),
    NounFrame(BUILDINGS, "with", PARTS_OF_BUILDINGS),
    NounFrame(BUILDINGS, "near", PLACES),
    NounFrame(PARTS_OF_BUILDINGS, "of", BUILDINGS),
    NounFrame(ROUTES, "to", PLACES),
    NounFrame(VESSELS, "of", SUPPLIES),
    NounFrame(EVENTS, "in", PLACES),
)

FOUND_IN_PLACES = (
    (ANIMALS, "in", PLACES),
    (PEOPLE, "in", PLACES),
    (THINGS, "on", SURFACES),
    (TEXTS, "on", SURFACES),
    (SUPPLIES, "in", PLACES),
)

# Adverbs and words of the closed classes

MANNERS = words("""
    quickly slowly quietly well loudly carefully gladly badly gently sadly calmly suddenly bravely happily
    politely softly kindly proudly angrily secretly eagerly boldly lazily warmly cheerfully nervously
""")
FREQUENCIES = words("often always sometimes usually still")
DEGREES = words("very too quite so rather really")
DEGREES_BEFORE_NOUNS = words("very really")
MOMENTS = words("soon again later early now late then")
LOCATIONS = words("here there outside upstairs nearby abroad")
QUESTION_ADVERBS = words("where when why how")
MODALS = words("will can must may should could")
NUMERALS = words("two three four five six ten seven eight")
INTERJECTIONS = words("well yes oh no ah indeed")
SUBORDINATORS = words("when because if while although before after until since")

POSSESSIVES = {"my": "I", "his": "he", "her": "she", "their": "they", "our": "we", "your": "you"}
SUBJECT_PRONOUNS = words("he she they I we you")
OBJECT_FORMS = {"he": "him", "she": "her", "they": "them", "it": "it"}
OBJECT_PRONOUNS = words("he she they")
THING_PRONOUNS = words("it they")
PRONOUN_NUMBERS = {"I": "Sing", "he": "Sing", "she": "Sing", "it": "Sing", "we": "Plur", "they": "Plur"}
CONTRACTIONS = {"is": "'s", "are": "'re", "am": "'m", "have": "'ve", "has": "'s", "will": "'ll"}
STEMS_BEFORE_NOT = {"can": "ca", "will": "wo"}

OPEN_CLASSES = (
    PEOPLE.nouns,
    ANIMALS.nouns,
    FOODS.nouns,
    THINGS.nouns,
    PLACES.nouns,
    FIRST_NAMES,
    LAST_NAMES,
    CITIES,
    SIZES_AND_COLOURS,
    TEMPERS,
    MANNERS,
    IDLING,
)
RESERVED = frozenset(word for open_class in OPEN_CLASSES for word in open_class[5::5])

# Inflection

IRREGULAR_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "wife": "wives",
    "thief": "thieves",
    "mouse": "mice",
    "goose": "geese",
    "sheep": "sheep",
    "deer": "deer",
    "wolf": "wolves",
    "calf": "calves",
    "loaf": "loaves",
    "shelf": "shelves",
    "scarf": "scarves",
    "knife": "knives",
    "potato": "potatoes",
    "hero": "heroes",
}
IRREGULAR_VERBS = {
    "become": ("became", "become"),
    "bite": ("bit", "bitten"),
    "break": ("broke", "broken"),
    "bring": ("brought", "brought"),
    "build": ("built", "built"),
    "buy": ("bought", "bought"),
    "catch": ("caught", "caught"),
    "come": ("came", "come"),
    "cut": ("cut", "cut"),
    "do": ("did", "done"),
    "draw": ("drew", "drawn"),
    "drink": ("drank", "drunk"),
    "drive": ("drove", "driven"),
    "eat": ("ate", "eaten"),
    "fall": ("fell", "fallen"),
    "feed": ("fed", "fed"),
    "feel": ("felt", "felt"),
    "find": ("found", "found"),
    "forget": ("forgot", "forgotten"),
    "get": ("got", "got"),
    "give": ("gave", "given"),
    "go": ("went", "gone"),
    "have": ("had", "had"),
    "hear": ("heard", "heard"),
    "hide": ("hid", "hidden"),
    "hit": ("hit", "hit"),
    "keep": ("kept", "kept"),
    "kneel": ("knelt", "knelt"),
    "know": ("knew", "known"),
    "leave": ("left", "left"),
    "lend": ("lent", "lent"),
    "lie": ("lay", "lain"),
    "lose": ("lost", "lost"),
    "make": ("made", "made"),
    "meet": ("met", "met"),
    "pay": ("paid", "paid"),
    "put": ("put", "put"),
    "read": ("read", "read"),
    "ride": ("rode", "ridden"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "see": ("saw", "seen"),
    "sell": ("sold", "sold"),
    "send": ("sent", "sent"),
    "show": ("showed", "shown"),
    "sing": ("sang", "sung"),
    "sit": ("sat", "sat"),
    "sleep": ("slept", "slept"),
    "speak": ("spoke", "spoken"),
    "stand": ("stood", "stood"),
    "steal": ("stole", "stolen"),
    "swim": ("swam", "swum"),
    "take": ("took", "taken"),
    "teach": ("taught", "taught"),
    "tear": ("tore", "torn"),
    "tell": ("told", "told"),
    "think": ("thought", "thought"),
    "throw": ("threw", "thrown"),
    "wake": ("woke", "woken"),
    "write": ("wrote", "written"),
}
IRREGULAR_PRESENTS = {"have": "has", "do": "does", "go": "goes"}
IRREGULAR_GERUNDS = {"lie": "lying", "die": "dying", "forget": "forgetting", "admit": "admitting"}
VOWEL_SOUND = re.compile(r"(?!uni|us)[aeiou]|hon|hour")
SHORT_STEM = re.compile(r"[^aeiou]*[aeiou][bdgmnprt]")


def with_s(word: str) -> str:
    """The ending that the plural of nouns and the third person of verbs share."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def indefinite_article(next_word: str) -> str:
    return "an" if VOWEL_SOUND.match(next_word) else "a"


def plural(noun: str) -> str:
    return IRREGULAR_PLURALS.get(noun) or with_s(noun)


def with_vowel_ending(verb: str, ending: str) -> str:
    """Join -ed or -ing: stop, stopped; hope, hoping; carry, carried."""
    if verb.endswith("e") and not (verb.endswith("ee") and ending == "ing"):
        return verb[:-1] + ending
    if verb.endswith("y") and verb[-2] not in "aeiou" and ending == "ed":
        return verb[:-1] + "ied"
    if SHORT_STEM.fullmatch(verb) or verb in ("admit", "quarrel"):
        return verb + verb[-1] + ending
    return verb + ending


def verb_form(lemma: str, tag: str) -> str:
    """The form of a verb other than `be` that a Penn Treebank tag asks for."""
    if tag == "VBZ":
        return IRREGULAR_PRESENTS.get(lemma) or with_s(lemma)
    if tag == "VBG":
        return IRREGULAR_GERUNDS.get(lemma) or with_vowel_ending(lemma, "ing")
    if tag in ("VBD", "VBN"):
        past, participle = IRREGULAR_VERBS.get(lemma) or (with_vowel_ending(lemma, "ed"),) * 2
        return past if tag == "VBD" else participle
    return lemma
