"""The grammar of the quickstart treebank: functions that sample phrases, from noun phrases to sentences.

A phrase grows outwards from its head: each dependent is added before or after all words of the phrase. A
dependent can be attached to a word other than the head of the phrase, which gives non-projective trees.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import lexicon
from lexicon import Sampler, Words

Claims = Collection[lexicon.Modifier]  # modifiers that the verb takes, so that the nouns after it cannot
CLAUSES = ("acl:relcl", "advcl", "ccomp", "xcomp")


@dataclass(eq=False)
class Word:
    form: str
    upos: str
    xpos: str
    lemma: str
    number: str = ""
    joined: bool = False  # written without a space after the previous word
    head: Word | None = None
    label: str = "root"


@dataclass
class Phrase:
    """A subtree: its head, and all its words in order."""

    head: Word
    words: list[Word]
    support: str = ""  # label of the form of `be` that the head needs in a clause: "cop" or "aux:pass"

    def before(self, label: str, dependent: Phrase, head: Word | None = None) -> Phrase:
        """Prepend a phrase as a dependent of the head, or of another word of this phrase."""
        dependent.head.label, dependent.head.head = label, head or self.head
        self.words[:0] = dependent.words
        return self

    def after(self, label: str, dependent: Phrase, head: Word | None = None) -> Phrase:
        """Append a phrase as a dependent of the head, or of another word of this phrase."""
        dependent.head.label, dependent.head.head = label, head or self.head
        self.words += dependent.words
        return self

    def holds_clause(self) -> bool:
        """Whether the phrase contains a clause, to which following words could belong."""
        return any(word.label in CLAUSES for word in self.words)


def word(form: str, upos: str, xpos: str, lemma: str = "", number: str = "", joined: bool = False) -> Phrase:
    only = Word(form, upos, xpos, lemma or form, number, joined)
    return Phrase(only, [only])


def adjective(sampler: Sampler, kind: str) -> Phrase:
    phrase = word(sampler.word(lexicon.ADJECTIVES[kind]), "ADJ", "JJ")
    phrase.support = "cop"
    if sampler.chance(0.15):
        phrase.before("advmod", word(sampler.word(lexicon.DEGREES), "ADV", "RB"))
    return phrase


def name(sampler: Sampler) -> Phrase:
    phrase = word(sampler.word(lexicon.FIRST_NAMES), "PROPN", "NNP", number="Sing")
    if sampler.chance(0.2):
        phrase.after("flat", word(sampler.word(lexicon.LAST_NAMES), "PROPN", "NNP", number="Sing"))
    return phrase


def simple_noun_phrase(sampler: Sampler, kind: str, number: str = "") -> Phrase:
    """A noun with its premodifiers: the small silver boxes"""
    lemma, number = sampler.word(lexicon.NOUNS[kind]), number or sampler.weighted({"Sing": 7, "Plur": 3})
    form, tag = (lexicon.plural(lemma), "NNS") if number == "Plur" else (lemma, "NN")
    phrase = word(form, "NOUN", tag, lemma, number)
    if kind in ("things", "places") and sampler.chance(0.2):
        phrase.before("compound", word(sampler.word(lexicon.MATERIALS), "NOUN", "NN", number="Sing"))
    if sampler.chance(0.4):
        phrase.before("amod", adjective(sampler, kind))
    return determined(sampler, phrase)


def determined(sampler: Sampler, phrase: Phrase) -> Phrase:
    match sampler.weighted(lexicon.DETERMINERS[phrase.head.number]):
        case "none":
            return phrase
        case "Anna's":
            owner = name(sampler).after("case", word("'s", "PART", "POS", joined=True))
            return phrase.before("nmod:poss", owner)
        case "my":
            return phrase.before("nmod:poss", word(sampler.pick(lexicon.POSSESSIVES), "PRON", "PRP$"))
        case "two":
            return phrase.before("nummod", word(sampler.word(lexicon.NUMERALS), "NUM", "CD"))
        case "a" if phrase.words[0].form[0] in "aeiou":
            return phrase.before("det", word("an", "DET", "DT", "a"))
        case form:
            return phrase.before("det", word(form, "DET", "DT", lexicon.SINGULAR_OF.get(form, form)))


def noun_phrase(sampler: Sampler, kind: str, depth: int, claims: Claims = ()) -> Phrase:
    """A name, or a noun with postmodifiers, except those that the preceding verb claims."""
    if kind == "people" and sampler.chance(0.4):
        return name(sampler)
    phrase = simple_noun_phrase(sampler, kind)
    modifiers = [modifier for modifier in lexicon.NOUN_FRAMES[kind] if modifier not in claims]
    match sampler.weighted(EXTENSIONS[min(depth, 2)]):
        case "modifier" if modifiers:
            phrase.after("nmod", prepositional(sampler, *sampler.pick(modifiers), depth + 1))
        case "relative clause":
            phrase.after("acl:relcl", relative_clause(sampler, kind, phrase.head.number))
        case "contested relative clause" if modifiers:
            add_contested_relative(sampler, phrase, kind, *sampler.pick(modifiers))
        case "conjunct":
            coordinate(phrase, simple_noun_phrase(sampler, kind), "and")
    return phrase


EXTENSIONS: tuple[dict[str, int], ...] = (  # by depth
    {"none": 60, "modifier": 18, "relative clause": 11, "contested relative clause": 6, "conjunct": 5},
    {"none": 86, "modifier": 10, "conjunct": 4},
    {"none": 1},
)


def coordinate(first: Phrase, second: Phrase, conjunction: str) -> Phrase:
    return first.after("conj", second.before("cc", word(conjunction, "CCONJ", "CC")))


def prepositional(sampler: Sampler, preposition: str, kind: str, depth: int, claims: Claims = ()) -> Phrase:
    return noun_phrase(sampler, kind, depth, claims).before("case", word(preposition, "ADP", "IN"))


def argument(sampler: Sampler, kind: str, depth: int, claims: Claims | None = None) -> Phrase:
    """A pronoun or a noun phrase: the object of a verb if `claims` is given, else a subject."""
    if sampler.chance(0.45 if kind == "people" and claims is None else 0.2):
        lemma = sampler.pick(lexicon.PRONOUNS_OF_PEOPLE if kind == "people" else lexicon.PRONOUNS_OF_THINGS)
        form = lemma if claims is None else lexicon.OBJECT_FORMS.get(lemma, lemma)
        return word(form, "PRON", "PRP", lemma, lexicon.PRONOUN_NUMBERS.get(lemma, ""))
    return noun_phrase(sampler, kind, depth, claims or ())


def relative_clause(sampler: Sampler, kind: str, number: str, tag: str = "") -> Phrase:
    """(the girl) who sings; without `tag` also: (the letter) (that) Anna wrote"""
    form, form_tag = ("who", "WP") if kind == "people" else (sampler.pick(("that", "which")), "WDT")
    pronoun = word(form, "PRON", form_tag)
    if tag or sampler.chance(0.5):
        return finite_clause(sampler, predicate(sampler, kind, 1), pronoun, number, tag)
    clause = finite_clause(sampler, transitive_verb(sampler, kind), argument(sampler, "people", 2))
    return clause.before("obj", pronoun) if sampler.chance(0.6) else clause


def add_contested_relative(
    sampler: Sampler, upper: Phrase, kind: str, preposition: str, lower_kind: str
) -> None:
    """(the dogs) of the king that sleep: the number of the verb shows which noun the clause modifies"""
    lower = simple_noun_phrase(sampler, lower_kind, "Plur" if upper.head.number == "Sing" else "Sing")
    upper.after("nmod", lower.before("case", word(preposition, "ADP", "IN")))
    antecedent, kind = sampler.pick(((upper.head, kind), (lower.head, lower_kind)))
    upper.after("acl:relcl", relative_clause(sampler, kind, antecedent.number, "VBP"), head=antecedent)


# Predicates: clauses without subject and finite verb


def verb(sampler: Sampler, lemmas: Words) -> Phrase:
    return word(sampler.word(lemmas), "VERB", "VB")


def transitive_verb(sampler: Sampler, kind: str) -> Phrase:
    """A verb that takes an object of this kind, which the caller adds."""
    return verb(sampler, sampler.pick(lexicon.TAKING_OBJECT[kind]).verbs)


def predicate(sampler: Sampler, kind: str, depth: int) -> Phrase:
    """A predicate for a subject of this kind."""
    match sampler.weighted(lexicon.PREDICATES[kind]):
        case "be old":
            return adjective(sampler, kind)
        case "be found":
            phrase = transitive_verb(sampler, kind)
            phrase.support = "aux:pass"
            return (
                phrase.after("obl", prepositional(sampler, "by", "people", 1))
                if sampler.chance(0.4)
                else phrase
            )
        case "know (that) Anna slept":
            content = main_clause(sampler, depth + 1)
            if sampler.chance(0.5):
                content.before("mark", word("that", "SCONJ", "IN"))
            return verb(sampler, lexicon.REPORTING).after("ccomp", content)
        case "want to sleep":
            return verb(sampler, lexicon.WANTING).after(
                "xcomp", infinitive(predicate(sampler, kind, depth + 1))
            )
        case _:
            return action(sampler, kind, depth)


def action(sampler: Sampler, kind: str, depth: int) -> Phrase:
    """sleep; look at Anna; read a letter; put the cup on the table"""
    frame = sampler.pick(sampler.weighted(lexicon.FRAMES_BY_SUBJECT[kind]))
    phrase = verb(sampler, frame.verbs)
    claims = [row[2:] for row in lexicon.WITH_PREPOSITION if phrase.head.lemma in row.verbs]
    if frame.object:
        # No relative clause between the verb and its preposition, which could belong to the clause otherwise.
        phrase.after("obj", argument(sampler, frame.object, depth + bool(frame.preposition), claims))
    if frame.preposition:
        phrase.after("obl", prepositional(sampler, frame.preposition, frame.complement, depth + 1, claims))
    if sampler.chance(0.2) and not phrase.holds_clause():
        phrase.after("advmod", word(sampler.word(lexicon.ADVERBS), "ADV", "RB"))
    return phrase


def on_weekday(sampler: Sampler) -> Phrase:
    day = word(sampler.word(lexicon.DAYS), "PROPN", "NNP", number="Sing")
    return day.before("case", word("on", "ADP", "IN"))


def inflect(verbs: list[Word], tag: str, agreement: str = "") -> None:
    """Inflect the first verb by the tag, and each other verb as the previous verb requires."""
    for verb in verbs:
        if verb.xpos == "VB":  # neither an adjective nor a modal
            verb.form, verb.xpos = lexicon.verb_form(verb.lemma, tag, agreement), tag
        tag = "VBN" if verb.lemma in ("be", "have") else "VB"


def auxiliary(lemma: str) -> Phrase:
    return word(lemma, "AUX", "MD" if lemma in lexicon.MODALS else "VB")


def negation(finite: Word) -> Phrase:
    """The n't of a finite verb, which may be shortened; not after am."""
    finite.form = lexicon.STEMS_BEFORE_NOT.get(finite.form, finite.form)
    form = "not" if finite.form == "am" else "n't"
    return word(form, "PART", "RB", "not", joined=form == "n't")


