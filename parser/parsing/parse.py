"""Parsing sentences with a trained model: trees, and the tags, features and lemmas that it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from parser.parsing import BATCH_SIZE
from parser.parsing.engine import READ_AHEAD, Engine
from parser.parsing.model import Model
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence


def parse_stream(
    model: Model,
    sentences: Iterable[Sentence | None],
    batch_size: int = BATCH_SIZE,
    probabilities: bool = False,
    alternative_heads: int = 0,
) -> Iterator[tuple[Sentence, ParsedTree]]:
    """As `Engine.stream`, by an engine of its own. The sentences of a list are there at once."""
    begin_with = READ_AHEAD if isinstance(sentences, Sequence) else 1
    engine = Engine(model, batch_size)
    return engine.stream(sentences, probabilities, begin_with=begin_with, alternative_heads=alternative_heads)


def parse(
    model: Model, sentences: Sequence[Sentence], batch_size: int = BATCH_SIZE, probabilities: bool = False
) -> list[ParsedTree]:
    """The trees of sentences. Raises ValueError if the memory is too small for one of them."""
    return [tree for _, tree in parse_stream(model, sentences, batch_size, probabilities)]
