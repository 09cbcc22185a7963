"""The grammar of the quickstart treebank: small functions that draw phrases, from noun phrases to sentences.

A phrase grows outwards from its head: each dependent joins before or after all the words that are there. It may
also depend on a word further inside, away from which it then stands: so arise the non-projective sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import treebank_lexicon as lexicon
from treebank_lexicon import Dice, Words

Claims = Collection[lexicon.Modifier]  # what a verb takes, and so no noun after it
PAST, PRESENT = "past", "present"
CLAUSES = ("acl:relcl", "advcl", "ccomp", "xcomp")


@dataclass(eq=False)
class Word:
    form: str
    upos: str
    xpos: str
    lemma: str
    number: str = ""
    joined: bool = False  # to the word before it, without a space
    head: Word | None = None
    label: str = "root"


@dataclass
class Phrase:
    """A tree: its head, and all its words in order."""

    head: Word
    words: list[Word]

    def before(self, label: str, dependent: Phrase, head: Word | None = None) -> Phrase:
        """Put a phrase in front of this one and let it depend on our head, or on another of our words."""
        dependent.head.label, dependent.head.head = label, head or self.head
        self.words[:0] = dependent.words
        return self

    def after(self, label: str, dependent: Phrase, head: Word | None = None) -> Phrase:
        dependent.head.label, dependent.head.head = label, head or self.head
        self.words += dependent.words
        return self

    def holds_clause(self) -> bool:
        """Whether a clause in it would swallow what follows."""
        return any(word.label in CLAUSES for word in self.words)


def word(form: str, upos: str, xpos: str, lemma: str = "", number: str = "", joined: bool = False) -> Phrase:
    only = Word(form, upos, xpos, lemma or form, number, joined)
    return Phrase(only, [only])


# Noun phrases


def adverb(dice: Dice, adverbs: Words) -> Phrase:
    return word(dice.word(adverbs), "ADV", "RB")


def adjective(dice: Dice, kind: str) -> Phrase:
    phrase = word(dice.word(lexicon.ADJECTIVES[kind]), "ADJ", "JJ")
    return phrase.before("advmod", adverb(dice, lexicon.DEGREES)) if dice.chance(0.15) else phrase


def noun(lemma: str, number: str) -> Phrase:
    form, tag = (lexicon.plural(lemma), "NNS") if number == "Plur" else (lemma, "NN")
    return word(form, "NOUN", tag, lemma, number)


def name(dice: Dice) -> Phrase:
    phrase = word(dice.word(lexicon.FIRST_NAMES), "PROPN", "NNP", number="Sing")
    if dice.chance(0.2):
        phrase.after("flat", word(dice.word(lexicon.LAST_NAMES), "PROPN", "NNP", number="Sing"))
    return phrase


def determine(dice: Dice, phrase: Phrase) -> Phrase:
    """the letter; a letter; these letters; two letters; my letter; Anna's letter"""
    number = phrase.head.number
    match dice.weighted(DETERMINERS[number]):
        case "name's":
            owner = name(dice).after("case", word("'s", "PART", "POS", joined=True))
            return phrase.before("nmod:poss", owner)
        case "my":
            return phrase.before("nmod:poss", word(dice.pick(lexicon.POSSESSIVES), "PRON", "PRP$"))
        case "two":
            return phrase.before("nummod", word(dice.word(lexicon.NUMERALS), "NUM", "CD"))
        case "none":
            return phrase
        case "a":
            article = lexicon.indefinite_article(phrase.words[0].form)
            return phrase.before("det", word(article, "DET", "DT", "a"))
        case form:
            return phrase.before("det", word(form, "DET", "DT", *lexicon.DEMONSTRATIVES.get(form, ())))


DETERMINERS = {
    "Sing": {"the": 46, "a": 29, "every": 4, "this": 4, "that": 3, "name's": 6, "my": 8},
    "Plur": {"the": 46, "none": 15, "some": 14, "two": 4, "these": 4, "those": 3, "name's": 6, "my": 8},
}


