"""Vocabularies: the strings of a treebank and their numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from parser.system.console import quoted
from parser.treebank.analyses import BONUS, NO_VALUE, Analyses, Combination
from parser.treebank.lemma_rules import is_rule, lemma_rule
from parser.treebank.sentence import BLANK, WORD_COLUMNS, Sentence, annotation_columns, lifted_label_fault

if TYPE_CHECKING:
    from parser.treebank.tokens import WordSource

UNKNOWN = 0
NO_RULE = ""
"""Is not in lexicons, so that nothing is learnt from it."""
BREAKS = {*"\t\n\r"}
"""Characters that no column of a treebank contains."""
PRETRAINED = "pretrained"
"""The column of forms with a pretrained vector."""
CHARACTERS, TREEBANK = "characters", "treebank"
"""Further columns, which are not in CoNLL-U: the characters of forms, and the treebanks of sentences."""


def strings_of(sentence: Sentence, column: str) -> tuple[str, ...]:
    """What a network reads for each word. column: one of `WORD_COLUMNS` or of the three above."""
    if column == TREEBANK:
        return (sentence.treebank,) * len(sentence)
    return sentence.forms if column in (CHARACTERS, PRETRAINED) else sentence.column(column)


def division_of(column: str) -> Callable[[str], Sequence[str]] | None:
    """How strings of the column are divided into the parts in its lexicon; None if they are not divided."""
    if column == CHARACTERS:
        return tuple
    known = WORD_COLUMNS.get(column)
    return _features if known and known.kind == "features" else None


def _features(together: str) -> Sequence[str]:
    return () if together == BLANK else together.split("|")


def predicted_strings_of(sentence: Sentence, column: str) -> tuple[str, ...]:
    """The value to predict for each word: a tag, all features together, or the rule of a lemma, which is
    `NO_RULE` if the treebank does not have the lemma.
    """
    values = sentence.column(column)
    if WORD_COLUMNS[column].kind == "word":
        return tuple(
            lemma_rule(form, lemma) if lemma != BLANK or form == BLANK else NO_RULE
            for form, lemma in zip(sentence.forms, values, strict=True)
        )
    return values


class Lexicon:
    """The strings of one column and their numbers. Number 0 stands for unknown strings."""

    def __init__(self, strings: Iterable[str], fold_case: bool = False):
        self.strings = tuple(strings)
        self.fold_case = fold_case
        self._numbers = {string: number for number, string in enumerate(self.strings, 1)}

    def __len__(self) -> int:
        """Number of strings, the unknown string included."""
        return len(self.strings) + 1

    def number(self, string: str) -> int:
        """The number of a string, 0 if unknown. With `fold_case`, the lower-case form is tried as well."""
        number = self._numbers.get(string, UNKNOWN)
        if number == UNKNOWN and self.fold_case:
            return self._numbers.get(string.lower(), UNKNOWN)
        return number

    @cached_property
    def characters(self) -> frozenset[str]:
        """The characters of all strings, as capital and as small letters."""
        return frozenset("".join(f"{one}{one.upper()}{one.lower()}" for one in set().union(*self.strings)))

    def string(self, number: int) -> str:
        return self.strings[number - 1] if number else BLANK

    @classmethod
    def of(cls, strings: Iterable[str], fold_case: bool = False) -> Lexicon:
        """All distinct strings, the most frequent first. With `fold_case`, strings are lower-cased."""
        counts = Counter(map(str.lower, strings) if fold_case else strings)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls((string for string, _ in ordered), fold_case)

    def extended(self, other: Lexicon) -> Lexicon:
        """A lexicon with the strings of another one after its own strings, which keep their numbers."""
        more = (string for string in other.strings if string not in self._numbers)
        return Lexicon((*self.strings, *more), self.fold_case)


@dataclass(frozen=True)
class Vocabulary:
    """The lexicons of a training treebank."""

    columns: dict[str, Lexicon]
    """A lexicon for each column that the parser reads, in the order of the network's input."""
    labels: Lexicon
    """All labels."""
    root_labels: frozenset[int]
    """Numbers of the labels that occur on arcs from ROOT."""
    word_labels: frozenset[int]
    """Numbers of the labels that occur on arcs between words."""
    predicted: Mapping[str, Lexicon] = field(default_factory=dict)
    """A lexicon for each column that the parser predicts."""
    analyses: Analyses = field(default_factory=Analyses)
    """The combinations of the predicted columns' values."""
    treebank: str = ""
    """The treebank of sentences that name none; read only with the column `TREEBANK`."""
    for_transformer: WordSource | None = field(default=None, compare=False)
    """None for parsers without a transformer."""

    @classmethod
    def build(
        cls,
        sentences: Sequence[Sentence],
        columns: Iterable[str],
        pretrained: Iterable[str] = (),
        fold_case: bool = False,
        predicted: Iterable[str] = (),
        analysed: Sequence[Sentence] | None = None,
    ) -> Vocabulary:
        """Build the lexicons from training sentences, whose trees may be known only in part.

        pretrained: the forms that have pretrained vectors. fold_case: whether forms are lower-cased.
        predicted: the columns that are predicted. analysed: the sentences from which `analyses` are; all by
        default.
        """
        lexicons = {}
        for name in columns:
            strings = (string for sentence in sentences for string in strings_of(sentence, name))
            if divide := division_of(name):
                strings = (part for string in strings for part in divide(string))
            lexicons[name] = Lexicon.of(strings, fold_case and name == "form")
        if pretrained:
            lexicons[PRETRAINED] = Lexicon(pretrained, fold_case=True)
        labels = Lexicon.of(label for sentence in sentences for label in sentence.labels if label != BLANK)
        on_root: set[int] = set()
        between_words: set[int] = set()
        for sentence in sentences:
            for head, label in zip(sentence.heads, sentence.labels, strict=True):
                if label != BLANK:
                    (between_words if head else on_root).add(labels.number(label))
        of_predicted = {
            name: _values(chain.from_iterable(predicted_strings_of(one, name) for one in sentences))
            for name in predicted
        }
        words = _analysed_words(sentences if analysed is None else analysed, of_predicted)
        analyses = Analyses.of(words) if of_predicted else Analyses()
        treebank = sentences[0].treebank if sentences else ""
        roots, others = frozenset(on_root), frozenset(between_words)
        return cls(lexicons, labels, roots, others, of_predicted, analyses, treebank)

    def extended(self, other: Vocabulary) -> Vocabulary:
        """The vocabulary with new entries of another one, of the same columns, appended to its lexicons."""
        labels = self.labels.extended(other.labels)

        def numbers(known: frozenset[int], others: frozenset[int]) -> frozenset[int]:
            return known | {labels.number(other.labels.string(number)) for number in others}

        predicted = {
            name: lexicon.extended(other.predicted[name]) for name, lexicon in self.predicted.items()
        }

        def analysed_words() -> Iterator[tuple[str, Combination]]:
            yield from self.analyses.words()
            for form, combination in other.analyses.words():
                values = zip(other.predicted.values(), combination, strict=True)
                strings = [NO_RULE if index == NO_VALUE else own.strings[index] for own, index in values]
                yield form, _combination(predicted, strings)

        return Vocabulary(
            {name: lexicon.extended(other.columns[name]) for name, lexicon in self.columns.items()},
            labels,
            numbers(self.root_labels, other.root_labels),
            numbers(self.word_labels, other.word_labels),
            predicted,
            Analyses.of(analysed_words(), self.analyses.bonus),
            other.treebank,
            self.for_transformer,
        )

    def for_treebank(self, name: str) -> Vocabulary:
        """The vocabulary with another `treebank`. Raises ValueError if it is not in the column `TREEBANK`."""
        known = self.columns[TREEBANK].strings
        if name not in known:
            raise ValueError(f"no treebank of the model: {quoted(name)}; {', '.join(map(quoted, known))} are")
        return replace(self, treebank=name)

    def as_json(self) -> str:
        content = {
            "columns": {name: list(lexicon.strings) for name, lexicon in self.columns.items()},
            "folded": [name for name, lexicon in self.columns.items() if lexicon.fold_case],
            "labels": list(self.labels.strings),
            "root_labels": sorted(self.root_labels),
            "word_labels": sorted(self.word_labels),
            "predicted": {name: list(lexicon.strings) for name, lexicon in self.predicted.items()},
            **({"analyses": self._analyses_as_json()} if self.analyses.combinations else {}),
            # Only if it is read: checkpoints identify data by a hash, which must not depend on file names.
            **({"treebank": self.treebank} if TREEBANK in self.columns else {}),
        }
        return json.dumps(content, ensure_ascii=False, indent=0)

    def _analyses_as_json(self) -> dict[str, Any]:
        return {
            "bonus": self.analyses.bonus,
            "combinations": [",".join(map(str, each)) for each in self.analyses.combinations],
            "forms": {form: ",".join(map(str, own)) for form, own in self.analyses.of_form.items()},
        }

    @classmethod
    def from_json(cls, text: str) -> Vocabulary:
        """Inverse of `as_json`. Raises ValueError if the text is not a vocabulary or has invalid labels."""
        content = _Content.model_validate_json(text)
        columns = {
            name: Lexicon(strings, fold_case=name in content.folded)
            for name, strings in content.columns.items()
        }
        for label in content.labels:
            if message := lifted_label_fault(label):
                raise ValueError(f"label {quoted(label)}: {message}")
        if len(set(content.labels)) < len(content.labels):
            raise ValueError("a label occurs twice")
        for numbers in (content.root_labels, content.word_labels):
            if not numbers or not all(0 < number <= len(content.labels) for number in numbers):
                raise ValueError("root_labels and word_labels must be label numbers, counted from 1")
        for name, values in content.predicted.items():
            if name not in annotation_columns():
                raise ValueError(f"predicted: {quoted(name)} is none of {', '.join(annotation_columns())}")
            if not values:
                raise ValueError(f"predicted {name}: there are no values")
            for value in values:
                is_rules = WORD_COLUMNS[name].kind == "word"
                if not (is_rule(value) if is_rules else value and not BREAKS & {*value}):
                    raise ValueError(f"predicted {name}: {quoted(value)} cannot be written")
        predicted = {name: Lexicon(values) for name, values in content.predicted.items()}
        analyses = _analyses_in(content.analyses, predicted)
        on_root, between_words = frozenset(content.root_labels), frozenset(content.word_labels)
        labels = Lexicon(content.labels)
        return cls(columns, labels, on_root, between_words, predicted, analyses, content.treebank)


