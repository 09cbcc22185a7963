"""The tags, features and lemmas that a model predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, pairwise

import torch

from parser.parsing.model import Model
from parser.stepping.inference.words import WordVectors
from parser.treebank.lemma_rules import lemma_of
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
