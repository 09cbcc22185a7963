"""The grammar of the quickstart treebank: functions that draw phrases, from noun phrases up to main clauses.

A modifier follows its noun only where a reader can tell what it belongs to. Hence `depth`, which keeps
clauses out of noun phrases inside other phrases, and `claims`, the phrases that a verb keeps for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache

import quickstart_lexicon as lexicon
from quickstart_lexicon import NounClass, NounFrame, VerbFrame, Words
from quickstart_tree import (
    FUSED,
    GLUED,
    Dice,
    Node,
    adjective,
    adverb,
    auxiliary,
    conjunction,
    determiner,
    infinitive_marker,
    noun,
    particle,
    preposition,
    pronoun,
    proper_noun,
    punctuation,
    subordinator,
    verb,
    wh_pronoun,
)

Claims = Collection[tuple[str, NounClass]]

PAST, PRESENT = "past", "present"
CLAUSAL_LABELS = ("acl", "acl:relcl", "advcl", "ccomp", "xcomp", "parataxis")


@dataclass
class Predicate:
    """A clause that still lacks subject and tense."""

    head: Node
    support: str = ""  # the label of the form of `be` that the head needs: "cop", "aux:pass" or none


PredicateKinds = tuple[tuple[int, Callable[[Dice, NounClass, int], Predicate]], ...]


# Noun phrases


def noun_with_adjectives(dice: Dice, nouns: NounClass, is_plural: bool) -> Node:
    phrase = noun(dice.word(nouns.nouns), is_plural and nouns.countable)
    if nouns.modifiers and dice.chance(0.08):
        phrase.left.append(noun(dice.word(nouns.modifiers)).labelled("compound"))
    if nouns.described or dice.chance(0.16):
        phrase.left.insert(0, attribute(dice, nouns.adjectives))
    return phrase


def adjective_phrase(dice: Dice, adjectives: Words, label: str, degrees: Words) -> Node:
    """An adjective, now and then with a degree or a second adjective: very old, old and tired."""
    phrase = adjective(dice.word(adjectives), label)
    if dice.chance(0.15):
        phrase.left.append(adverb(dice.word(degrees)))
    elif dice.chance(0.06):
        other = dice.word(adjectives)
        if other != phrase.form:
            coordinate(phrase, adjective(other), dice.pick(("and", "but")))
    return phrase


def attribute(dice: Dice, adjectives: Words) -> Node:
    return adjective_phrase(dice, adjectives, "amod", lexicon.DEGREES_BEFORE_NOUNS)


def quality_named(dice: Dice, adjectives: Words, label: str) -> Node:
    """An adjective away from its noun, where more degrees are idiomatic: so old, but not a so old house."""
    return adjective_phrase(dice, adjectives, label, lexicon.DEGREES)


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
        return determiner(dice.pick(("some", "many"))) if dice.chance(0.5) else None
    if not nouns.countable:
        return determiner("some") if dice.chance(0.4) else None
    if dice.chance(0.05):
        return determiner(dice.pick(("every", "each")))
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
    if definite or (definite is None and dice.chance(0.7)):
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
    if nouns is lexicon.PEOPLE and dice.chance(0.4):
        return name(dice)
    if depth < 2 and dice.chance(0.07 - 0.04 * depth):
        return coordinate(
            noun_phrase(dice, nouns, 1, claims),
            noun_phrase(dice, nouns, 2, claims),
            dice.pick(("and", "and", "or")),
        )
    if depth == 0 and dice.chance(0.08) and frames_of(nouns, claims):
        return noun_phrase_with_contested_relative(dice, nouns, claims)
    phrase = simple_noun_phrase(dice, nouns)
    if nouns is lexicon.PLANS and depth < 2:
        phrase.right.append(infinitive(dice, lexicon.PEOPLE, depth + 1).labelled("acl"))
    elif depth < 2 and dice.chance(0.24 - 0.14 * depth):
        add_prepositional_modifier(dice, phrase, nouns, depth, claims)
    elif depth == 0 and dice.chance(0.2):
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
    """Two nouns before a relative clause: `who` or `that`, or else the number of its verb, tells which."""
    frame = dice.pick(frames_of(nouns, claims))
    upper_is_plural = dice.chance(0.5)
    upper = simple_noun_phrase(dice, nouns, is_plural=upper_is_plural, definite=True)
    lower = simple_noun_phrase(dice, frame.complement, is_plural=not upper_is_plural, definite=True)
    upper.right.append(prepositional(frame.preposition, lower, "nmod"))
    antecedent, antecedent_class = dice.pick(((upper, nouns), (lower, frame.complement)))
    antecedent.right.append(subject_relative(dice, antecedent, antecedent_class, telling_number=True))
    return upper


def subject(dice: Dice, nouns: NounClass, depth: int) -> Node:
    if dice.chance(0.55 if nouns is lexicon.PEOPLE else 0.15):
        return subject_pronoun(dice, nouns)
    phrase = noun_phrase(dice, nouns, depth)
    if phrase.upos == "PROPN" and depth == 0 and not phrase.right and dice.chance(0.4):
        apposition = simple_noun_phrase(dice, lexicon.PEOPLE, is_plural=False)
        apposition.left.insert(0, punctuation(","))
        apposition.right.append(punctuation(","))
        phrase.right.append(apposition.labelled("appos"))
    return phrase


def subject_pronoun(dice: Dice, nouns: NounClass) -> Node:
    return pronoun(dice.pick(lexicon.SUBJECT_PRONOUNS if nouns.animate else lexicon.THING_PRONOUNS))


def object_phrase(dice: Dice, nouns: NounClass, depth: int, claims: Claims = ()) -> Node:
    if dice.chance(0.2):
        lemma = dice.pick(lexicon.OBJECT_PRONOUNS if nouns.animate else lexicon.THING_PRONOUNS)
        return pronoun(lemma, lexicon.OBJECT_FORMS[lemma]).labelled("obj")
    return noun_phrase(dice, nouns, depth, claims).labelled("obj")


# Clauses that modify nouns


def clausal_modifier(dice: Dice, antecedent: Node, nouns: NounClass) -> Node:
    if nouns in lexicon.LIVING:
        kind = dice.weighted(((6, subject_relative), (4, object_relative), (3, active_participle)))
    elif transitive_frames(nouns):
        kind = dice.weighted(((4, subject_relative), (6, object_relative), (3, passive_participle)))
    else:
        kind = subject_relative
    return kind(dice, antecedent, nouns)


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
    head = inflect(idling(dice, nouns, depth=2).head, "VBG")
    if not head.right:
        head.right.append(place(dice, depth=2))
    return head.labelled("acl")


def passive_participle(dice: Dice, antecedent: Node, nouns: NounClass) -> Node:
    """the letter written by the queen"""
    head = inflect(verb(dice.word(dice.pick(transitive_frames(nouns)).verbs)), "VBN")
    head.right.append(prepositional("by", noun_phrase(dice, lexicon.PEOPLE, 2), "obl"))
    return head.labelled("acl")


# Predicates: what is said of a subject


def predicate(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """Anything that may be said of such nouns, with or without manner and time."""
    content = dice.weighted(predicates_of(dice, nouns, depth))(dice, nouns, depth)
    if content.head.upos == "VERB" and not ends_in_clause(content.head):
        if dice.chance(0.08):
            content.head.right.append(adverb(dice.word(lexicon.MANNERS)))
        if depth < 2 and dice.chance(0.07):
            content.head.right.append(time_adjunct(dice))
    return content


def predicates_of(dice: Dice, nouns: NounClass, depth: int) -> PredicateKinds:
    if nouns.animate:
        return CLAUSAL_PREDICATES if dice.chance(0.2 - 0.1 * depth) else PERSONAL_PREDICATES
    if nouns in lexicon.LIVING:
        return PREDICATES_OF_ANIMALS
    return PREDICATES_OF_THINGS if transitive_frames(nouns) else PREDICATES_OF_TOOLS


def ends_in_clause(phrase: Node) -> bool:
    """Whether a clause stands last: it would swallow any modifier that followed."""
    return bool(phrase.right) and (
        phrase.right[-1].label in CLAUSAL_LABELS or ends_in_clause(phrase.right[-1])
    )


def time_adjunct(dice: Dice) -> Node:
    return dice.weighted(((3, time_adverb), (5, time_of_calendar), (2, time_of_event)))(dice)


def time_adverb(dice: Dice) -> Node:
    return adverb(dice.word(lexicon.MOMENTS))


def time_of_calendar(dice: Dice) -> Node:
    """today; every week; in the morning; on Monday"""
    return dice.weighted(((1, today), (2, span_of_time), (2, part_of_day), (2, weekday)))(dice)


def today(dice: Dice) -> Node:
    return noun("today").labelled("obl:tmod")


def span_of_time(dice: Dice) -> Node:
    phrase = noun(dice.word(lexicon.SPANS_OF_TIME)).labelled("obl:tmod")
    phrase.left.append(determiner(dice.pick(("this", "every"))))
    return phrase


def time_past(dice: Dice) -> Node:
    """yesterday; last week: at home in the past tense only"""
    if dice.chance(0.5):
        return noun("yesterday").labelled("obl:tmod")
    phrase = noun(dice.word(lexicon.SPANS_OF_TIME)).labelled("obl:tmod")
    phrase.left.append(adjective("last"))
    return phrase


def part_of_day(dice: Dice) -> Node:
    phrase = noun(dice.word(lexicon.PARTS_OF_DAY))
    phrase.left.append(determiner("the"))
    return prepositional("in", phrase, "obl")


def weekday(dice: Dice) -> Node:
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
    if dice.chance(0.3):
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
    thing = object_phrase(dice, objects, depth=2)
    particle_last = thing.upos == "PRON" or dice.chance(0.4)
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
        return Predicate(quality_named(dice, nouns.adjectives, "root"), "cop")
    lemma = dice.pick(comparable)
    standard = simple_noun_phrase(dice, nouns, definite=True)
    head = Node(lexicon.COMPARATIVES[lemma], lemma, "ADJ", "JJR")
    head.right.append(prepositional("than", standard, "obl"))
    return Predicate(head, "cop")


def profession(dice: Dice) -> Predicate:
    """was the king's friend"""
    return Predicate(simple_noun_phrase(dice, lexicon.PEOPLE, is_plural=False), "cop")


