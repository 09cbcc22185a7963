"""Parsing sentences with a trained model: trees, and the tags, features and lemmas that it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.device import TooLongError, compute_alone_after_fork, in_microbatches, to_device
from parser.batching.ragged import Ragged
from parser.networks.stack_parser import WordVectors
from parser.parsing import BATCH_SIZE
from parser.parsing.arc_probabilities import ArcProbabilities
from parser.parsing.continuous_batching import Reading, parse_tokens
from parser.parsing.model import Model
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.reparsing import Arcs, Reparser
from parser.treebank.columns import WORD_COLUMNS
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import UNKNOWN, Tokens, Vocabulary

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
        tags = _predicted_tags(chosen, ordered)
    columns = [state.heads, state.labels, *([found.of_arcs] if found else [])]
    parts = [Ragged(column[:-1].cpu(), tokens.lengths).unflatten() for column in columns]
    arcs = [Arcs(*(part.tolist() for part in own)) for own in zip(*parts, strict=True)]
    if (reparser := Reparser.of(model)) and (probabilities or reparser.changes_trees):
        all_words = [words for own, _, words in readings if own.network.arcs]
        arcs = reparser.reparse(reparser.opinions(tokens.lengths, all_words), arcs)
    label_name = model.vocabulary.labels.string
    trees = {
        number: ParsedTree(
            *deprojectivize(own.heads, tuple(map(label_name, own.labels))),
            probabilities=tuple(own.probabilities) if own.probabilities else None,
        )
        for number, own in zip(order, arcs, strict=True)
    }
    for number, own_tags in zip(order, tags, strict=True):
        trees[number] = trees[number]._replace(tags=own_tags)
    return [trees[number] for number in range(len(sentences))]


def _read(models: Sequence[Model], all_tokens: Sequence[Tokens]) -> tuple[list[Reading], dict[str, _Choice]]:
    """The sentences as the models read them, and the tags that they choose together."""
    readings, of_models = [], []
    for model, tokens in zip(models, all_tokens, strict=True):
        words, tag_scores = model.network.encode_distinct(tokens)
        readings.append(Reading(model, tokens, words))
        of_models.append(_votes(model.vocabulary, words, tag_scores))
    return readings, _choices(of_models)


class _Vote(NamedTuple):
    """What a model says of a column."""

    values: tuple[str, ...]
    scores: Tensor
    """[rows, values]"""
    row: Tensor
    """[words] The row of each word."""

    def probabilities(self) -> Tensor:
        """[words, values]"""
        return self.scores.softmax(1, dtype=torch.float32).index_select(0, self.row)


class _Choice(NamedTuple):
    """What all models together say of it."""

    values: tuple[str, ...]
    best: Tensor
    """[words] The index of the value of each word."""

    @classmethod
    def of(cls, votes: Sequence[_Vote]) -> _Choice:
        """The value of the highest mean of the probabilities.

        The models may know other values, which are matched as strings; a value that a model does not know has
        no probability there.
        """
        if len(votes) == 1:
            [vote] = votes
            return cls(vote.values, vote.scores.argmax(1).index_select(0, vote.row))
        values = tuple(dict.fromkeys(chain.from_iterable(vote.values for vote in votes)))
        index = {value: place for place, value in enumerate(values)}
        row = votes[0].row
        sums = torch.zeros(len(row), len(values), device=row.device)  # [words, values]
        for vote in votes:
            places = to_device(torch.tensor([index[value] for value in vote.values]), row.device)
            sums.index_add_(1, places, vote.probabilities())
        return cls(values, sums.argmax(1))


def _votes(vocabulary: Vocabulary, words: WordVectors, tag_scores: Sequence[Tensor]) -> dict[str, _Vote]:
    """Of a model, by column. tag_scores: see `StackParser.encode_distinct`."""
    row = to_device(words.row[:-2], words.table.device)
    return {
        name: _Vote(lexicon.strings, scores[:, UNKNOWN + 1 :], row)
        for (name, lexicon), scores in zip(vocabulary.predicted.items(), tag_scores, strict=True)
    }


def _choices(of_models: Sequence[Mapping[str, _Vote]]) -> dict[str, _Choice]:
    """By column. of_models: the votes of each model; those that do not predict a column have none on it."""
    names = dict.fromkeys(chain.from_iterable(of_models))
    return {name: _Choice.of([own[name] for own in of_models if name in own]) for name in names}


def _predicted_tags(
    chosen: Mapping[str, _Choice], sentences: Sequence[Sentence]
) -> list[Mapping[str, tuple[str, ...]]]:
    """For each sentence, the values of all words by column. chosen: for the words of all, in order."""
    if not chosen:
        return [{} for _ in sentences]  # without a wait for the device
    by_word = torch.stack([choice.best for choice in chosen.values()]).tolist()  # by column and word
    strings = {
        name: [choice.values[place] for place in best]
        for (name, choice), best in zip(chosen.items(), by_word, strict=True)
    }
    for name in strings:
        if WORD_COLUMNS[name].kind == "word":
            forms = chain.from_iterable(sentence.forms for sentence in sentences)
            strings[name] = list(map(lemma_of, forms, strings[name]))
    ends = accumulate(map(len, sentences), initial=0)
    return [
        {name: tuple(values[start:end]) for name, values in strings.items()} for start, end in pairwise(ends)
    ]
