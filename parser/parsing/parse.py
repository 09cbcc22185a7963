"""Parsing sentences with a trained model: trees, and the tags, features and lemmas that it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from parser.batching.device import TooLongError, in_microbatches
from parser.batching.ragged import Ragged
from parser.parsing import BATCH_SIZE
from parser.parsing.arc_probabilities import ArcProbabilities
from parser.parsing.continuous_batching import Reading, parse_tokens
from parser.parsing.model import Model
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.tag_votes import Choice, choices, predicted_tags, votes
from parser.stepping.encoding import WordVectors
from parser.system.machine import compute_alone_after_fork
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import Tokens

READ_AHEAD = 32_768
"""Words that are read and sorted by sentence length at a time."""


def parse_stream(
    model: Model,
    sentences: Iterable[Sentence],
    batch_size: int = BATCH_SIZE,
    read_ahead: int = READ_AHEAD,
    probabilities: bool = False,
) -> Iterator[tuple[Sentence, ParsedTree]]:
    """Parse a stream of sentences in bounded memory, and yield the trees in the order of the sentences.

    read_ahead: words that are read and sorted by sentence length at a time, or a single longer sentence.
    """
    for group in _groups(sentences, read_ahead):
        yield from zip(group, parse(model, group, batch_size, probabilities), strict=True)


def _groups(sentences: Iterable[Sentence], words: int) -> Iterator[list[Sentence]]:
    group: list[Sentence] = []
    size = 0
    for sentence in sentences:
        if group and size + len(sentence) > words:
            yield group
            group, size = [], 0
        group.append(sentence)
        size += len(sentence)
    if group:
        yield group


def parse(
    model: Model, sentences: Sequence[Sentence], batch_size: int = BATCH_SIZE, probabilities: bool = False
) -> list[ParsedTree]:
    """Parse sentences, in microbatches if the memory of the device is too small for all of them.

    Raises ValueError if the memory is too small for a single sentence.
    """
    if not sentences:
        return []
    compute_alone_after_fork()
    lengths = torch.tensor([len(sentence) for sentence in sentences])

    def compute(microbatches: Sequence[Tensor]) -> list[ParsedTree]:
        parts = ([sentences[row] for row in rows.tolist()] for rows in microbatches)
        return [tree for part in parts for tree in _parse_together(model, part, batch_size, probabilities)]

    try:
        return in_microbatches(compute, torch.arange(len(sentences)), lengths)
    except TooLongError as error:
        raise ValueError(f"sentence {sentences[error.row].identifier}: {error}") from None


def _parse_together(
    model: Model, sentences: Sequence[Sentence], batch_size: int, probabilities: bool
) -> list[ParsedTree]:
    # Longest first, so that no long sentence remains at the end, when rows of the batch become empty.
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    ordered = [sentences[number] for number in order]
    all_tokens = [member.vocabulary.encode_tokens(ordered) for member in model.members]
    tokens = all_tokens[0]
    found = ArcProbabilities(model.inventory, tokens.words) if probabilities else None
    with torch.inference_mode():
        readings, chosen = _read(model.members, all_tokens)
        state = parse_tokens(model, tokens, batch_size, found, readings=readings)
        tags = predicted_tags(chosen, ordered)
    heads = Ragged(state.heads[:-1].cpu(), tokens.lengths).unflatten()
    labels = Ragged(state.labels[:-1].cpu(), tokens.lengths).unflatten()
    label_name = model.vocabulary.labels.string
    trees = {
        number: ParsedTree(*deprojectivize(own_heads.tolist(), tuple(map(label_name, own_labels.tolist()))))
        for number, own_heads, own_labels in zip(order, heads, labels, strict=True)
    }
    if found is not None:
        of_arcs = Ragged(found.of_arcs[:-1].cpu(), tokens.lengths).unflatten()
        for number, own in zip(order, of_arcs, strict=True):
            trees[number] = trees[number]._replace(probabilities=tuple(own.tolist()))
    for number, own_tags in zip(order, tags, strict=True):
        trees[number] = trees[number]._replace(tags=own_tags)
    return [trees[number] for number in range(len(sentences))]


def _read(models: Sequence[Model], all_tokens: Sequence[Tokens]) -> tuple[list[Reading], dict[str, Choice]]:
    """The sentences as the models read them, and the tags that they choose together."""
    readings, of_models = [], []
    for model, tokens in zip(models, all_tokens, strict=True):
        words, tag_scores = WordVectors.with_tags(model.network, tokens)
        readings.append(Reading(model, tokens, words))
        of_models.append(votes(model.vocabulary, words, tag_scores))
    return readings, choices(of_models)
