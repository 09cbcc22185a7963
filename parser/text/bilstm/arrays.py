"""The tokenizer without PyTorch: `TokenizerNetwork` in arrays, and the sentences that its scores give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from parser.runtime.kernels import Kernels, kernels
from parser.runtime.layers import BiLSTM, LinearLayer, TableBiLSTM
from parser.runtime.reference import Floats
from parser.text.bilstm.content import TrainedTokenizer
from parser.text.bilstm.units import (
    CONTINUES,
    DECISIONS,
    ENDS_SENTENCE,
    IS_MULTIWORD,
    PlacesRead,
    category_of,
    code_points,
    features_of,
    forms_of,
    places_read,
    units_in,
)
from parser.text.tokenizer import Paragraph, Token, TokenizedSentence

TOGETHER = 4_096
"""Characters that are read at once: of a part of a long paragraph, or of several short ones."""
MARGIN = 256
"""Characters before and after a part of a paragraph that are read with it, but decided with another part."""
MOST_TOKENS = 500
"""Of a sentence. A longer one ends at the likeliest place in its second half."""
CUT = [-1.0] * len(DECISIONS)
"""The scores of a unit that is cut: nothing ends there."""
CODE_POINTS = 0x110000


class Units(NamedTuple):
    """What is decided of a text."""

    starts: list[int]
    """In characters."""
    ends: list[int]
    scores: list[list[float]]
    """[units, decisions] A decision is made if its score is positive."""


Unit: TypeAlias = tuple[int, int, list[float]]
"""Its start, end and scores, see `Units`."""


class DividedUnits(NamedTuple):
    """The units of a text, before anything is decided of them."""

    starts: NDArray[Any]
    """[units] In characters that are read."""
    ends: NDArray[Any]
    text_starts: list[int]
    """In characters of the text."""
    text_ends: list[int]
    forms: list[str]
    features: Floats
    """[units, UNIT_FEATURES]"""

    @classmethod
    def of(cls, text: str, read: PlacesRead, divides: NDArray[np.bool_]) -> DividedUnits:
        """divides: [characters that are read] whether a token ends after each."""
        starts, ends = units_in(read.codes, divides)
        in_text = read.places[starts].tolist(), (read.places[ends - 1] + 1).tolist()
        return cls(starts, ends, *in_text, forms_of(text, *in_text), features_of(read.codes, ends))


class UnitNetwork:
    """`TokenizerNetwork`."""

    def __init__(self, tokenizer: TrainedTokenizer, kernels: Kernels, is_int8: bool = True):
        """is_int8: whether large products round to 8 bits."""
        self._alphabet, weights = tokenizer.alphabet, tokenizer.weights
        characters, categories = weights["characters.weight"], weights["categories.weight"]
        # Known characters, and then an unknown one of each category.
        known = [category_of(character) for character in self._alphabet.characters.strings]
        vectors = np.concatenate([characters[1:] + categories[known], characters[0] + categories])
        self._known = len(known)
        self._character_lstm = TableBiLSTM(kernels, weights, "character_lstm", vectors, is_int8)
        self._divides = LinearLayer(kernels, weights["divides.weight"], weights["divides.bias"], is_int8)
        self._forms = weights["forms.weight"]
        self._unit_lstm = BiLSTM(kernels, weights, "unit_lstm", is_int8)
        self._decides = LinearLayer(kernels, weights["decides.weight"], weights["decides.bias"], is_int8)
        self._rows = np.zeros(CODE_POINTS, np.int32)
        """[code points] 1 + the row of each character in the table; 0 if it was not looked up yet."""

    def __call__(self, texts: Sequence[str]) -> list[Units]:
        """The units of each text. Each is computed on its own, whatever the others are."""
        read = [places_read(code_points(text)) for text in texts]
        lengths = np.array([len(each.codes) for each in read], np.int32)
        begins = np.cumsum(lengths) - lengths
        codes = np.concatenate([each.codes for each in read])
        states = self._character_lstm(self._rows_of(codes), lengths)  # [characters, 2 * hidden]
        divides = np.split(self._divides(states)[:, 0] > 0, begins[1:])
        of_texts = [DividedUnits.of(*each) for each in zip(texts, read, divides, strict=True)]
        firsts = np.concatenate([begin + each.starts for begin, each in zip(begins, of_texts, strict=True)])
        lasts = np.concatenate([begin + each.ends - 1 for begin, each in zip(begins, of_texts, strict=True)])
        forms = chain.from_iterable(each.forms for each in of_texts)
        of_forms = self._forms[list(map(self._alphabet.forms.number, forms))]
        features = np.concatenate([each.features for each in of_texts])
        at_first, at_last, hidden = states[firsts], states[lasts], self._character_lstm.hidden
        at_ends = at_last[:, :hidden], at_first[:, hidden:]
        inputs = np.concatenate([*at_ends, of_forms, features], axis=1)  # [units, inputs]
        counts = np.array([len(each.starts) for each in of_texts], np.int32)
        of_units = self._unit_lstm(inputs, counts)
        scores = self._decides(np.concatenate([of_units, inputs, at_last], axis=1))
        by_text = np.split(scores, np.cumsum(counts)[:-1])
        return [
            Units(each.text_starts, each.text_ends, own.tolist())
            for each, own in zip(of_texts, by_text, strict=True)
        ]

    def _rows_of(self, codes: NDArray[np.uint32]) -> NDArray[np.int32]:
        rows = self._rows[codes]
        if not rows.all():
            for code in set(codes[rows == 0].tolist()):
                number = self._alphabet.characters.number(chr(code))
                self._rows[code] = number or self._known + 1 + category_of(chr(code))
            rows = self._rows[codes]
        return rows - 1


class BiLSTMTokenizer:
    reads_divided_text = False

    def __init__(self, tokenizer: TrainedTokenizer, is_int8: bool = True):
        """is_int8: whether large products round to 8 bits."""
        self._network = UnitNetwork(tokenizer, kernels(), is_int8)
        self._words_of = tokenizer.alphabet.multiword_tokens.words_of

    def sentences(self, paragraphs: Iterable[Paragraph], is_sentence: bool) -> Iterator[TokenizedSentence]:
        """See `Tokenizer`."""
        group: list[Paragraph] = []
        characters = 0
        for paragraph in paragraphs:
            characters += len(paragraph.text)
            if group and characters > TOGETHER:
                yield from self._of_group(group, is_sentence)
                group, characters = [], len(paragraph.text)
            group.append(paragraph)
        yield from self._of_group(group, is_sentence)

    def _of_group(self, group: Sequence[Paragraph], is_sentence: bool) -> Iterator[TokenizedSentence]:
        if len(group) == 1 and len(group[0].text) > TOGETHER + MARGIN:
            yield from self._made(group[0], self._in_parts(group[0].text), is_sentence)
        elif group:
            for paragraph, units in zip(group, self._network([each.text for each in group]), strict=True):
                yield from self._made(paragraph, zip(*units, strict=True), is_sentence)

    def _in_parts(self, text: str) -> Iterator[Unit]:
        """The units of a long text."""
        begin = 0
        while begin < len(text):
            before, end = max(0, begin - MARGIN), begin + TOGETHER
            [units] = self._network([text[before : end + MARGIN]])
            decided = begin
            for start, stop, scores in zip(*units, strict=True):
                start, stop = max(start + before, begin), stop + before
                # One that does not end in time is cut.
                if start < stop and (stop <= end or decided == begin or end + MARGIN >= len(text)):
                    decided = stop
                    yield start, stop, CUT if stop == end + MARGIN < len(text) else scores
            begin = decided if decided > begin else end
            if end + MARGIN >= len(text):
                return

    def _made(
        self, paragraph: Paragraph, units: Iterable[Unit], is_sentence: bool
    ) -> Iterator[TokenizedSentence]:
        """The sentences of a paragraph."""
        text, offset = paragraph
        tokens: list[Token] = []
        likely: list[float] = []  # scores of a sentence end after each of the tokens
        begins = not is_sentence
        begin = None
        for start, end, scores in units:
            begin = start if begin is None else begin
            space_after = end == len(text) or text[end].isspace()
            ends_sentence = not is_sentence and scores[ENDS_SENTENCE] > 0
            if scores[CONTINUES] > 0 and space_after and end < len(text) and not ends_sentence:
                continue
            form = " ".join(text[begin:end].split())
            words = self._words_of(form) if scores[IS_MULTIWORD] > 0 else (form,)
            tokens.append(Token(form, offset + begin, offset + end, words, space_after))
            likely.append(scores[ENDS_SENTENCE])
            begin = None
            count = len(tokens) if ends_sentence else 0
            if len(tokens) == MOST_TOKENS and not is_sentence:
                half = MOST_TOKENS // 2
                count = 1 + half + int(np.argmax(likely[half:]))
            if count:
                yield TokenizedSentence.of(paragraph, tokens[:count], begins)
                tokens, likely, begins = tokens[count:], likely[count:], False
        if tokens:
            yield TokenizedSentence.of(paragraph, tokens, begins)