def location(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """was in the garden"""
    return Predicate(place(dice, depth).labelled("root"), "cop")


def seeming(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """seemed very tired"""
    head = verb(dice.word(lexicon.SEEMING))
    head.right.append(quality_named(dice, nouns.adjectives, "xcomp"))
    return Predicate(head)


def making(dice: Dice, nouns: NounClass, depth: int) -> Predicate:
    """made the boy happy"""
    head = verb(dice.word(lexicon.MAKING))
    objects = dice.pick((lexicon.PEOPLE, lexicon.PLACES, lexicon.THINGS))
    head.right = [object_phrase(dice, objects, 2), quality_named(dice, objects.adjectives, "xcomp")]
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


PERSONAL_PREDICATES: PredicateKinds = (
    (22, transitive),
    (15, transitive_with_preposition),
    (21, idling),
    (7, moving),
    (3, moving_off),
    (8, attending),
    (7, transitive_with_particle),
    (6, giving),
    (2, passive),
    (5, quality),
    (2, location),
    (3, seeming),
    (3, making),
)
CLAUSAL_PREDICATES: PredicateKinds = (
    (8, reporting),
    (3, wondering),
    (7, wanting),
    (5, urging),
    (3, having_purpose),
)
PREDICATES_OF_ANIMALS: PredicateKinds = (
    (6, idling),
    (3, moving),
    (2, passive),
    (3, quality),
    (1, location),
    (1, seeming),
)
PREDICATES_OF_THINGS: PredicateKinds = ((3, passive), (3, quality))
PREDICATES_OF_TOOLS: PredicateKinds = ((1, quality),)


# Clauses


def draw_tense(dice: Dice) -> str:
    return PAST if dice.chance(0.6) else PRESENT


def takes_singular_verb(subject: Node) -> bool:
    is_singular = subject.feats.startswith("Number=Sing") and subject.lemma != "I"
    return is_singular and not subject.has_dependent_after("conj")


def be_form(tag: str, subject: Node | None) -> str:
    singular = subject is not None and takes_singular_verb(subject)
    first_person = subject is not None and subject.lemma == "I"
    if tag == "VBD":
        return "was" if singular or first_person else "were"
    if tag in ("VBZ", "VBP"):
        return "is" if singular else "am" if first_person else "are"
    return {"VBN": "been", "VBG": "being"}.get(tag, "be")


def inflect(word: Node, tag: str, subject: Node | None = None) -> Node:
    """Give a verb the form that its Penn Treebank tag names; `be` needs the subject too."""
    if word.xpos != "MD":
        word.xpos = tag
        word.form = be_form(tag, subject) if word.lemma == "be" else lexicon.verb_form(word.lemma, tag)
        word.feats = "Number=Sing" if tag == "VBZ" or word.form == "was" else "_"
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
    chain = [auxiliary(dice.word(lexicon.MODALS))] if dice.chance(0.08) else []
    if dice.chance(0.08):
        chain.append(auxiliary("have"))
    elif not content.support and content.head.lemma not in lexicon.NOT_IN_PROGRESS and dice.chance(0.08):
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
    negated = not plain and dice.chance(0.09)
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
        inflect(content.head, "VBN" if support else "VB")
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
    one_person = nouns.animate and takes_singular_verb(topic)
    content = profession(dice) if one_person and dice.chance(0.06) else predicate(dice, nouns, depth)
    head = clause(dice, content, topic, tense)
    if depth == 0 and not ends_in_clause(head) and dice.chance(0.06):
        other = predicate(dice, nouns, depth=1)
        other.head.left[:0] = verb_group(dice, other, topic, tense, plain=True)
        coordinate(head, other.head, dice.pick(("and", "and", "but", "or")))
    return head