def simple_noun_phrase(dice: Dice, kind: str, number: str = "") -> Phrase:
    """A noun with what stands before it: the small silver boxes"""
    phrase = noun(dice.word(lexicon.NOUNS[kind]), number or dice.weighted({"Sing": 7, "Plur": 3}))
    if kind in ("things", "places") and dice.chance(0.12):
        phrase.before("compound", noun(dice.word(lexicon.MATERIALS), "Sing"))
    if dice.chance(0.22):
        phrase.before("amod", adjective(dice, kind))
    return determine(dice, phrase)


def noun_phrase(dice: Dice, kind: str, depth: int, claims: Claims = ()) -> Phrase:
    """A name, or a noun and what follows it, but for the modifiers that the verb before it claims."""
    if kind == "people" and dice.chance(0.4):
        return name(dice)
    phrase = simple_noun_phrase(dice, kind)
    modifiers = [modifier for modifier in lexicon.NOUN_FRAMES[kind] if modifier not in claims]
    match dice.weighted(EXTENSIONS[min(depth, 2)]):
        case "modifier" if modifiers:
            phrase.after("nmod", prepositional(dice, *dice.pick(modifiers), depth + 1))
        case "relative clause":
            phrase.after("acl:relcl", relative_clause(dice, kind, phrase.head.number))
        case "contested relative clause" if modifiers:
            add_contested_relative(dice, phrase, kind, *dice.pick(modifiers))
        case "conjunct":
            coordinate(phrase, simple_noun_phrase(dice, kind), "and")
    return phrase


EXTENSIONS: tuple[dict[str, int], ...] = (  # by depth
    {"none": 60, "modifier": 18, "relative clause": 11, "contested relative clause": 6, "conjunct": 5},
    {"none": 86, "modifier": 10, "conjunct": 4},
    {"none": 1},
)


def coordinate(first: Phrase, second: Phrase, conjunction: str) -> Phrase:
    return first.after("conj", second.before("cc", word(conjunction, "CCONJ", "CC")))


def prepositional(dice: Dice, preposition: str, kind: str, depth: int, claims: Claims = ()) -> Phrase:
    return noun_phrase(dice, kind, depth, claims).before("case", word(preposition, "ADP", "IN"))


def argument(dice: Dice, kind: str, depth: int, claims: Claims = (), is_object: bool = False) -> Phrase:
    """A subject or an object: a pronoun or a noun phrase."""
    if dice.chance(0.5 if kind == "people" and not is_object else 0.18):
        lemma = dice.pick(lexicon.PERSONAL_PRONOUNS if kind == "people" else lexicon.THING_PRONOUNS)
        object_form, number = lexicon.PRONOUNS[lemma]
        return word(object_form if is_object else lemma, "PRON", "PRP", lemma, number)
    return noun_phrase(dice, kind, depth, claims)


# Relative clauses


def relative_pronoun(dice: Dice, kind: str) -> Phrase:
    form, tag = ("who", "WP") if kind == "people" else (dice.pick(("that", "which")), "WDT")
    return word(form, "PRON", tag)


def relative_clause(dice: Dice, kind: str, number: str) -> Phrase:
    """(the girl) who sings; (the letter) (that) Anna wrote"""
    if dice.chance(0.5):
        return subject_relative(dice, kind, number)
    clause = finite_clause(dice, without_object(dice, kind), argument(dice, "people", 2))
    return clause.before("obj", relative_pronoun(dice, kind)) if dice.chance(0.6) else clause


def subject_relative(dice: Dice, kind: str, number: str, tense: str = "") -> Phrase:
    return finite_clause(dice, predicate(dice, kind, 1), relative_pronoun(dice, kind), number, tense)


def add_contested_relative(dice: Dice, upper: Phrase, kind: str, preposition: str, lower_kind: str) -> None:
    """(the dogs) of the king that sleep: the number of the verb tells which noun the clause modifies"""
    lower = simple_noun_phrase(dice, lower_kind, "Plur" if upper.head.number == "Sing" else "Sing")
    upper.after("nmod", lower.before("case", word(preposition, "ADP", "IN")))
    antecedent, kind = dice.pick(((upper.head, kind), (lower.head, lower_kind)))
    upper.after("acl:relcl", subject_relative(dice, kind, antecedent.number, PRESENT), head=antecedent)


# Predicates: what is said of a subject


@dataclass
class Predicate:
    """A clause that still lacks its subject and its finite verb."""

    phrase: Phrase
    support: str = ""  # the label of the form of `be` that the head needs: "cop", "aux:pass" or none


