"""The grammar of the quickstart treebank: functions that draw phrases, from words up to sentences.

Every function takes the dice and returns a dependency tree. Where a word stands is told by the lists `left`
and `right` of the nodes. What it depends on is the node in whose list it stands, unless it is displaced: then
it names another node as its governor, and the sentence is non-projective.

A modifier follows its noun only where a reader can tell what it belongs to. Hence `depth`, which keeps
clauses out of the noun phrases inside other phrases, and `claims`, the phrases that the verb keeps for itself.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from random import Random
from typing import TypeVar

import quickstart_lexicon as lexicon
from quickstart_lexicon import NounClass, NounFrame, VerbFrame, Words

Option = TypeVar("Option")
Claims = Collection[tuple[str, "NounClass | None"]]

APART, GLUED, FUSED = "apart", "glued", "fused"
PAST, PRESENT = "past", "present"

CLAUSAL_LABELS = ("acl", "acl:relcl", "advcl", "ccomp", "xcomp", "parataxis")
VERB_FEATURES = {
    "VB": "VerbForm=Inf",
    "VBD": "Tense=Past",
    "VBG": "VerbForm=Ger",
    "VBN": "VerbForm=Part",
    "VBP": "Tense=Pres",
    "VBZ": "Number=Sing|Tense=Pres",
}


# Trees and chance


@dataclass(eq=False)
class Node:
    """A word with the phrases that stand to its left and right, each headed by a node."""

    form: str
    lemma: str
    upos: str
    xpos: str
    label: str = "root"
    feats: str = "_"
    left: list[Node] = field(default_factory=list)
    right: list[Node] = field(default_factory=list)
    governor: Node | None = None  # the head of a displaced phrase, which is not the node it stands beside
    written: str = APART  # GLUED: no space before it; FUSED: one multiword token with the word before it

    def labelled(self, label: str) -> Node:
        self.label = label
        return self


@dataclass
class Predicate:
    """A clause that still lacks subject and tense."""

    head: Node
    support: str = ""  # the label of the form of `be` that the head needs: "cop", "aux:pass" or none


@cache
def summed_zipf_weights(count: int) -> list[int]:
    """Running totals of weights that fall with rank; integers, so that every machine draws the same words."""
    return list(accumulate(1_000_000 // (rank + 6) for rank in range(count)))


class Dice:
    """All the chance in the treebank. The reserved words are drawn only while they are allowed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.reserved_allowed = False

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options: Sequence[Option]) -> Option:
        return options[int(self.random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[int, Option]]) -> Option:
        totals = list(accumulate(weight for weight, _ in options))
        return options[bisect(totals, int(self.random.random() * totals[-1]))][1]

    def word(self, words: Words) -> str:
        totals = summed_zipf_weights(len(words))
        while True:
            word = words[bisect(totals, int(self.random.random() * totals[-1]))]
            if self.reserved_allowed or word not in lexicon.RESERVED:
                return word


# Words


def determiner(form: str, number: str = "") -> Node:
    return Node(form, form, "DET", "DT", "det", f"Number={number}" if number else "_")


def preposition(form: str) -> Node:
    return Node(form, form, "ADP", "IN", "case")


def conjunction(form: str) -> Node:
    return Node(form, form, "CCONJ", "CC", "cc")


def subordinator(form: str) -> Node:
    return Node(form, form, "SCONJ", "IN", "mark")


def infinitive_marker() -> Node:
    return Node("to", "to", "PART", "TO", "mark")


def particle(form: str) -> Node:
    return Node(form, form, "ADP", "RP", "compound:prt")


def adverb(form: str, tag: str = "RB") -> Node:
    return Node(form, form, "ADV", tag, "advmod")


def adjective(form: str, label: str = "amod") -> Node:
    return Node(form, form, "ADJ", "JJ", label)


def interjection(form: str) -> Node:
    return Node(form, form, "INTJ", "UH", "discourse")


def noun(lemma: str, is_plural: bool = False) -> Node:
    if is_plural:
        return Node(lexicon.plural(lemma), lemma, "NOUN", "NNS", feats="Number=Plur")
    return Node(lemma, lemma, "NOUN", "NN", feats="Number=Sing")


def proper_noun(form: str) -> Node:
    return Node(form, form, "PROPN", "NNP", feats="Number=Sing")


def pronoun(lemma: str, form: str = "") -> Node:
    return Node(form or lemma, lemma, "PRON", "PRP", feats=lexicon.PRONOUN_FEATURES[lemma])


def wh_pronoun(form: str, tag: str = "WP") -> Node:
    return Node(form, form, "PRON", tag)


def verb(lemma: str) -> Node:
    """A verb in its base form; the clause or phrase that takes it will inflect it."""
    return Node(lemma, lemma, "VERB", "VB")


def auxiliary(lemma: str, label: str = "aux") -> Node:
    return Node(lemma, lemma, "AUX", "MD" if lemma in lexicon.MODALS else "VB", label)


def punctuation(form: str) -> Node:
    tag = {",": ",", ";": ":"}.get(form, ".")
    return Node(form, form, "PUNCT", tag, "punct", written=GLUED)


# Noun phrases


def noun_with_adjectives(dice: Dice, nouns: NounClass, is_plural: bool) -> Node:
    phrase = noun(dice.word(nouns.nouns), is_plural and nouns.countable)
    if nouns.modifiers and dice.chance(0.12):
        phrase.left.append(noun(dice.word(nouns.modifiers)).labelled("compound"))
    if nouns.described or dice.chance(0.28):
        phrase.left.insert(0, adjective_phrase(dice, nouns.adjectives))
    return phrase


