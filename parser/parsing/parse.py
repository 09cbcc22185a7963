"""Parsing sentences with a trained model: trees, and the tags, features and lemmas that it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise

import torch
from torch import Tensor

from parser.batching.microbatches import TooLongError, in_microbatches
from parser.batching.ragged import Ragged
from parser.parsing import BATCH_SIZE
from parser.parsing.continuous_batching import Reading, parse_tokens
from parser.parsing.model import Model
from parser.parsing.parsed_tree import ParsedTree
from parser.stepping.encoding import WordVectors
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import Sentence


def predicted_tags(
    model: Model, words: WordVectors, sentences: Sequence[Sentence]
) -> list[Mapping[str, tuple[str, ...]]]:
    """For each sentence, the values of all words by column. words: of all sentences, in order."""
    if not model.vocabulary.predicted:
        return [{} for _ in sentences]  # without a wait for the device
    numbers = torch.stack(words.tags).cpu()  # [columns, rows]
    by_word = numbers.index_select(1, words.row[:-2]).tolist()  # by column and word
    strings = {
        name: list(map(lexicon.string, of_words))
        for (name, lexicon), of_words in zip(model.vocabulary.predicted.items(), by_word, strict=True)
    }
    if "lemma" in strings:
        forms = chain.from_iterable(sentence.forms for sentence in sentences)
        strings["lemma"] = list(map(lemma_of, forms, strings["lemma"]))
    ends = accumulate(map(len, sentences), initial=0)
    return [
        {name: tuple(values[start:end]) for name, values in strings.items()} for start, end in pairwise(ends)
    ]


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
    found = torch.ones(tokens.words + 1, device=model.device) if probabilities else None
    with torch.inference_mode():
        readings = list(map(Reading.of, model.members, all_tokens))
        state = parse_tokens(model, tokens, batch_size, found, readings=readings)
        tags = predicted_tags(model, readings[0].words, ordered)
    heads = Ragged(state.heads[:-1].cpu(), tokens.lengths).unflatten()
    labels = Ragged(state.labels[:-1].cpu(), tokens.lengths).unflatten()
    label_name = model.vocabulary.labels.string
    trees = {
        number: ParsedTree(*deprojectivize(own_heads.tolist(), tuple(map(label_name, own_labels.tolist()))))
        for number, own_heads, own_labels in zip(order, heads, labels, strict=True)
    }
    if found is not None:
        for number, own in zip(order, Ragged(found[:-1].cpu(), tokens.lengths).unflatten(), strict=True):
            trees[number] = trees[number]._replace(probabilities=tuple(own.tolist()))
    for number, own_tags in zip(order, tags, strict=True):
        trees[number] = trees[number]._replace(tags=own_tags)
    return [trees[number] for number in range(len(sentences))]