def verb(dice: Dice, lemmas: Words) -> Phrase:
    return word(dice.word(lemmas), "VERB", "VB")


def without_object(dice: Dice, kind: str) -> Predicate:
    """A transitive verb whose object of this kind stands elsewhere."""
    return Predicate(verb(dice, dice.pick(lexicon.TAKING_OBJECT[kind]).verbs))


def acting(dice: Dice, kind: str, depth: int) -> Predicate:
    """sleep; look at Anna; read a letter; pick it up; put the cup on the table"""
    frame = dice.pick(dice.weighted(lexicon.FRAMES_BY_SUBJECT[kind]))
    lemma, _, particle = dice.word(frame.verbs).partition("+")
    claims = lexicon.CLAIMED.get(lemma, ())
    phrase = word(lemma, "VERB", "VB")
    thing = argument(dice, frame.object, depth, claims, is_object=True) if frame.object else None
    if particle and not (thing and thing.head.upos == "PRON"):
        phrase.after("compound:prt", word(particle, "ADP", "RP"))
    if thing:
        phrase.after("obj", thing)
    if particle and thing and thing.head.upos == "PRON":
        phrase.after("compound:prt", word(particle, "ADP", "RP"))
    if frame.preposition:
        phrase.after("obl", prepositional(dice, frame.preposition, frame.complement, depth + 1, claims))
    return Predicate(phrase)


def passive(dice: Dice, kind: str, depth: int) -> Predicate:
    """(be) found by the king"""
    phrase = without_object(dice, kind).phrase
    if dice.chance(0.4):
        phrase.after("obl", prepositional(dice, "by", "people", depth + 1))
    return Predicate(phrase, "aux:pass")


def quality(dice: Dice, kind: str, depth: int) -> Predicate:
    """(be) very old"""
    return Predicate(adjective(dice, kind), "cop")


def seeming(dice: Dice, kind: str, depth: int) -> Predicate:
    """seem very old"""
    return Predicate(verb(dice, lexicon.SEEMING).after("xcomp", adjective(dice, kind)))


def reporting(dice: Dice, kind: str, depth: int) -> Predicate:
    """know (that) Anna slept, where `know Anna` would have an object"""
    content = main_clause(dice, depth + 1)
    if dice.chance(0.5):
        content.before("mark", word("that", "SCONJ", "IN"))
    return Predicate(verb(dice, lexicon.REPORTING).after("ccomp", content))


def wanting(dice: Dice, kind: str, depth: int) -> Predicate:
    """want to sleep"""
    return Predicate(verb(dice, lexicon.WANTING).after("xcomp", infinitive(predicate(dice, kind, depth + 1))))


PREDICATES = dict.fromkeys(lexicon.NOUNS, {passive: 1, quality: 1}) | {
    "people": {acting: 68, passive: 3, quality: 7, seeming: 5, reporting: 9, wanting: 8},
    "animals": {acting: 12, passive: 2, quality: 3, seeming: 1},
}


def predicate(dice: Dice, kind: str, depth: int) -> Predicate:
    """Anything that may be said of such a subject, now and then with manner or time."""
    drawn = dice.weighted(PREDICATES[kind])(dice, kind, depth)
    if drawn.phrase.head.upos == "VERB" and not drawn.phrase.holds_clause():
        if dice.chance(0.1):
            drawn.phrase.after("advmod", adverb(dice, lexicon.MANNERS))
        if dice.chance(0.1):
            drawn.phrase.after(*when(dice))
    return drawn


def when(dice: Dice) -> tuple[str, Phrase]:
    return ("advmod", adverb(dice, lexicon.MOMENTS)) if dice.chance(0.5) else ("obl", on_weekday(dice))


def on_weekday(dice: Dice) -> Phrase:
    day = word(dice.word(lexicon.DAYS), "PROPN", "NNP", number="Sing")
    return day.before("case", word("on", "ADP", "IN"))


# Verb groups


def auxiliary(lemma: str, label: str = "aux") -> Phrase:
    phrase = word(lemma, "AUX", "MD" if lemma in lexicon.MODALS else "VB")
    phrase.head.label = label
    return phrase