def adjective_phrase(dice: Dice, adjectives: Words, label: str = "amod") -> Node:
    """An adjective, now and then with a degree or a second adjective: very old, old and tired."""
    phrase = adjective(dice.word(adjectives), label)
    if dice.chance(0.15):
        phrase.left.append(adverb(dice.word(lexicon.DEGREES)))
    elif dice.chance(0.06):
        other = dice.word(adjectives)
        if other != phrase.form:
            coordinate(phrase, adjective(other), dice.pick(("and", "but")))
    return phrase


def definite_determiner(dice: Dice, phrase: Node) -> Node:
    """the, my, Anna's, this: a word that agrees with the noun in number."""
    if dice.chance(0.62):
        return determiner("the")
    if dice.chance(0.66):
        return possessor(dice)
    if phrase.xpos == "NNS":
        return determiner(dice.pick(("these", "those")), "Plur")
    return determiner(dice.pick(("this", "that")), "Sing")


def indefinite_determiner(dice: Dice, phrase: Node, nouns: NounClass) -> Node | None:
    """a, some, two, every, or none at all."""
    if phrase.xpos == "NNS":
        if dice.chance(0.4):
            number = dice.word(lexicon.NUMERALS)
            return Node(number, number, "NUM", "CD", "nummod")
        return determiner(dice.pick(("some", "many", "no"))) if dice.chance(0.5) else None
    if not nouns.countable:
        return determiner(dice.pick(("some", "no"))) if dice.chance(0.4) else None
    if dice.chance(0.12):
        return determiner(dice.pick(("every", "no", "each")))
    article = determiner(lexicon.indefinite_article(first_word(phrase).form))
    article.lemma = "a"
    return article


def first_word(phrase: Node) -> Node:
    return first_word(phrase.left[0]) if phrase.left else phrase


def possessor(dice: Dice) -> Node:
    """my, Anna's, the farmer's."""
    if dice.chance(0.6):
        form = dice.pick(tuple(lexicon.POSSESSIVES))
        return Node(form, lexicon.POSSESSIVES[form], "PRON", "PRP$", "nmod:poss")
    owner = proper_noun(dice.word(lexicon.FIRST_NAMES))
    if dice.chance(0.5):
        owner = noun(dice.word(lexicon.PEOPLE.nouns))
        owner.left.append(determiner("the"))
    owner.right.append(Node("'s", "'s", "PART", "POS", "case", written=GLUED))
    return owner.labelled("nmod:poss")


def simple_noun_phrase(
    dice: Dice, nouns: NounClass, is_plural: bool | None = None, definite: bool | None = None
) -> Node:
    """A noun with what stands before it. What is not asked for is left to chance."""
    phrase = noun_with_adjectives(dice, nouns, dice.chance(0.3) if is_plural is None else is_plural)
    if definite or (definite is None and dice.chance(0.68)):
        phrase.left.insert(0, definite_determiner(dice, phrase))
    else:
        article = indefinite_determiner(dice, phrase, nouns)
        phrase.left[:0] = [article] if article else []
    return phrase


def name(dice: Dice) -> Node:
    phrase = proper_noun(dice.word(lexicon.FIRST_NAMES))
    if dice.chance(0.2):
        phrase.right.append(proper_noun(dice.word(lexicon.LAST_NAMES)).labelled("flat"))
    return phrase


def noun_phrase(dice: Dice, nouns: NounClass, depth: int, claims: Claims = ()) -> Node:
    """A noun phrase of any kind but a pronoun."""
    if nouns is lexicon.PEOPLE and dice.chance(0.3):
        return name(dice)
    if depth < 2 and dice.chance(0.08):
        return coordinate(
            noun_phrase(dice, nouns, 1, claims),
            noun_phrase(dice, nouns, 2, claims),
            dice.pick(("and", "and", "or")),
        )
    if depth == 0 and dice.chance(0.05) and frames_of(nouns, claims):
        return noun_phrase_with_contested_relative(dice, nouns, claims)
    phrase = simple_noun_phrase(dice, nouns)
    if nouns is lexicon.PLANS and depth < 2:
        phrase.right.append(infinitive(dice, lexicon.PEOPLE, depth + 1).labelled("acl"))
    elif depth < 2 and dice.chance(0.24 - 0.08 * depth):
        add_prepositional_modifier(dice, phrase, nouns, depth, claims)
    elif depth == 0 and dice.chance(0.18):
        phrase.right.append(clausal_modifier(dice, phrase, nouns))
    return phrase


def frames_of(nouns: NounClass, claims: Claims) -> list[NounFrame]:
    """What may modify these nouns and is not claimed by the verb."""
    return [
        frame
        for frame in lexicon.NOUN_FRAMES
        if frame.nouns is nouns and (frame.preposition, frame.complement) not in claims
    ]


def add_prepositional_modifier(
    dice: Dice, phrase: Node, nouns: NounClass, depth: int, claims: Claims
) -> None:
    frames = frames_of(nouns, claims)
    if frames:
        frame = dice.pick(frames)
        complement = noun_phrase(dice, frame.complement, depth + 1, claims)
        phrase.right.append(prepositional(frame.preposition, complement, "nmod"))


def prepositional(form: str, complement: Node, label: str) -> Node:
    complement.left.insert(0, preposition(form))
    return complement.labelled(label)


def coordinate(first: Node, second: Node, form: str) -> Node:
    """Join two phrases: the first is the head."""
    second.left.insert(0, conjunction(form))
    first.right.append(second.labelled("conj"))
    return first


def noun_phrase_with_contested_relative(dice: Dice, nouns: NounClass, claims: Claims) -> Node:
    """Two nouns before one relative clause, told apart by `who` or `that`, or else by the number of its verb."""
    frame = dice.pick(frames_of(nouns, claims))
    upper_is_plural = dice.chance(0.5)
    upper = simple_noun_phrase(dice, nouns, is_plural=upper_is_plural, definite=True)
    lower = simple_noun_phrase(dice, frame.complement, is_plural=not upper_is_plural, definite=True)
    upper.right.append(prepositional(frame.preposition, lower, "nmod"))
    antecedent, antecedent_class = dice.pick(((upper, nouns), (lower, frame.complement)))
    antecedent.right.append(subject_relative(dice, antecedent, antecedent_class, telling_number=True))
    return upper


