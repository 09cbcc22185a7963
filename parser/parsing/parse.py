"""Parsing sentences with a trained model: trees, and the tags, features and lemmas that it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from parser.models.model import Model
from parser.parsing import BATCH_SIZE
from parser.parsing.engine import Engine
from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.read_ahead import READ_AHEAD
from parser.treebank.sentence import Sentence


def parse_stream(
    model: Model,
    sentences: Iterable[Sentence | None],
    batch_size: int = BATCH_SIZE,
    options: ParseOptions = TREE_ALONE,
) -> Iterator[tuple[Sentence, ParsedTree]]:
    """Parse sentences with a new engine, see `Engine.stream`. A list is read ahead from the start."""
    begin_with = READ_AHEAD if isinstance(sentences, Sequence) else 1
    return Engine(model, batch_size).stream(sentences, options, begin_with=begin_with)


def parse(
    model: Model,
    sentences: Sequence[Sentence],
    batch_size: int = BATCH_SIZE,
    options: ParseOptions = TREE_ALONE,
) -> list[ParsedTree]:
    """The trees of sentences. Raises what `Engine.stream` raises."""
    return [tree for _, tree in parse_stream(model, sentences, batch_size, options)]