def inflect(verbs: list[Word], tag: str, agreement: str = "") -> None:
    """Give the first verb the form of a tag, and each other verb the form that the one before asks for."""
    for verb in verbs:
        if verb.xpos == "VB":
            verb.form, verb.xpos = lexicon.verb_form(verb.lemma, tag, agreement), tag
            verb.number = "Sing" if tag == "VBZ" or verb.form == "was" else ""
        before_participle = verb.lemma == "have" or verb.label == "aux:pass"
        tag = "VBN" if before_participle else "VBG" if verb.lemma == "be" else "VB"


def auxiliaries_of(dice: Dice, lacking: Predicate) -> list[Phrase]:
    """will; have; be"""
    auxiliaries = [auxiliary(dice.word(lexicon.MODALS))] if dice.chance(0.1) else []
    may_progress = not lacking.support and lacking.phrase.head.lemma not in lexicon.NEVER_PROGRESSIVE
    if dice.chance(0.08):
        auxiliaries.append(auxiliary("have"))
    elif may_progress and dice.chance(0.1):
        auxiliaries.append(auxiliary("be"))
    return auxiliaries


def agreement_of(subject: Phrase) -> str:
    if any(word.label == "conj" and word.head is subject.head for word in subject.words):
        return "Plur"
    return "I" if subject.head.lemma == "I" else subject.head.number


def verb_group(dice: Dice, lacking: Predicate, agreement: str, tense: str, inverted: bool) -> list[Phrase]:
    """Inflect the verb and whatever stands before it, which is nothing optional where a tense is asked for."""
    group = [] if tense else auxiliaries_of(dice, lacking)
    group += [auxiliary("be", lacking.support)] if lacking.support else []
    is_negated = not tense and dice.chance(0.1)
    if not group and (is_negated or inverted):
        group.append(auxiliary("do"))
    is_past = tense == PAST or (not tense and dice.chance(0.6))
    tag = "VBD" if is_past else "VBZ" if agreement == "Sing" else "VBP"
    inflect([phrase.head for phrase in (*group, lacking.phrase)], tag, agreement)
    if is_negated and group[0].head.form != "am":
        group.insert(1, negation(group[0].head))
    return group


def negation(finite: Word) -> Phrase:
    finite.form = lexicon.STEMS_BEFORE_NOT.get(finite.form, finite.form)
    phrase = word("n't", "PART", "RB", "not", joined=True)
    phrase.head.label = "advmod"
    return phrase


# Clauses


def finite_clause(
    dice: Dice,
    lacking: Predicate,
    subject: Phrase,
    agreement: str = "",
    tense: str = "",
    inverted: bool = False,
) -> Phrase:
    """Give a predicate its subject and its finite verb; questions let the two trade places."""
    subject.head.label = "nsubj:pass" if lacking.support == "aux:pass" else "nsubj"
    group = verb_group(dice, lacking, agreement or agreement_of(subject), tense, inverted)
    is_negated = len(group) > 1 and group[1].head.lemma == "not"
    if subject.head.xpos == "PRP" and group and not (is_negated or inverted) and dice.chance(0.4):
        contract(group[0].head)
    group.insert((1 + is_negated) * inverted, subject)
    for dependent in reversed(group):
        lacking.phrase.before(dependent.head.label, dependent)
    return lacking.phrase


def contract(finite: Word) -> None:
    """he is, he's"""
    finite.joined = finite.form in lexicon.CONTRACTIONS
    finite.form = lexicon.CONTRACTIONS.get(finite.form, finite.form)


def infinitive(lacking: Predicate) -> Phrase:
    """to sleep; to be found"""
    group = [auxiliary("be", lacking.support)] if lacking.support else []
    inflect([phrase.head for phrase in (*group, lacking.phrase)], "VB")
    for support in group:
        lacking.phrase.before(lacking.support, support)
    return lacking.phrase.before("mark", word("to", "PART", "TO"))


def main_clause(dice: Dice, depth: int, inverted: bool = False) -> Phrase:
    kind = dice.weighted({"people": 76, "animals": 13, "things": 4, "texts": 3, "foods": 2, "places": 2})
    clause = finite_clause(dice, predicate(dice, kind, depth), argument(dice, kind, depth), inverted=inverted)
    return clause