def subject(dice: Dice, nouns: NounClass, depth: int) -> Node:
    if dice.chance(0.45 if nouns is lexicon.PEOPLE else 0.12):
        return subject_pronoun(dice, nouns)
    phrase = noun_phrase(dice, nouns, depth)
    if phrase.upos == "PROPN" and depth == 0 and not phrase.right and dice.chance(0.12):
        apposition = simple_noun_phrase(dice, lexicon.PEOPLE, is_plural=False)
        apposition.left.insert(0, punctuation(","))
        apposition.right.append(punctuation(","))
        phrase.right.append(apposition.labelled("appos"))
    return phrase


def subject_pronoun(dice: Dice, nouns: NounClass) -> Node:
    return pronoun(dice.pick(lexicon.SUBJECT_PRONOUNS if nouns.animate else ("it", "they")))


def object_phrase(dice: Dice, nouns: NounClass, depth: int, claims: Claims = ()) -> Node:
    if dice.chance(0.14):
        lemma = subject_pronoun(dice, nouns).lemma
        return pronoun(lemma, lexicon.OBJECT_FORMS[lemma]).labelled("obj")
    return noun_phrase(dice, nouns, depth, claims).labelled("obj")


# Clauses that modify nouns


def clausal_modifier(dice: Dice, antecedent: Node, nouns: NounClass) -> Node:
    if nouns in lexicon.LIVING:
        kinds = ((6, subject_relative), (4, object_relative), (3, active_participle))
    elif transitive_frames(nouns):
        kinds = ((4, subject_relative), (6, object_relative), (3, passive_participle))
    else:
        kinds = ((1, subject_relative),)
    return dice.weighted(kinds)(dice, antecedent, nouns)


def transitive_frames(nouns: NounClass) -> list[VerbFrame]:
    return [frame for frame in lexicon.TRANSITIVE if frame.object is nouns]


def relative_pronoun(dice: Dice, nouns: NounClass) -> Node:
    if nouns.animate:
        return wh_pronoun("who")
    return wh_pronoun(dice.pick(("that", "that", "which")), "WDT")


def subject_relative(dice: Dice, antecedent: Node, nouns: NounClass, telling_number: bool = False) -> Node:
    """the man who sings; in the present and without auxiliary where its number must tell the antecedent."""
    tense = PRESENT if telling_number else draw_tense(dice)
    content = predicate(dice, nouns, depth=1)
    relative = relative_pronoun(dice, nouns)
    return clause(dice, content, relative, tense, antecedent, plain=telling_number).labelled("acl:relcl")


def object_relative(dice: Dice, antecedent: Node, nouns: NounClass) -> Node:
    """the cake (that) Anna baked; now and then out of a deeper clause: the cake that I think Anna baked."""
    head = verb(dice.word(dice.pick(transitive_frames(nouns)).verbs))
    relative = clause(dice, Predicate(head), subject(dice, lexicon.PEOPLE, depth=2), draw_tense(dice))
    if dice.chance(0.08):
        return lift_out_of_thought(dice, relative, relative_pronoun(dice, nouns), "obj").labelled("acl:relcl")
    if dice.chance(0.65):
        relative.left.insert(0, relative_pronoun(dice, nouns).labelled("obj"))
    return relative.labelled("acl:relcl")


def lift_out_of_thought(dice: Dice, thought: Node, displaced: Node, label: str) -> Node:
    """Put a clause under `I think` and one of its dependents in front of it all."""
    thinker = pronoun(dice.pick(lexicon.SUBJECT_PRONOUNS))
    thinking = clause(dice, Predicate(verb(dice.pick(lexicon.OPINING))), thinker, PRESENT, plain=True)
    displaced.governor = thought
    thinking.left.insert(0, displaced.labelled(label))
    thinking.right.append(thought.labelled("ccomp"))
    return thinking


def active_participle(dice: Dice, antecedent: Node, nouns: NounClass) -> Node:
    """the man sleeping in the barn"""
    return inflect(idling(dice, nouns, depth=2).head, "VBG", antecedent).labelled("acl")


def passive_participle(dice: Dice, antecedent: Node, nouns: NounClass) -> Node:
    """the letter written by the queen"""
    head = inflect(verb(dice.word(dice.pick(transitive_frames(nouns)).verbs)), "VBN", antecedent)
    head.right.append(prepositional("by", noun_phrase(dice, lexicon.PEOPLE, 2), "obl"))
    return head.labelled("acl")


# Predicates: what is said of a subject