def infinitive(clause: Phrase) -> Phrase:
    """to sleep; to be found"""
    inflect([clause.head], "VBN" if clause.support == "aux:pass" else "VB")
    if clause.support:
        clause.before(clause.support, auxiliary("be"))
    return clause.before("mark", word("to", "PART", "TO"))


def agreement_of(subject: Phrase) -> str:
    if any(word.label == "conj" and word.head is subject.head for word in subject.words):
        return "Plur"
    return "I" if subject.head.lemma == "I" else subject.head.number


def finite_clause(
    sampler: Sampler,
    clause: Phrase,
    subject: Phrase,
    agreement: str = "",
    tag: str = "",
    inverted: bool = False,
) -> Phrase:
    """Add the subject and the finite verb. With a tag, VBD or VBP, there are no auxiliaries."""
    lemma = "" if tag else sampler.weighted(lexicon.AUXILIARIES)
    group = [("aux", auxiliary(lemma))] if lemma else []
    group += [(clause.support, auxiliary("be"))] if clause.support else []
    negated = not tag and sampler.chance(0.12)
    if not group and (negated or inverted):
        group = [("aux", auxiliary("do"))]
    agreement, tag = agreement or agreement_of(subject), tag or sampler.weighted({"VBD": 6, "VBP": 4})
    tag = "VBZ" if (tag, agreement) == ("VBP", "Sing") else tag
    inflect([*(verb.head for _, verb in group), clause.head], tag, agreement)
    ahead = group[:1] + ([("advmod", negation(group[0][1].head))] if negated else [])
    topic = [("nsubj:pass" if clause.support == "aux:pass" else "nsubj", subject)]
    for label, dependent in reversed((ahead + topic if inverted else topic + ahead) + group[1:]):
        clause.before(label, dependent)
    return clause