# Sentences


def punctuation(form: str) -> Phrase:
    return word(form, "PUNCT", "," if form == "," else ".", joined=True)


def statement(dice: Dice) -> Phrase:
    """A main clause, now and then with another clause or a time before or after it."""
    clause = main_clause(dice, 0)
    may_go_on = not clause.holds_clause()
    match dice.weighted(
        {"plain": 66, "reason": 8, "second clause": 8, "opening": 7, "time": 6, "vocative": 5}
    ):
        case "reason" if may_go_on:
            clause.after("advcl", subordinate_clause(dice))
        case "second clause" if may_go_on:
            coordinate(clause, main_clause(dice, 1), dice.pick(("and", "but")))
        case "opening":
            clause.before("advcl", subordinate_clause(dice).after("punct", punctuation(",")))
        case "time":
            clause.before("obl", on_weekday(dice).after("punct", punctuation(",")))
        case "vocative":
            clause.before("vocative", name(dice).after("punct", punctuation(",")))
    return clause.after("punct", punctuation("."))


def subordinate_clause(dice: Dice) -> Phrase:
    return main_clause(dice, 1).before("mark", word(dice.word(lexicon.SUBORDINATORS), "SCONJ", "IN"))


def yes_no_question(dice: Dice) -> Phrase:
    return main_clause(dice, 1, inverted=True).after("punct", punctuation("?"))


def subject_question(dice: Dice) -> Phrase:
    """Who saw the bird?"""
    who = word("who", "PRON", "WP")
    return finite_clause(dice, predicate(dice, "people", 1), who, "Sing").after("punct", punctuation("?"))


def object_question(dice: Dice) -> Phrase:
    """What did Anna see? Often of another clause: What do you think Anna saw? What did she want to see?"""
    kind = dice.pick(tuple(lexicon.TAKING_OBJECT))
    seeing, asked = without_object(dice, kind), word("who" if kind == "people" else "what", "PRON", "WP")
    subject, seen = argument(dice, "people", 2), seeing.phrase.head
    match dice.weighted({"plain": 4, "think": 5, "want": 2}):
        case "think":
            thought = finite_clause(dice, seeing, argument(dice, "people", 2))
            asking = Predicate(verb(dice, lexicon.OPINING).after("ccomp", thought))
        case "want":
            asking = Predicate(verb(dice, lexicon.WANTING).after("xcomp", infinitive(seeing)))
        case _:
            asking = seeing
    clause = finite_clause(dice, asking, subject, inverted=True)
    return clause.before("obj", asked, head=seen).after("punct", punctuation("?"))


def extraposition(dice: Dice) -> Phrase:
    """A man arrived yesterday who sells books."""
    noun = simple_noun_phrase(dice, "people")
    arriving = Predicate(verb(dice, lexicon.ARRIVING).after(*when(dice)))
    clause = finite_clause(dice, arriving, noun, tense=PAST)
    relative = subject_relative(dice, "people", noun.head.number)
    return clause.after("acl:relcl", relative, head=noun.head).after("punct", punctuation("."))


def command(dice: Dice) -> Phrase:
    """Open the box! Don't wait, Anna!"""
    order = acting(dice, "people", 1).phrase
    if dice.chance(0.2):
        do = auxiliary("do")
        order.before("advmod", negation(do.head)).before("aux", do)
    if dice.chance(0.2):
        order.after("vocative", name(dice).before("punct", punctuation(",")))
    return order.after("punct", punctuation(dice.pick((".", "!"))))


def fragment(dice: Dice) -> Phrase:
    """Anna Brown; the old house in the village; very old"""
    kind = dice.pick(tuple(lexicon.NOUNS))
    phrase = adjective(dice, kind) if dice.chance(0.2) else noun_phrase(dice, kind, 1)
    return phrase.after("punct", punctuation(dice.pick((".", "!", "?")))) if dice.chance(0.7) else phrase


SENTENCES: dict[Callable[[Dice], Phrase], int] = {
    statement: 66,
    yes_no_question: 7,
    subject_question: 3,
    object_question: 4,
    extraposition: 2,
    command: 9,
    fragment: 9,
}


def sentence(dice: Dice) -> Phrase:
    return dice.weighted(SENTENCES)(dice)
