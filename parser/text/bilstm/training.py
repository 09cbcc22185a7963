"""Training the tokenizer's network on windows of a treebank's text."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from parser.system.console import say
from parser.text.bilstm.arrays import BiLSTMTokenizer
from parser.text.bilstm.content import TrainedTokenizer, as_content, tokenizer_in
from parser.text.bilstm.network import TextBatch, TokenizerNetwork
from parser.text.bilstm.units import (
    CONTINUES,
    ENDS_SENTENCE,
    Alphabet,
    KnownUnits,
    alphabet_of,
    category_of,
    code_points,
    features_of,
    is_blank,
    known_units,
)
from parser.text.tokenizer import Paragraph
from parser.treebank.conllu import stream_sentences
from parser.treebank.sentence import Sentence

if TYPE_CHECKING:
    from parser.text.bilstm.kind import BiLSTMKind

LONGEST, WINDOWS = 300, 10
"""Characters of a window, and windows in a step. With more, a character takes less time, but teaches less."""
WARMUP = 0.05
"""Share of the steps."""
BETAS = 0.9, 0.9
GREATEST_NORM = 5.0
AVERAGE = 0.998
"""Share of the old weights in the moving average after a step, once there were many."""
SHARE_WITHOUT_MARK = 0.1
"""Share of the windows that lose the mark after their last sentence, as in headlines and messages."""
STEPS_BETWEEN_LINES = 50


class EncodedParagraph(NamedTuple):
    """A paragraph in numbers, see `TextBatch`."""

    starts: Tensor
    """[units] In characters."""
    ends: Tensor
    """[units]"""
    characters: Tensor
    categories: Tensor
    forms: Tensor
    features: Tensor
    divides: Tensor
    """[characters] Whether a unit ends with the character."""
    can_divide: Tensor
    """[characters] Whether there is a choice: not at a blank."""
    decided: Tensor
    """[units, decisions]"""
    is_final_mark: list[bool]
    """[units] Whether the unit is a mark at the end of a sentence."""


class TextWindow(NamedTuple):
    paragraph: EncodedParagraph
    first: int
    """Its first unit."""
    end: int
    """The unit after its last one."""
    has_lost_mark: bool = False

    @property
    def length(self) -> int:
        """In characters."""
        return int(self.paragraph.ends[self.end - 1] - self.paragraph.starts[self.first])


class Labels(NamedTuple):
    divides: Tensor
    can_divide: Tensor
    decided: Tensor
    """[units, decisions]"""


def train(settings: BiLSTMKind, train: Path, dev: Path | None) -> bytes:
    """The content of a trained tokenizer. train, dev: files in CoNLL-U."""
    torch.set_num_threads(1)  # the other cores train the parser
    torch.manual_seed(settings.seed)
    rng = random.Random(settings.seed)
    paragraphs = known_units(_sentences_in(train))
    alphabet = alphabet_of(paragraphs)
    encoded = [_encoded(paragraph, alphabet) for paragraph in paragraphs]
    network = TokenizerNetwork(settings, len(alphabet.characters), len(alphabet.forms))
    averaged = AveragedModel(network, multi_avg_fn=_average)
    optimizer = torch.optim.Adam(network.parameters(), settings.learning_rate, BETAS)
    steps = settings.steps(len(_batches(encoded, random.Random(settings.seed))))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (WARMUP * steps)) * (1 - step / steps)
    )
    network.train()
    losses: list[float] = []
    for step, windows in enumerate(_endless(encoded, rng), 1):
        batch, labels = _batch([_with_lost_mark(each, rng) for each in windows])
        loss = _loss(network(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), GREATEST_NORM)
        optimizer.step()
        schedule.step()
        averaged.update_parameters(network)
        losses.append(loss.item())
        if step % STEPS_BETWEEN_LINES == 0 or step == steps:
            say(f"step {step} of {steps}: loss {fmean(losses):.4f}")
            losses = []
        if step == steps:
            break
    weights = {name: each.numpy() for name, each in averaged.module.state_dict().items()}
    content = as_content(TrainedTokenizer(alphabet, weights))
    tokenizer = BiLSTMTokenizer(tokenizer_in(content, settings))
    if dev:
        of_tokens, of_sentences = scores(tokenizer, _sentences_in(dev))
        say(f"dev F1: tokens {of_tokens:.2f}, sentences {of_sentences:.2f}")
    return content


def _sentences_in(path: Path) -> list[Sentence]:
    return list(stream_sentences(str(path), tree=False))


def scores(tokenizer: BiLSTMTokenizer, sentences: Sequence[Sentence]) -> tuple[float, float]:
    """The F1 of tokens and of sentences in percent, on the text of a treebank."""
    known = known_units(sentences)
    right, gold, found = np.zeros(2), np.zeros(2), np.zeros(2)
    for each in known:
        of_gold = _spans(each)
        tokenized = list(tokenizer.sentences([Paragraph(each.text, 0)], False))
        of_tokens = {(token.start, token.end) for one in tokenized for token in one.tokens}
        of_sentences = {(one.tokens[0].start, one.tokens[-1].end) for one in tokenized}
        for kind, (ours, theirs) in enumerate(zip((of_tokens, of_sentences), of_gold, strict=True)):
            right[kind] += len(ours & theirs)
            found[kind] += len(ours)
            gold[kind] += len(theirs)
    of_tokens, of_sentences = (200 * right / (gold + found)).tolist()
    return of_tokens, of_sentences


def _spans(known: KnownUnits) -> list[set[tuple[int, int]]]:
    """The starts and ends of tokens, and of sentences."""
    spans = []
    for is_end in (~known.decided[:, CONTINUES], known.decided[:, ENDS_SENTENCE]):
        lasts = np.flatnonzero(is_end)
        firsts = np.append(0, lasts[:-1] + 1)
        spans.append(set(zip(known.starts[firsts].tolist(), known.ends[lasts].tolist(), strict=True)))
    return spans


def _average(averages: Sequence[Tensor], current: Sequence[Tensor], count: Tensor | int) -> None:
    """In the beginning, less of the old weights stays, because they are far from trained."""
    get_ema_multi_avg_fn(min(AVERAGE, float(count) / (float(count) + 10)))(averages, current, count)


def _encoded(known: KnownUnits, alphabet: Alphabet) -> EncodedParagraph:
    codes, forms = code_points(known.text), known.forms
    divides = np.zeros(len(codes), np.float32)
    divides[known.ends - 1] = 1
    can_divide = ~is_blank(codes) & ~is_blank(np.append(codes[1:], ord(" ")))
    is_mark = np.array([not any(map(str.isalnum, form)) for form in forms], bool)
    return EncodedParagraph(
        starts=torch.from_numpy(known.starts),
        ends=torch.from_numpy(known.ends),
        characters=torch.tensor(list(map(alphabet.characters.number, known.text))),
        categories=torch.tensor(list(map(category_of, known.text))),
        forms=torch.tensor(list(map(alphabet.forms.number, forms))),
        features=torch.from_numpy(features_of(codes, known.ends)),
        divides=torch.from_numpy(divides),
        can_divide=torch.from_numpy(can_divide),
        decided=torch.from_numpy(known.decided.astype(np.float32)),
        is_final_mark=(is_mark & known.decided[:, ENDS_SENTENCE]).tolist(),
    )


def _endless(paragraphs: Sequence[EncodedParagraph], rng: random.Random) -> Iterator[list[TextWindow]]:
    """The batches of one epoch after the other."""
    while True:
        yield from _batches(paragraphs, rng)


def _batches(paragraphs: Sequence[EncodedParagraph], rng: random.Random) -> list[list[TextWindow]]:
    """Windows of similar length, which begin anywhere in long paragraphs. They are cut between units."""
    windows = [window for paragraph in paragraphs for window in _windows(paragraph, rng)]
    lengths = np.array([each.length for each in windows])
    jitter = np.array([rng.random() * LONGEST / 10 for _ in windows])
    order = np.argsort(lengths + jitter)
    batch_of = lengths[order].cumsum() // (LONGEST * WINDOWS)
    bounds = [0, *(np.flatnonzero(np.diff(batch_of)) + 1).tolist(), len(order)]
    batches = [[windows[index] for index in order[start:end]] for start, end in pairwise(bounds)]
    rng.shuffle(batches)
    return batches


def _windows(paragraph: EncodedParagraph, rng: random.Random) -> Iterator[TextWindow]:
    starts, ends = paragraph.starts.numpy(), paragraph.ends.numpy()
    is_long = ends[-1] > LONGEST
    first, length = 0, rng.randint(1, LONGEST) if is_long else LONGEST
    while first < len(ends):
        end = max(first + 1, int(np.searchsorted(ends, starts[first] + length, "right")))
        yield TextWindow(paragraph, first, end)
        first, length = end, LONGEST


def _with_lost_mark(window: TextWindow, rng: random.Random) -> TextWindow:
    """The window, perhaps without the mark after its last sentence."""
    can_lose = window.end - window.first > 2 and window.paragraph.is_final_mark[window.end - 1]
    if not can_lose or rng.random() >= SHARE_WITHOUT_MARK:
        return window
    return window._replace(end=window.end - 1, has_lost_mark=True)


def _batch(windows: Sequence[TextWindow]) -> tuple[TextBatch, Labels]:
    lengths, units = list[int](), list[int]()
    characters: list[tuple[Tensor, ...]] = []
    of_units: list[tuple[Tensor, ...]] = []
    for paragraph, first, end, _ in windows:
        begin, stop = int(paragraph.starts[first]), int(paragraph.ends[end - 1])
        shift = sum(lengths) - begin
        by_character = paragraph.characters, paragraph.categories, paragraph.divides, paragraph.can_divide
        characters.append(tuple(each[begin:stop] for each in by_character))
        by_unit = paragraph.forms, paragraph.features, paragraph.decided
        places = paragraph.starts[first:end] + shift, paragraph.ends[first:end] - 1 + shift
        of_units.append((*places, *(each[first:end] for each in by_unit)))
        lengths.append(stop - begin)
        units.append(end - first)
    numbers, categories, divides, can_divide = (torch.cat(each) for each in zip(*characters, strict=True))
    firsts, lasts, forms, features, decided = (torch.cat(each) for each in zip(*of_units, strict=True))
    can_divide[torch.tensor(lengths).cumsum(0) - 1] = False
    lost = (torch.tensor(units).cumsum(0) - 1)[torch.tensor([window.has_lost_mark for window in windows])]
    features[lost] = 1.0
    decided[lost, ENDS_SENTENCE] = 1.0
    batch = TextBatch(numbers, categories, lengths, forms, features, firsts, lasts, units)
    return batch, Labels(divides, can_divide, decided)


def _loss(scores: tuple[Tensor, Tensor], labels: Labels) -> Tensor:
    """The mean of the divisions' cross entropies, and the sum of those of a unit's decisions."""
    divides, decided = scores
    chosen = labels.can_divide.to(divides.dtype)
    of_divisions = F.binary_cross_entropy_with_logits(divides, labels.divides, reduction="none")
    of_units = F.binary_cross_entropy_with_logits(decided, labels.decided, reduction="sum")
    return (of_divisions * chosen).sum() / chosen.sum().clamp(min=1) + of_units / len(decided)