def main_clause(sampler: Sampler, depth: int, inverted: bool = False) -> Phrase:
    kind = sampler.weighted(lexicon.SUBJECTS)
    subject = argument(sampler, kind, depth)
    return finite_clause(sampler, predicate(sampler, kind, depth), subject, inverted=inverted)


def punctuated(phrase: Phrase, form: str) -> Phrase:
    return phrase.after("punct", word(form, "PUNCT", "," if form == "," else ".", joined=True))


def statement(sampler: Sampler) -> Phrase:
    """A main clause, sometimes with an adjunct or a second clause."""
    clause = main_clause(sampler, 0)
    may_go_on = not clause.holds_clause()
    match sampler.weighted({"plain": 70, "reason": 9, "second clause": 9, "opening": 8, "time": 6}):
        case "reason" if may_go_on:
            clause.after("advcl", subordinate_clause(sampler))
        case "second clause" if may_go_on:
            coordinate(clause, main_clause(sampler, 1), sampler.pick(("and", "but")))
        case "opening":
            clause.before("advcl", punctuated(subordinate_clause(sampler), ","))
        case "time":
            clause.before("obl", punctuated(on_weekday(sampler), ","))
    return punctuated(clause, ".")


def subordinate_clause(sampler: Sampler) -> Phrase:
    return main_clause(sampler, 1).before("mark", word(sampler.word(lexicon.SUBORDINATORS), "SCONJ", "IN"))


