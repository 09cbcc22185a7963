"""The vectors that a pretrained transformer gives to words, without PyTorch and the library it comes from.

The same numbers as those of `TransformerEncoder`, to rounding. The vectors of a sentence do not depend on the
sentences that are computed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parser.networks.settings import LoraSettings, TransformerSettings
from parser.networks.transformer.architecture import LORA_PARTS, MODEL, PREFIX, Architecture
from parser.networks.transformer.windows import chosen_windows, longest_window, spans_of
from parser.runtime.kernels import Kernels
from parser.runtime.layers import softmax
from parser.runtime.reference import Floats, Integers
from parser.runtime.transformer_layers import Embeddings, Norm, TransformerLayer
from parser.treebank.sentence import Sentence

if TYPE_CHECKING:
    from parser.networks.transformer.tokenizer import PieceTokenizer

PIECES_TOGETHER = 1_024
"""Most pieces that are computed together, unless a single window has more."""


class Window(NamedTuple):
    """A part of a sentence that the transformer reads at once."""

    pieces: list[int]
    """Special ones included."""
    words: list[int]
    """The words that are read from this window, by their numbers among those of all sentences."""
    places: list[range]
    """The places of the pieces of each of these words."""


class TransformerVectors:
    def __init__(
        self,
        settings: TransformerSettings,
        architecture: Architecture,
        tokenizer: PieceTokenizer,
        frozen: Mapping[str, Floats],
        weights: Mapping[str, Floats],
        kernels: Kernels,
        is_int8: bool,
    ):
        """frozen: the weights in the file of the transformer. weights: of the model's file. Both have the
        shapes that `architecture` tells. is_int8: whether large products round to 8 bits.

        Raises ValueError if settings, transformer and tokenizer do not fit together.
        """
        self._settings, self._tokenizer, self._size = settings, tokenizer, architecture.size
        self._most_pieces = longest_window(
            settings, tokenizer, len(architecture.layers), architecture.pieces, architecture.longest
        )

        def present(name: str) -> Floats:
            """A weight of the transformer, by its name in the library."""
            if settings.train == "all":
                return weights[f"{MODEL}{name}"]
            added = _low_rank(weights, name, settings.lora) if settings.train == "lora" else None
            return frozen[name] if added is None else frozen[name] + added

        self._embeddings = Embeddings(architecture, present, kernels)
        made: dict[object, TransformerLayer] = {}
        self._layers = []
        for number, name in enumerate(architecture.layers):
            if name not in made:
                made[name] = TransformerLayer(architecture, present, kernels, number, is_int8)
            self._layers.append(made[name])
        self._last_norm = None
        if last := architecture.kind.last_norm:
            self._last_norm = Norm(present, architecture.shapes, last, architecture.epsilon)
        [mix] = softmax(weights[f"{PREFIX}mix"][None])
        self._mix = weights[f"{PREFIX}scale"] * mix  # [layers]

    def __call__(self, sentences: Sequence[Sentence]) -> Floats:
        """[words, size] The vectors of all words."""
        of_words = self._tokenizer.of_words(chain.from_iterable(sentence.forms for sentence in sentences))
        ends = accumulate(map(len, sentences))
        windows = chain.from_iterable(
            self._windows(of_words, end - len(sentence), end)
            for sentence, end in zip(sentences, ends, strict=True)
        )
        vectors = np.empty((len(of_words), self._size), np.float32)
        for together in _together(windows):
            words = [word for window in together for word in window.words]
            with np.errstate(over="ignore", invalid="ignore"):  # of weights that nobody has trained
                vectors[words] = self._read(together)
        return vectors

    def _windows(self, of_words: Sequence[Sequence[int]], start: int, end: int) -> Iterator[Window]:
        """The windows of a sentence: of the words from start to end. of_words: the pieces of all words."""
        # Of a word with very many pieces, only the first ones are read.
        pieces = [of_word[: self._most_pieces] for of_word in of_words[start:end]]
        sizes = list(map(len, pieces))
        spans = spans_of(sizes, self._most_pieces)
        chosen = list(chosen_windows(spans, sizes))
        before, after = self._tokenizer.before, self._tokenizer.after
        for number, (first, last) in enumerate(spans):
            bounds = list(accumulate(sizes[first:last], initial=len(before)))
            words = [word for word in range(first, last) if chosen[word] == number]
            yield Window(
                [*before, *chain.from_iterable(pieces[first:last]), *after],
                [start + word for word in words],
                [range(bounds[word - first], bounds[word - first + 1]) for word in words],
            )

    def _read(self, windows: Sequence[Window]) -> Floats:
        """[words, size] The vectors of the words that are read from these windows, in their order."""
        bounds = list(accumulate((len(window.pieces) for window in windows), initial=0))
        places: list[int] = []
        counts: list[int] = []
        for window, start in zip(windows, bounds, strict=False):
            places += [start + place for of_word in window.places for place in of_word]
            counts += map(len, window.places)
        states = self._embeddings(
            np.array(list(chain.from_iterable(window.pieces for window in windows))), bounds
        )
        vectors = np.zeros((len(counts), self._size), np.float32)
        unread = len(self._layers) - len(self._mix)
        for number, layer in enumerate(self._layers):
            states = layer(states, bounds)
            if number >= unread:
                is_last = number == len(self._layers) - 1
                output = self._last_norm(states) if is_last and self._last_norm else states
                vectors += self._mix[number - unread] * self._of_words(output[places], np.array(counts))
        return vectors

    def _of_words(self, pieces: Floats, counts: Integers) -> Floats:
        """[words, size] The vectors of words in one layer.

        pieces: [pieces, size] those of all words, one after the other. counts: [words] their numbers.
        """
        starts = counts.cumsum() - counts
        if self._settings.pooling == "mean":
            vectors: Floats = np.add.reduceat(pieces, starts)
            vectors /= counts[:, None]
        else:
            vectors = pieces[starts if self._settings.pooling == "first" else starts + counts - 1]
        if self._settings.train != "frozen":
            return vectors
        bounds = np.finfo(np.float16)  # as in training, which keeps them in half precision
        return vectors.clip(bounds.min, bounds.max).astype(np.float16).astype(np.float32)


def _low_rank(weights: Mapping[str, Floats], name: str, settings: LoraSettings) -> Floats | None:
    """What low-rank matrices add to a matrix; None for other weights."""
    first, second = (f"{MODEL}{name.removesuffix('.weight')}.{part}" for part in LORA_PARTS)
    if not name.endswith(".weight") or first not in weights:
        return None
    product: Floats = np.float32(settings.alpha / settings.rank) * (weights[second] @ weights[first])
    return product


def _together(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Groups of windows with a limited number of pieces. Windows from which no word is read are left out."""
    group: list[Window] = []
    pieces = 0
    for window in windows:
        if not window.words:
            continue
        if group and pieces + len(window.pieces) > PIECES_TOGETHER:
            yield group
            group, pieces = [], 0
        group.append(window)
        pieces += len(window.pieces)
    if group:
        yield group
