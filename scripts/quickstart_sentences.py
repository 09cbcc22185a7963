"""The kinds of sentence of the quickstart treebank: statements, questions, commands, fragments.

Each function returns the root of one sentence, complete with its punctuation.
"""

from __future__ import annotations

import quickstart_lexicon as lexicon
from quickstart_grammar import (
    PAST,
    PERSONAL_PREDICATES,
    PRESENT,
    Predicate,
    add_prepositional_modifier,
    attending,
    clause,
    clause_about,
    coordinate,
    draw_subject_class,
    draw_tense,
    ends_in_clause,
    giving,
    idling,
    inflect,
    inflect_chain,
    inverted_clause,
    main_clause,
    making,
    moving,
    moving_off,
    name,
    negation,
    noun_phrase,
    noun_with_adjectives,
    predicate,
    prepositional,
    quality_named,
    simple_noun_phrase,
    subject,
    subject_pronoun,
    subject_relative,
    time_of_calendar,
    time_past,
    transitive_with_particle,
    transitive_with_preposition,
    weekday,
)
from quickstart_lexicon import NounClass
from quickstart_tree import (
    Dice,
    Node,
    adverb,
    auxiliary,
    infinitive_marker,
    interjection,
    preposition,
    pronoun,
    punctuation,
    subordinator,
    verb,
    wh_pronoun,
)


def statement(dice: Dice) -> Node:
    """A main clause, perhaps with something before it and something after it."""
    head = main_clause(dice, depth=dice.pick((0, 1)))
    may_continue = not ends_in_clause(head) and not head.has_dependent_after("conj")
    if dice.chance(0.1):
        dice.weighted(OPENINGS)(dice, head)
    if may_continue and dice.chance(0.1):
        dice.weighted(CONTINUATIONS)(dice, head)
    elif dice.chance(0.06):
        dice.pick((add_parenthesis, add_vocative))(dice, head)
    return with_final(head, "!" if dice.chance(0.02) else ".")


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
        open_with(head, time_of_calendar(dice))
    else:
        head.left.insert(0, time_of_calendar(dice))


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
    opening = inflect(idling(dice, lexicon.PEOPLE, depth=1).head, "VBG")
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
    head = inflect(dice.weighted(ACTIONS)(dice, lexicon.PEOPLE, 1).head, "VB")
    if dice.chance(0.2):
        prohibition = auxiliary("do")
        head.left[:0] = [inflect(prohibition, "VB"), negation(dice, prohibition)]
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
    return quality_named(dice, lexicon.TEMPERS, "root")


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
        inflect(gapped.head, "VB").labelled("xcomp")
        gapped.head.left.append(infinitive_marker())
        asking = verb(dice.word(lexicon.WANTING))
    else:
        topic = subject(dice, lexicon.PEOPLE, depth=2)
        clause(dice, gapped, topic, draw_tense(dice)).labelled("ccomp")
        asking = verb(dice.pick(lexicon.OPINING))
    return displaced_question(dice, asking, gapped.head, asked)


def displaced_subject_question(dice: Dice) -> Node:
    """Who do you think saw the bird?"""
    content = predicate(dice, lexicon.PEOPLE, depth=1)
    asked = wh_pronoun("who")
    thought = clause(dice, content, asked, draw_tense(dice), agree_with=pronoun("he"))
    thought.left.remove(asked)
    return displaced_question(dice, verb(dice.pick(lexicon.OPINING)), thought.labelled("ccomp"), asked)


def displaced_question(dice: Dice, asking: Node, beneath: Node, asked: Node) -> Node:
    """Ask in the words of one clause for a part of the clause beneath it."""
    head = inverted_clause(dice, Predicate(asking), subject(dice, lexicon.PEOPLE, depth=2), draw_tense(dice))
    asked.governor = beneath
    head.left.insert(0, asked)
    head.right.append(beneath)
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
    head.right.append(time_past(dice) if dice.chance(0.5) else weekday(dice))
    return extrapose(dice, head, topic, nouns)


def extraposed_from_object(dice: Dice) -> Node:
    """She met a man yesterday who sells books."""
    frame = dice.pick(lexicon.TRANSITIVE)
    thing = simple_noun_phrase(dice, frame.object).labelled("obj")
    head = verb(dice.word(frame.verbs))
    head.right = [thing, time_past(dice) if dice.chance(0.5) else weekday(dice)]
    topic = subject_pronoun(dice, lexicon.PEOPLE)
    return extrapose(dice, clause(dice, Predicate(head), topic, PAST, plain=True), thing, frame.object)


def extrapose(dice: Dice, head: Node, antecedent: Node, nouns: NounClass) -> Node:
    """Let a modifier of the antecedent stand at the end of the clause."""
    if nouns is lexicon.TEXTS:
        modifier = prepositional("about", simple_noun_phrase(dice, lexicon.EVENTS), "nmod")
    else:
        modifier = subject_relative(dice, antecedent, nouns)
    modifier.governor = antecedent
    head.right.append(modifier)
    return with_final(head, ".")


# The weights keep displaced phrases rare, as in real text, and the three files under one megabyte.
SENTENCES = (
    (500, statement),
    (20, statement_opened_by_participle),
    (35, existential),
    (75, command),
    (65, yes_no_question),
    (20, adverb_question),
    (15, subject_question),
    (20, object_question),
    (105, fragment),
    (10, displaced_object_question),
    (6, displaced_subject_question),
    (5, stranded_preposition),
    (8, extraposed_from_subject),
    (6, extraposed_from_object),
)


def sentence(dice: Dice) -> Node:
    """The root of one sentence, drawn from the whole grammar."""
    return dice.weighted(SENTENCES)(dice)