def question(sampler: Sampler) -> Phrase:
    """Did she sleep? What did she eat? Non-projective: What do you say she ate? What did she want to eat?"""
    if sampler.chance(0.6):
        return punctuated(main_clause(sampler, 1, inverted=True), "?")
    kind = sampler.pick(tuple(lexicon.NOUNS))
    clause = transitive_verb(sampler, kind)
    seeing = clause.head
    match sampler.weighted({"see": 5, "think": 3, "want": 2}):
        case "think":
            thought = finite_clause(sampler, clause, argument(sampler, "people", 2))
            clause = verb(sampler, lexicon.OPINING).after("ccomp", thought)
        case "want":
            clause = verb(sampler, lexicon.WANTING).after("xcomp", infinitive(clause))
    asked = word("who" if kind == "people" else "what", "PRON", "WP")
    clause = finite_clause(sampler, clause, argument(sampler, "people", 2), inverted=True)
    return punctuated(clause.before("obj", asked, head=seeing), "?")


def extraposition(sampler: Sampler) -> Phrase:
    """A man arrived on Monday who sells books."""
    subject = simple_noun_phrase(sampler, "people")
    clause = verb(sampler, lexicon.ARRIVING).after("obl", on_weekday(sampler))
    finite_clause(sampler, clause, subject, tag="VBD")
    relative = relative_clause(sampler, "people", subject.head.number, "VBD")
    return punctuated(clause.after("acl:relcl", relative, head=subject.head), ".")


def command(sampler: Sampler) -> Phrase:
    """Open the box! Don't wait!"""
    order = action(sampler, "people", 1)
    if sampler.chance(0.2):
        order.before("advmod", negation(order.head)).before("aux", auxiliary("do"))
    return punctuated(order, sampler.pick((".", "!")))


def fragment(sampler: Sampler) -> Phrase:
    """Anna Brown; the old house in the village!"""
    phrase = noun_phrase(sampler, sampler.pick(tuple(lexicon.NOUNS)), 1)
    return punctuated(phrase, sampler.pick((".", "!", "?"))) if sampler.chance(0.7) else phrase


SENTENCES = {statement: 61, question: 11, extraposition: 2, command: 10, fragment: 17}
