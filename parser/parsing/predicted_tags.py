"""The tags, features and lemmas that models choose together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.networks.stack_parser import WordVectors
from parser.treebank.lemma_rules import lemma_of
from parser.treebank.sentence import WORD_COLUMNS, Sentence
from parser.treebank.vocabulary import UNKNOWN, Vocabulary


class Vote(NamedTuple):
    """The prediction of one model for a column."""

    values: tuple[str, ...]
    scores: Tensor
    """[rows, values]"""
    row: Tensor
    """[words] The row of each word."""

    def probabilities(self) -> Tensor:
        """[words, values]"""
        return self.scores.softmax(1, dtype=torch.float32).index_select(0, self.row)


class _Choice(NamedTuple):
    """The values of a column that all models choose together."""

    values: tuple[str, ...]
    best: Tensor
    """[words] The index of the value of each word."""

    @classmethod
    def of(cls, votes: Sequence[Vote]) -> _Choice:
        """Choose the value with the highest mean probability.

        The models may know different values, which are matched as strings. A value that a model does not know
        gets no probability from it.
        """
        if len(votes) == 1:
            [vote] = votes
            return cls(vote.values, vote.scores.argmax(1).index_select(0, vote.row))
        values = tuple(dict.fromkeys(chain.from_iterable(vote.values for vote in votes)))
        column = {value: number for number, value in enumerate(values)}
        row = votes[0].row
        sums = torch.zeros(len(row), len(values), device=row.device)  # [words, values]
        for vote in votes:
            columns = to_device(torch.tensor([column[value] for value in vote.values]), row.device)
            sums.index_add_(1, columns, vote.probabilities())
        return cls(values, sums.argmax(1))


def votes_of(vocabulary: Vocabulary, words: WordVectors, tag_scores: Sequence[Tensor]) -> dict[str, Vote]:
    """The votes of a model, by column. tag_scores: see `StackParser.encode_distinct`."""
    row = to_device(words.row[:-2], words.table.device)
    return {
        name: Vote(lexicon.strings, scores[:, UNKNOWN + 1 :], row)
        for (name, lexicon), scores in zip(vocabulary.predicted.items(), tag_scores, strict=True)
    }


def predicted_tags(
    of_models: Sequence[Mapping[str, Vote]], sentences: Sequence[Sentence]
) -> list[Mapping[str, tuple[str, ...]]]:
    """For each sentence, the values of all words by column. of_models: each model's votes on all words."""
    names = dict.fromkeys(chain.from_iterable(of_models))
    chosen = {name: _Choice.of([votes[name] for votes in of_models if name in votes]) for name in names}
    if not chosen:
        return [{} for _ in sentences]  # without a wait for the device
    by_word = torch.stack([choice.best for choice in chosen.values()]).tolist()  # by column and word
    strings = {
        name: [choice.values[number] for number in best]
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