def _values(strings: Iterable[str]) -> Lexicon:
    """The values of a predicted column; of lemmas that no word has, the missing one."""
    lexicon = Lexicon.of(string for string in strings if string != NO_RULE)
    return lexicon if lexicon.strings else Lexicon([lemma_rule("", BLANK)])


def _analysed_words(
    sentences: Sequence[Sentence], predicted: Mapping[str, Lexicon]
) -> Iterator[tuple[str, Combination]]:
    """The form and the combination of each word."""
    for sentence in sentences:
        columns = [predicted_strings_of(sentence, name) for name in predicted]
        for form, *values in zip(sentence.forms, *columns, strict=True):
            yield form, _combination(predicted, values)


def _combination(predicted: Mapping[str, Lexicon], values: Sequence[str]) -> Combination:
    """The combination of a value of each predicted column, `NO_VALUE` for `NO_RULE`."""
    return tuple(lexicon.number(value) - 1 for lexicon, value in zip(predicted.values(), values, strict=True))


def _analyses_in(content: _AnalysesContent, predicted: Mapping[str, Lexicon]) -> Analyses:
    """Raises ValueError if a number stands for nothing."""
    sizes = [len(lexicon.strings) for lexicon in predicted.values()]
    least = [NO_VALUE if WORD_COLUMNS[name].kind == "word" else 0 for name in predicted]
    combinations = [tuple(map(int, each.split(","))) for each in content.combinations]
    for each in combinations:
        if len(each) != len(sizes) or not all(
            start <= index < size for start, index, size in zip(least, each, sizes, strict=True)
        ):
            raise ValueError(f"analyses: {quoted(','.join(map(str, each)))} is no combination of values")
    of_form = {form: tuple(map(int, own.split(","))) for form, own in content.forms.items()}
    for form, own in of_form.items():
        if not all(0 <= number < len(combinations) for number in own):
            raise ValueError(f"analyses: a combination of {quoted(form)} is missing")
        if len(set(own)) < len(own) or len(own) > MOST_OF_FORM:
            raise ValueError(f"analyses: {quoted(form)} has a combination twice, or too many")
    if len(combinations) > MOST_COMBINATIONS:
        raise ValueError(f"analyses: there are more than {MOST_COMBINATIONS:,} combinations")
    return Analyses(tuple(combinations), of_form, content.bonus)


MOST_OF_FORM, MOST_COMBINATIONS = 1_000, 1 << 18
"""More than a treebank has; a word may have to be compared with all of them."""
Numbers = Annotated[str, Field(pattern=r"^(-1|\d{1,9})(,(-1|\d{1,9}))*$")]


class _AnalysesContent(BaseModel):
    """The JSON of `Analyses`. Numbers are joined by commas, which takes less room than lists."""

    model_config = ConfigDict(strict=True, extra="forbid")

    bonus: float = Field(BONUS, ge=0, allow_inf_nan=False)
    combinations: list[Numbers] = []
    forms: dict[str, Numbers] = {}


class _Content(BaseModel):
    """The JSON of `Vocabulary.as_json`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    columns: dict[str, list[str]]
    folded: list[str]
    labels: list[str]
    root_labels: list[int]
    word_labels: list[int]
    predicted: dict[str, list[str]]
    analyses: _AnalysesContent = _AnalysesContent()
    treebank: str = ""
