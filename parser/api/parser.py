"""A trained parser in a program."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from parser.api.tree import Tree
from parser.machine import choose_device
from parser.parsing.input_columns import BLANK
from parser.parsing.model import Model
from parser.parsing.parse import BATCH_SIZE, ParsedTree, parse_stream
from parser.parsing.parse import parse as parse_sentences
from parser.treebank.sentence import NO_HEAD, Sentence

FIELDS = {"upos": "upos", "xpos": "xpos", "feats": "feats", "lemmas": "lemma"}
"""Arguments, and the columns of a model."""
PACKAGE = __name__.partition(".")[0] + "."
SURROGATE = re.compile("[\ud800-\udfff]")


Given = Sequence[str] | Mapping[str, Sequence[str]]
"""Words, or words and tags by column."""


def load(path: str | os.PathLike[str], device: str = "auto") -> Parser:
    """The model in a folder. device: cpu, cuda, cuda:1, ...; auto is CUDA where available.

    Raises ValueError if there is no model, or a broken one, and if the device is not there.
    """
    return Parser(Model.load(Path(path), choose_device(device)))


class Parser:
    """Parses sentences that are given as words. Threads may share it."""

    def __init__(self, model: Model):
        self._model = model

    def parse(
        self,
        words: Sequence[str],
        *,
        upos: Sequence[str] | None = None,
        xpos: Sequence[str] | None = None,
        feats: Sequence[str] | None = None,
        lemmas: Sequence[str] | None = None,
        probabilities: bool = False,
    ) -> Tree:
        """The tree of a sentence. Raises ValueError for what can not be a sentence.

        upos, xpos, feats, lemmas: of all words, for models that read them; `_` for those that have none.
        probabilities: whether the tree has those of its arcs.
        """
        given = {"upos": upos, "xpos": xpos, "feats": feats, "lemmas": lemmas}
        sentence = _sentence({"words": words, **given}, 1)
        for _ in self._model.watch().check([sentence], _warn):
            pass
        [tree] = parse_sentences(self._model, [sentence], probabilities=probabilities)
        return _tree(sentence, tree)

    def parse_all(
        self,
        sentences: Iterable[Given],
        *,
        probabilities: bool = False,
        batch_size: int = BATCH_SIZE,
    ) -> Iterator[Tree]:
        """The trees of any number of sentences, in their order and in bounded memory.

        sentences: each as words, or as a mapping with "words" and some of "upos", "xpos", "feats" and
        "lemmas". Some thousand sentences are read ahead. batch_size: those parsed at the same time. Raises
        ValueError with the number of a sentence that can not be one.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it should be at least 1")
        return self._parsed(iter(sentences), probabilities, batch_size)

    def _parsed(self, sentences: Iterator[Given], probabilities: bool, batch_size: int) -> Iterator[Tree]:
        read = (_sentence(one, number) for number, one in enumerate(sentences, 1))
        watched = self._model.watch().check(read, _warn)
        for sentence, tree in parse_stream(self._model, watched, batch_size, probabilities=probabilities):
            yield _tree(sentence, tree)


def _warn(text: str) -> None:
    """Warns at the line of the caller's program, however many calls and generators lie between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


def _sentence(given: Sequence[str] | Mapping[str, Any], number: int) -> Sentence:
    """number: of the sentence, from 1. Raises ValueError."""
    try:
        columns: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"words": given}
        if others := columns.keys() - {"words", *FIELDS}:
            known = ", ".join(["words", *FIELDS])
            raise ValueError(f"unknown: {', '.join(sorted(map(str, others)))}; known: {known}")
        words = _column("words", columns.get("words"))
        if not words:
            raise ValueError("it has no words")
        blank = (BLANK,) * len(words)
        found = {
            name: blank if columns.get(name) is None else _column(name, columns[name]) for name in FIELDS
        }
        for name, values in found.items():
            if len(values) != len(words):
                raise ValueError(f"{len(words)} words, but {len(values)} {name}")
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from None
    return Sentence(
        words,
        **found,
        heads=(NO_HEAD,) * len(words),
        labels=(BLANK,) * len(words),
        identifier=f"#{number}",
        line=number,
        lines=(),
        word_lines=(),
    )


def _column(name: str, values: object) -> tuple[str, ...]:
    """The values of a column; empty if there are none. Raises ValueError."""
    if values is None:
        return ()
    if isinstance(values, str | Mapping | Set) or not isinstance(values, Iterable):
        raise ValueError(f"{name}: a list of strings is needed, not {type(values).__name__}")
    found = tuple(values)
    for place, value in enumerate(found, 1):
        if not isinstance(value, str):
            raise ValueError(f"{name}, number {place}: {value!r} is no string")
        if not value or value.isspace():
            raise ValueError(f"{name}, number {place}: {value!r} is blank")
        if any(character in value for character in "\t\n\r"):
            raise ValueError(f"{name}, number {place}: {value!r} has a tab or a line end")
        if not value.isascii() and SURROGATE.search(value):
            raise ValueError(f"{name}, number {place}: {value!r} has a lone surrogate, which is no character")
    return found


def _tree(sentence: Sentence, tree: ParsedTree) -> Tree:
    given = sentence.upos, sentence.xpos, sentence.feats, sentence.lemmas
    tags = {
        name: _filled(values, tree.tags.get(column))
        for (name, column), values in zip(FIELDS.items(), given, strict=True)
    }
    return Tree(sentence.forms, tree.heads, tree.labels, **tags, probabilities=tree.probabilities)


def _filled(given: tuple[str, ...], predicted: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The given values, and the predicted ones where there are none; None without any."""
    if predicted is None:
        return given if set(given) != {BLANK} else None
    return tuple(own if own != BLANK else its for own, its in zip(given, predicted, strict=True))