def predicate(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """Anything that may be said of such nouns, with or without manner and time."""
    if nouns.animate:
        kinds = CLAUSAL_PREDICATES if depth < 2 and dice.chance(0.2) else PERSONAL_PREDICATES
    else:
        kinds = PREDICATES_OF_ANIMALS if nouns in lexicon.LIVING else PREDICATES_OF_THINGS
    if not transitive_frames(nouns):
        kinds = ((1, quality),)
    content = dice.weighted(kinds)(dice, nouns, depth)
    if content.head.upos == "VERB" and not ends_in_clause(content.head):
        if dice.chance(0.12):
            content.head.right.append(adverb(dice.word(lexicon.MANNERS)))
        if depth < 2 and dice.chance(0.14):
            content.head.right.append(time_adjunct(dice))
    return content


def ends_in_clause(phrase: Node) -> bool:
    """Whether a clause stands last: it would swallow any modifier that followed."""
    return bool(phrase.right) and (
        phrase.right[-1].label in CLAUSAL_LABELS or ends_in_clause(phrase.right[-1])
    )


def time_adjunct(dice: Dice) -> Node:
    return dice.weighted(
        ((3, time_adverb), (3, unmarked_time), (2, part_of_day), (2, day), (3, time_of_event))
    )(dice)


def time_adverb(dice: Dice) -> Node:
    return adverb(dice.word(lexicon.MOMENTS))


def unmarked_time(dice: Dice) -> Node:
    """yesterday; every night"""
    if dice.chance(0.5):
        return noun(dice.pick(("yesterday", "today"))).labelled("obl:tmod")
    phrase = noun(dice.word(lexicon.SPANS_OF_TIME)).labelled("obl:tmod")
    modifier = adjective("last") if dice.chance(0.5) else determiner(dice.pick(("this", "every")))
    phrase.left.append(modifier)
    return phrase


def part_of_day(dice: Dice) -> Node:
    phrase = noun(dice.word(lexicon.PARTS_OF_DAY))
    phrase.left.append(determiner("the"))
    return prepositional("in", phrase, "obl")


def day(dice: Dice) -> Node:
    return prepositional("on", proper_noun(dice.word(lexicon.DAYS)), "obl")


def time_of_event(dice: Dice) -> Node:
    event = simple_noun_phrase(dice, lexicon.EVENTS, is_plural=False, definite=True)
    return prepositional(dice.pick(("after", "before", "during")), event, "obl")


def place(dice: Dice, depth: int) -> Node:
    """in the garden; in Rome; here"""
    if dice.chance(0.2):
        return adverb(dice.word(lexicon.LOCATIONS))
    if dice.chance(0.15):
        return prepositional("in", proper_noun(dice.word(lexicon.CITIES)), "obl")
    where = noun_phrase(dice, lexicon.PLACES, max(depth, 1))
    return prepositional(dice.pick(("in", "in", "near", "behind")), where, "obl")


def idling(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """slept in the garden"""
    head = verb(dice.word(lexicon.IDLING if nouns.animate else lexicon.IDLING_OF_ANIMALS))
    if dice.chance(0.45):
        head.right.append(place(dice, depth))
    return Predicate(head)


def moving(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """walked to the market; ran up the hill, where `up` is no particle"""
    head = verb(dice.word(lexicon.MOVING))
    goal, ways = dice.pick(
        (
            (lexicon.PLACES, ("to", "into", "through", "past")),
            (lexicon.HEIGHTS, ("up", "down", "over", "across")),
        )
    )
    head.right.append(prepositional(dice.pick(ways), noun_phrase(dice, goal, max(depth, 1)), "obl"))
    return Predicate(head)


def moving_off(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """stood up; ran back"""
    verbs, form = dice.pick(lexicon.PARTICLES_ALONE)
    head = verb(dice.word(verbs))
    head.right.append(particle(form))
    return Predicate(head)


def attending(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """looked at Anna; talked about the war"""
    verbs, form, complements = dice.pick(lexicon.PREPOSITIONAL_VERBS)
    head = verb(dice.word(verbs))
    head.right.append(prepositional(form, noun_phrase(dice, complements, depth), "obl"))
    return Predicate(head)


def transitive(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """saw the bird with the broken wing: whatever follows the object belongs to it"""
    return acting(dice, dice.pick(lexicon.TRANSITIVE), depth)


def acting(dice: Dice, frame: VerbFrame, depth: int) -> Predicate:
    head = verb(dice.word(frame.verbs))
    head.right.append(object_phrase(dice, frame.object, depth, claims_of(head.lemma)))
    return Predicate(head)


@cache
def claims_of(verb_lemma: str) -> Claims:
    """The prepositional phrases that attach to this verb and so never to the noun before them."""
    return tuple(
        (frame.preposition, frame.complement)
        for frame in lexicon.WITH_PREPOSITION
        if verb_lemma in frame.verbs
    )


def transitive_with_preposition(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """saw the bird with a telescope; put the cup on the table"""
    frame = dice.pick(lexicon.WITH_PREPOSITION)
    content = acting(dice, frame, max(depth, 1))
    complement = noun_phrase(dice, frame.complement, depth, claims_of(content.head.lemma))
    content.head.right.append(prepositional(frame.preposition, complement, "obl"))
    return content


def transitive_with_particle(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """picked up the coin; picked it up"""
    verbs, form, objects = dice.pick(lexicon.WITH_PARTICLE)
    head = verb(dice.word(verbs))
    thing = object_phrase(dice, objects, max(depth, 1))
    particle_last = thing.upos == "PRON" or (not thing.right and dice.chance(0.4))
    head.right = [thing, particle(form)] if particle_last else [particle(form), thing]
    return Predicate(head)


def giving(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """gave the boy a coin"""
    head = verb(dice.word(lexicon.GIVING))
    receiver = object_phrase(dice, lexicon.PEOPLE, depth=2).labelled("iobj")
    gift = noun_phrase(dice, dice.pick((lexicon.THINGS, lexicon.TEXTS, lexicon.FOODS)), max(depth, 1))
    head.right = [receiver, gift.labelled("obj")]
    return Predicate(head)


def passive(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """was found (by the king)"""
    head = verb(dice.word(dice.pick(transitive_frames(nouns)).verbs))
    if dice.chance(0.4):
        head.right.append(prepositional("by", noun_phrase(dice, lexicon.PEOPLE, max(depth, 1)), "obl"))
    return Predicate(head, "aux:pass")


def quality(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """was very old; was older than the king"""
    comparable = [word for word in nouns.adjectives if word in lexicon.COMPARATIVES]
    if not comparable or dice.chance(0.85):
        return Predicate(adjective_phrase(dice, nouns.adjectives), "cop")
    lemma = dice.pick(comparable)
    standard = simple_noun_phrase(dice, nouns, definite=True)
    head = Node(lexicon.COMPARATIVES[lemma], lemma, "ADJ", "JJR")
    head.right.append(prepositional("than", standard, "obl"))
    return Predicate(head, "cop")


def profession(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """was the king's friend"""
    return Predicate(simple_noun_phrase(dice, lexicon.PEOPLE, is_plural=False), "cop")


def location(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """was in the garden"""
    return Predicate(place(dice, depth), "cop")


def seeming(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """seemed very tired"""
    head = verb(dice.word(lexicon.SEEMING))
    head.right.append(adjective_phrase(dice, nouns.adjectives, "xcomp"))
    return Predicate(head)


def making(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """made the boy happy"""
    head = verb(dice.word(lexicon.MAKING))
    objects = dice.pick((lexicon.PEOPLE, lexicon.PLACES, lexicon.THINGS))
    head.right = [object_phrase(dice, objects, 2), adjective_phrase(dice, objects.adjectives, "xcomp")]
    return Predicate(head)


def reporting(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """said (that) Anna was ill, where `knew Anna` would have an object"""
    head = verb(dice.word(lexicon.SPEAKING_OR_THINKING))
    content = main_clause(dice, depth + 1)
    if dice.chance(0.5):
        content.left.insert(0, subordinator("that"))
    head.right.append(content.labelled("ccomp"))
    return Predicate(head)


def wondering(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """asked where Anna lived; knew whether she was at home"""
    head = verb(dice.word(lexicon.WONDERING))
    content = main_clause(dice, depth + 1)
    opening = subordinator(dice.pick(("if", "whether")))
    if dice.chance(0.6):
        opening = adverb(dice.word(lexicon.QUESTION_ADVERBS), "WRB")
    content.left.insert(0, opening)
    head.right.append(content.labelled("ccomp"))
    return Predicate(head)


def wanting(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """wanted to sleep"""
    head = verb(dice.word(lexicon.WANTING))
    head.right.append(infinitive(dice, nouns, depth + 1).labelled("xcomp"))
    return Predicate(head)


def urging(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """asked the boy to sleep"""
    head = verb(dice.word(lexicon.URGING))
    listener = object_phrase(dice, lexicon.PEOPLE, max(depth, 1))
    head.right = [listener, infinitive(dice, lexicon.PEOPLE, depth + 1).labelled("xcomp")]
    return Predicate(head)


def having_purpose(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """opened the box to find a coin"""
    content = acting(dice, dice.pick(lexicon.WITH_PURPOSE), max(depth, 1))
    content.head.right.append(infinitive(dice, lexicon.PEOPLE, depth + 1).labelled("advcl"))
    return content


PERSONAL_PREDICATES = (
    (22, transitive),
    (18, transitive_with_preposition),
    (12, idling),
    (7, moving),
    (3, moving_off),
    (8, attending),
    (7, transitive_with_particle),
    (6, giving),
    (2, passive),
    (5, quality),
    (3, profession),
    (2, location),
    (3, seeming),
    (3, making),
)
CLAUSAL_PREDICATES = ((8, reporting), (3, wondering), (7, wanting), (5, urging), (3, having_purpose))
PREDICATES_OF_ANIMALS = ((6, idling), (3, moving), (2, passive), (3, quality), (1, location), (1, seeming))
PREDICATES_OF_THINGS = ((3, passive), (3, quality))


# Clauses


def draw_tense(dice: Dice) -> str:
    return PAST if dice.chance(0.6) else PRESENT


def takes_singular_verb(subject: Node) -> bool:
    is_singular = subject.feats.startswith("Number=Sing") and subject.lemma != "I"
    return is_singular and not has_dependent(subject, "conj")


def be_form(tag: str, subject: Node) -> str:
    singular = takes_singular_verb(subject)
    if tag == "VBD":
        return "was" if singular or subject.lemma == "I" else "were"
    if tag in ("VBZ", "VBP"):
        return "is" if singular else "am" if subject.lemma == "I" else "are"
    return {"VBN": "been", "VBG": "being"}.get(tag, "be")


def inflect(word: Node, tag: str, subject: Node) -> Node:
    """Give a verb the form that its Penn Treebank tag names. Modals have but one."""
    if word.xpos != "MD":
        word.xpos = tag
        word.form = be_form(tag, subject) if word.lemma == "be" else lexicon.verb_form(word.lemma, tag)
        word.feats = VERB_FEATURES[tag]
    return word


def inflect_chain(verbs: list[Node], tense: str, subject: Node) -> None:
    """The first verb bears the tense and agrees with the subject; each of the others obeys the one before."""
    tag = "VBD" if tense == PAST else "VBZ" if takes_singular_verb(subject) else "VBP"
    for word in verbs:
        inflect(word, tag, subject)
        if word.lemma == "have":
            tag = "VBN"
        elif word.lemma == "be":
            tag = "VBN" if word.label == "aux:pass" else "VBG"
        else:
            tag = "VB"


def auxiliaries(dice: Dice, content: Predicate) -> list[Node]:
    """will; have; be: what stands before the verb besides its support"""
    chain = [auxiliary(dice.word(lexicon.MODALS))] if dice.chance(0.1) else []
    if dice.chance(0.1):
        chain.append(auxiliary("have"))
    elif not content.support and content.head.lemma not in lexicon.NOT_IN_PROGRESS and dice.chance(0.1):
        chain.append(auxiliary("be"))
    return chain


def verb_group(
    dice: Dice, content: Predicate, subject: Node, tense: str, plain: bool = False, inverted: bool = False
) -> list[Node]:
    """The auxiliaries, the negation and the support of a predicate, inflected together with its head."""
    verbs = [] if plain else auxiliaries(dice, content)
    if content.support:
        verbs.append(auxiliary("be", content.support))
    if content.head.upos == "VERB":
        verbs.append(content.head)
    negated = not plain and dice.chance(0.1)
    if verbs[0] is content.head and (negated or inverted):
        verbs.insert(0, auxiliary("do"))
    inflect_chain(verbs, tense, subject)
    if negated:
        verbs.insert(1, negation(dice, verbs[0]))
    return [word for word in verbs if word is not content.head]


def negation(dice: Dice, finite: Node) -> Node:
    """not, or n't in one token with the word before"""
    if finite.form in ("am", "may") or dice.chance(0.3):
        return Node("not", "not", "PART", "RB", "advmod")
    finite.form = lexicon.STEMS_BEFORE_NOT.get(finite.form, finite.form)
    return Node("n't", "not", "PART", "RB", "advmod", written=FUSED)


def clause(
    dice: Dice,
    content: Predicate,
    subject: Node,
    tense: str,
    agree_with: Node | None = None,
    plain: bool = False,
) -> Node:
    """Subject and predicate in their usual order. A relative pronoun agrees with its antecedent."""
    group = verb_group(dice, content, agree_with or subject, tense, plain)
    if subject.xpos == "PRP" and group:
        contract(dice, group)
    add_frequency(dice, content.head)
    content.head.left[:0] = [subject_of(content, subject), *group]
    return content.head


def subject_of(content: Predicate, subject: Node) -> Node:
    return subject.labelled("nsubj:pass" if content.support == "aux:pass" else "nsubj")


def contract(dice: Dice, group: list[Node]) -> None:
    """he is, he's: fuse the first auxiliary with the pronoun before it."""
    negated_in_one_word = len(group) > 1 and group[1].written == FUSED
    if group[0].form in lexicon.CONTRACTIONS and not negated_in_one_word and dice.chance(0.4):
        group[0].form = lexicon.CONTRACTIONS[group[0].form]
        group[0].written = FUSED


def add_frequency(dice: Dice, head: Node) -> None:
    if head.upos == "VERB" and dice.chance(0.07):
        head.left.append(adverb(dice.word(lexicon.FREQUENCIES)))


def inverted_clause(dice: Dice, content: Predicate, subject: Node, tense: str) -> Node:
    """The order of questions: finite verb, subject, the rest. A fused n't stays with its verb."""
    group = verb_group(dice, content, subject, tense, inverted=True)
    ahead = 2 if len(group) > 1 and group[1].written == FUSED else 1
    content.head.left[:0] = [*group[:ahead], subject_of(content, subject), *group[ahead:]]
    return content.head


def infinitive(dice: Dice, nouns: NounClass, depth: int) -> Node:
    """to sleep; to be found"""
    content = predicate(dice, nouns, depth)
    support = [auxiliary("be", content.support)] if content.support else []
    if content.head.upos == "VERB":
        inflect(content.head, "VBN" if support else "VB", content.head)
    content.head.left[:0] = [infinitive_marker(), *support]
    return content.head


def draw_subject_class(dice: Dice) -> NounClass:
    return dice.weighted(SUBJECT_CLASSES)


SUBJECT_CLASSES = (
    (70, lexicon.PEOPLE),
    (4, lexicon.KIN),
    (11, lexicon.ANIMALS),
    (5, lexicon.THINGS),
    (3, lexicon.TEXTS),
    (2, lexicon.FOODS),
    (2, lexicon.BUILDINGS),
    (2, lexicon.PLACES),
    (1, lexicon.PARTS_OF_BUILDINGS),
)


def main_clause(dice: Dice, depth: int) -> Node:
    return clause_about(dice, draw_subject_class(dice), depth)


def clause_about(dice: Dice, nouns: NounClass, depth: int) -> Node:
    topic, tense = subject(dice, nouns, depth), draw_tense(dice)
    head = clause(dice, predicate(dice, nouns, depth), topic, tense)
    if depth == 0 and not ends_in_clause(head) and dice.chance(0.08):
        other = predicate(dice, nouns, depth=1)
        other.head.left[:0] = verb_group(dice, other, topic, tense, plain=True)
        coordinate(head, other.head, dice.pick(("and", "and", "but", "or")))
    return head


# Sentences


def statement(dice: Dice) -> Node:
    """A main clause, perhaps with something before it and something after it."""
    head = main_clause(dice, depth=0)
    may_continue = not ends_in_clause(head) and not has_dependent(head, "conj")
    if dice.chance(0.2):
        dice.weighted(OPENINGS)(dice, head)
    if may_continue and dice.chance(0.22):
        dice.weighted(CONTINUATIONS)(dice, head)
    elif dice.chance(0.06):
        dice.pick((add_parenthesis, add_vocative))(dice, head)
    return with_final(head, "!" if dice.chance(0.02) else ".")


def has_dependent(head: Node, label: str) -> bool:
    return any(child.label == label for child in head.right)


def with_final(head: Node, mark: str) -> Node:
    head.right.append(punctuation(mark))
    return head


def open_with(head: Node, opening: Node) -> None:
    opening.right.append(punctuation(","))
    head.left.insert(0, opening)


def open_with_clause(dice: Dice, head: Node) -> None:
    """When Anna came, ..."""
    open_with(head, subordinate_clause(dice))


def subordinate_clause(dice: Dice) -> Node:
    opening = main_clause(dice, depth=1)
    opening.left.insert(0, subordinator(dice.word(lexicon.SUBORDINATORS)))
    return opening.labelled("advcl")


def open_with_time(dice: Dice, head: Node) -> None:
    """On Monday, ... or, without the comma, On Monday ..."""
    if dice.chance(0.5):
        open_with(head, time_adjunct(dice))
    else:
        head.left.insert(0, time_adjunct(dice))


def open_with_interjection(dice: Dice, head: Node) -> None:
    open_with(head, interjection(dice.word(lexicon.INTERJECTIONS)))


def open_with_vocative(dice: Dice, head: Node) -> None:
    open_with(head, name(dice).labelled("vocative"))


OPENINGS = (
    (4, open_with_clause),
    (4, open_with_time),
    (3, open_with_interjection),
    (1, open_with_vocative),
)


def continue_with_reason(dice: Dice, head: Node) -> None:
    """... because Anna slept"""
    head.right.append(subordinate_clause(dice))


def continue_with_clause(dice: Dice, head: Node) -> None:
    """... , but Anna slept"""
    other = coordinate(head, main_clause(dice, depth=1), dice.pick(("and", "and", "but", "or"))).right[-1]
    if dice.chance(0.5):
        other.left.insert(0, punctuation(","))


def continue_with_parataxis(dice: Dice, head: Node) -> None:
    """... ; Anna slept"""
    other = main_clause(dice, depth=1)
    other.left.insert(0, punctuation(";"))
    head.right.append(other.labelled("parataxis"))


CONTINUATIONS = ((4, continue_with_reason), (4, continue_with_clause), (1, continue_with_parataxis))


def add_parenthesis(dice: Dice, head: Node) -> None:
    """... , I think"""
    comment = clause(
        dice,
        Predicate(verb(dice.pick(lexicon.OPINING))),
        subject(dice, lexicon.PEOPLE, 2),
        PRESENT,
        plain=True,
    )
    comment.left.insert(0, punctuation(","))
    head.right.append(comment.labelled("parataxis"))


def add_vocative(dice: Dice, head: Node) -> None:
    """... , Anna"""
    listener = name(dice).labelled("vocative")
    listener.left.append(punctuation(","))
    head.right.append(listener)


def statement_opened_by_participle(dice: Dice) -> Node:
    """Singing in the garden, Anna saw a bird."""
    head = clause_about(dice, lexicon.PEOPLE, depth=1)
    opening = inflect(idling(dice, lexicon.PEOPLE, depth=1).head, "VBG", head)
    open_with(head, opening.labelled("advcl"))
    return with_final(head, ".")


def existential(dice: Dice) -> Node:
    """There is a bird with a red tail in the garden."""
    found, form, places = dice.pick(lexicon.FOUND_IN_PLACES)
    place_phrase = prepositional(form, simple_noun_phrase(dice, places, is_plural=False), "obl")
    thing = simple_noun_phrase(dice, found, definite=False)
    if dice.chance(0.4):
        add_prepositional_modifier(dice, thing, found, 1, [(form, places)])
    head = verb("be")
    inflect_chain([head], draw_tense(dice), thing)
    there = Node("there", "there", "PRON", "EX", "expl")
    head.left = [there]
    head.right = [thing.labelled("nsubj"), place_phrase]
    return with_final(head, ".")


def command(dice: Dice) -> Node:
    """Open the door! Don't wake the baby, Anna."""
    head = inflect(dice.weighted(ACTIONS)(dice, lexicon.PEOPLE, 1).head, "VB", pronoun("you"))
    if dice.chance(0.2):
        prohibition = auxiliary("do")
        head.left[:0] = [inflect(prohibition, "VB", head), negation(dice, prohibition)]
    if dice.chance(0.15):
        open_with(head, interjection("please"))
    elif dice.chance(0.3):
        dice.pick((open_with_vocative, add_vocative))(dice, head)
    return with_final(head, dice.pick(("!", ".")))


ACTIONS = (
    (4, transitive_with_preposition),
    (2, transitive_with_particle),
    (2, moving),
    (1, moving_off),
    (2, giving),
    (1, attending),
    (1, making),
)


def yes_no_question(dice: Dice) -> Node:
    """Didn't Anna see the bird?"""
    nouns = draw_subject_class(dice)
    topic = subject(dice, nouns, depth=1)
    head = inverted_clause(dice, predicate(dice, nouns, depth=1), topic, draw_tense(dice))
    if dice.chance(0.12):
        add_vocative(dice, head)
    return with_final(head, "?")


def adverb_question(dice: Dice) -> Node:
    """Why did Anna laugh?"""
    topic = subject(dice, lexicon.PEOPLE, depth=1)
    content = dice.weighted(PERSONAL_PREDICATES)(dice, lexicon.PEOPLE, 1)
    head = inverted_clause(dice, content, topic, draw_tense(dice))
    head.left.insert(0, adverb(dice.word(lexicon.QUESTION_ADVERBS), "WRB"))
    return with_final(head, "?")


def subject_question(dice: Dice) -> Node:
    """Who saw the bird?"""
    content = predicate(dice, lexicon.PEOPLE, depth=1)
    head = clause(dice, content, wh_pronoun("who"), draw_tense(dice), agree_with=pronoun("he"))
    return with_final(head, "?")


def object_question(dice: Dice) -> Node:
    """What did Anna see? Which bird did she see?"""
    head, asked = question_with_gap(dice)
    head.left.insert(0, asked.labelled("obj"))
    return with_final(head, "?")


def question_with_gap(dice: Dice) -> tuple[Node, Node]:
    """A question that lacks its object, and the phrase that asks for it."""
    frame = dice.pick(lexicon.TRANSITIVE)
    topic = subject(dice, lexicon.PEOPLE, depth=2)
    head = inverted_clause(dice, Predicate(verb(dice.word(frame.verbs))), topic, draw_tense(dice))
    return head, asking_phrase(dice, frame.object)


def asking_phrase(dice: Dice, nouns: NounClass) -> Node:
    """who, what or which bird"""
    if dice.chance(0.6):
        return wh_pronoun("who" if nouns.animate else "what")
    phrase = noun_with_adjectives(dice, nouns, dice.chance(0.3))
    phrase.left.insert(0, Node("which", "which", "DET", "WDT", "det"))
    return phrase


def fragment(dice: Dice) -> Node:
    """Yes, Anna. A new hat? Very tired!"""
    head = dice.weighted(FRAGMENTS)(dice)
    if dice.chance(0.2):
        return head
    return with_final(head, dice.pick((".", "!", "?")))


def answer(dice: Dice) -> Node:
    head = interjection(dice.word(lexicon.INTERJECTIONS)).labelled("root")
    if dice.chance(0.6):
        add_vocative(dice, head)
    return head


def heading(dice: Dice) -> Node:
    nouns = dice.pick((lexicon.THINGS, lexicon.TEXTS, lexicon.ANIMALS, lexicon.PEOPLE))
    return noun_phrase(dice, nouns, depth=1).labelled("root")


def exclamation(dice: Dice) -> Node:
    return adjective_phrase(dice, lexicon.TEMPERS, "root")


def plain_order(dice: Dice) -> Node:
    return verb(dice.word(lexicon.IDLING))


FRAGMENTS = ((3, answer), (5, heading), (2, exclamation), (1, plain_order))


# Sentences with a displaced phrase


def displaced_object_question(dice: Dice) -> Node:
    """What do you think Anna saw? What does Anna want to buy?"""
    frame = dice.pick(lexicon.TRANSITIVE)
    asked = asking_phrase(dice, frame.object).labelled("obj")
    gapped = Predicate(verb(dice.word(frame.verbs)))
    if dice.chance(0.5):
        asked.governor = inflect(gapped.head, "VB", gapped.head).labelled("xcomp")
        gapped.head.left.append(infinitive_marker())
        asking = verb(dice.word(lexicon.WANTING))
    else:
        topic = subject(dice, lexicon.PEOPLE, depth=2)
        asked.governor = clause(dice, gapped, topic, draw_tense(dice)).labelled("ccomp")
        asking = verb(dice.pick(lexicon.OPINING))
    return displaced_question(dice, asking, asked)


def displaced_subject_question(dice: Dice) -> Node:
    """Who do you think saw the bird?"""
    content = predicate(dice, lexicon.PEOPLE, depth=1)
    asked = wh_pronoun("who")
    thought = clause(dice, content, asked, draw_tense(dice), agree_with=pronoun("he"))
    thought.left.remove(asked)
    asked.governor = thought.labelled("ccomp")
    return displaced_question(dice, verb(dice.pick(lexicon.OPINING)), asked)


def displaced_question(dice: Dice, asking: Node, asked: Node) -> Node:
    """Ask in the words of one clause for a part of the clause beneath it."""
    head = inverted_clause(dice, Predicate(asking), subject(dice, lexicon.PEOPLE, depth=2), draw_tense(dice))
    head.left.insert(0, asked)
    head.right.append(asked.governor)
    return with_final(head, "?")


def stranded_preposition(dice: Dice) -> Node:
    """Who did Anna dance with?"""
    verbs, form, complements = dice.pick(lexicon.PREPOSITIONAL_VERBS)
    asked = asking_phrase(dice, complements).labelled("obl")
    topic = subject(dice, lexicon.PEOPLE, depth=2)
    head = inverted_clause(dice, Predicate(verb(dice.word(verbs))), topic, draw_tense(dice))
    stranded = preposition(form)
    stranded.governor = asked
    head.left.insert(0, asked)
    head.right.append(stranded)
    return with_final(head, "?")


def extraposed_from_subject(dice: Dice) -> Node:
    """A man arrived yesterday who sells books. A letter appeared on Monday about the war."""
    nouns = dice.pick((lexicon.PEOPLE, lexicon.TEXTS))
    topic = simple_noun_phrase(dice, nouns)
    head = verb(dice.word(lexicon.ARRIVING if nouns.animate else lexicon.APPEARING))
    head = clause(dice, Predicate(head), topic, PAST, plain=True)
    head.right.append(time_adjunct(dice))
    return extrapose(dice, head, topic, nouns)


def extraposed_from_object(dice: Dice) -> Node:
    """She met a man yesterday who sells books."""
    frame = dice.pick(lexicon.TRANSITIVE)
    thing = simple_noun_phrase(dice, frame.object).labelled("obj")
    head = verb(dice.word(frame.verbs))
    head.right = [thing, time_adjunct(dice)]
    topic = subject_pronoun(dice, lexicon.PEOPLE)
    return extrapose(dice, clause(dice, Predicate(head), topic, draw_tense(dice)), thing, frame.object)


def extrapose(dice: Dice, head: Node, antecedent: Node, nouns: NounClass) -> Node:
    """Let a modifier of the antecedent stand at the end of the clause."""
    if nouns is lexicon.TEXTS:
        modifier = prepositional("about", simple_noun_phrase(dice, lexicon.EVENTS), "nmod")
    else:
        modifier = subject_relative(dice, antecedent, nouns)
    modifier.governor = antecedent
    head.right.append(modifier)
    return with_final(head, ".")


SENTENCES = (
    (650, statement),
    (20, statement_opened_by_participle),
    (35, existential),
    (60, command),
    (60, yes_no_question),
    (20, adverb_question),
    (15, subject_question),
    (20, object_question),
    (60, fragment),
    (10, displaced_object_question),
    (6, displaced_subject_question),
    (5, stranded_preposition),
    (8, extraposed_from_subject),
    (6, extraposed_from_object),
)


def sentence(dice: Dice) -> Node:
    """The root of one sentence, drawn from the whole grammar."""
    return dice.weighted(SENTENCES)(dice)
