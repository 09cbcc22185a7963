"""The sentiment of every phrase of a tree, by a StackLSTM that shifts words and reduces phrases.

    python docs/examples/shift_reduce.py [FILE]

FILE has labelled binary trees, one a line, as the Stanford Sentiment Treebank: `(3 (2 It) (4 works))`.
Without a file trees are made up. A batch is computed in three ways: one tree after the other, step by step,
and by replay. Their losses are equal, and the times of a training step are printed: of each round, and at
the end their medians.
"""

from __future__ import annotations

import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching import HOLD, PUSH, REDUCE_AND_REPLACE, StackLSTM

BATCH, REPEATS = 64, 10
LABELS, NO_LABEL = 5, -100
TOKEN = re.compile(r"\((\d) ([^()]+)\)|\((\d)|\)")
"""A leaf, or the beginning or the end of another node."""


class Phrase(NamedTuple):
    """Words `begin` to `end` (exclusive). One word is shifted, two parts are reduced to a longer phrase."""

    begin: int
    end: int
    label: int


class Tree(NamedTuple):
    words: list[str]
    phrases: list[Phrase]
    """In the order of the steps: the parts of a phrase come before it."""

    @classmethod
    def of(cls, text: str) -> Tree:
        words: list[str] = []
        phrases, open_nodes = [], []
        for leaf_label, word, label in TOKEN.findall(text):
            if word:
                phrases.append(Phrase(len(words), len(words) + 1, int(leaf_label)))
                words.append(word)
            elif label:
                open_nodes.append((len(words), int(label)))
            else:
                begin, of_node = open_nodes.pop()
                phrases.append(Phrase(begin, len(words), of_node))
        return cls(words, phrases)


class Batch(NamedTuple):
    """Trees as tensors. Those with fewer steps than others hold their stacks at the end."""

    words: Tensor
    """[batch, words] Rows of the table of words."""
    spans: Tensor
    """[batch, steps, 2] Where the phrase of each step begins and ends."""
    operations: Tensor
    """[batch, steps, 2] What each step reads, and how it moves the top."""
    labels: Tensor
    """[batch, steps]"""

    @classmethod
    def of(cls, trees: Sequence[Tree], rows: dict[str, int]) -> Batch:
        length, steps = (max(map(len, part)) for part in zip(*trees, strict=True))
        words, spans, operations, labels = [], [], [], []
        for tree in trees:
            missing = steps - len(tree.phrases)
            words.append([rows[word] for word in tree.words] + [0] * (length - len(tree.words)))
            spans.append([(own.begin, own.end) for own in tree.phrases] + [(0, 1)] * missing)
            done = [PUSH if own.end == own.begin + 1 else REDUCE_AND_REPLACE for own in tree.phrases]
            operations.append(done + [HOLD] * missing)
            labels.append([own.label for own in tree.phrases] + [NO_LABEL] * missing)
        return cls(*map(torch.tensor, (words, spans, operations, labels)))


class Sentiment(nn.Module):
    """What is pushed for a phrase is the mean of its words, so it is known before the stacks are computed."""

    def __init__(self, words: int, size: int = 128):
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.stack = StackLSTM(size, size)
        self.scores = nn.Linear(2 * size, LABELS)

    def vectors(self, batch: Batch) -> Tensor:
        """[batch, steps, size] Of the phrases."""
        sums = F.pad(self.words(batch.words).cumsum(1), (0, 0, 1, 0))  # [batch, words + 1, size]
        begin, end = (
            sums.gather(1, place[:, :, None].expand(-1, -1, sums.shape[2])) for place in batch.spans.unbind(2)
        )
        return (end - begin) / batch.spans.diff(dim=2)

    def loss(self, states: Tensor, batch: Batch) -> Tensor:
        """states: [batch, steps + 1, size], on top before each step and at the end.

        A phrase is judged by the states before its step, when its parts are on top, and after it.
        """
        both = torch.cat([states[:, :-1], states[:, 1:]], 2)  # [batch, steps, 2 * size]
        scores = self.scores(both).flatten(0, 1)
        return F.cross_entropy(scores, batch.labels.flatten(), ignore_index=NO_LABEL, reduction="sum")


def loss_by_replay(model: Sentiment, batch: Batch) -> Tensor:
    """All operations are known, so what does not depend on each other is computed together."""
    return model.loss(model.stack(model.vectors(batch), *batch.operations.unbind(2)), batch)


def loss_by_steps(model: Sentiment, batch: Batch) -> Tensor:
    """One operation of each stack after the other."""
    vectors, (read, move) = model.vectors(batch), batch.operations.unbind(2)
    stacks = model.stack.begin(len(vectors))
    states = [stacks.top()]
    for step in range(vectors.shape[1]):
        stacks.operate(vectors[:, step], read[:, step], move[:, step])
        states.append(stacks.top())
    return model.loss(torch.stack(states, 1), batch)


def main(texts: Sequence[str], repeats: int = REPEATS) -> None:
    """Print the loss and the time of each way."""
    trees = [Tree.of(text) for text in texts]
    rows = {word: row for row, word in enumerate(sorted({word for tree in trees for word in tree.words}))}
    together, alone = Batch.of(trees, rows), [Batch.of([tree], rows) for tree in trees]
    model = Sentiment(len(rows))
    ways: dict[str, Callable[[], Tensor]] = {
        "one by one": lambda: torch.stack([loss_by_steps(model, batch) for batch in alone]).sum(),
        "by steps": lambda: loss_by_steps(model, together),
        "by replay": lambda: loss_by_replay(model, together),
    }
    losses, seconds = {}, {name: [] for name in ways}
    for number in range(1, repeats + 1):
        print(f"round {number} of {repeats}:", end="", flush=True)
        for name, loss_of in ways.items():  # in turns, so that a busy moment is everybody's
            model.zero_grad()
            began = time.perf_counter()
            losses[name] = loss_of()
            losses[name].backward()
            seconds[name].append(time.perf_counter() - began)
            print(f"  {name} {1000 * seconds[name][-1]:.1f} ms", end="", flush=True)
        print()
    phrases = sum(len(tree.phrases) for tree in trees)
    for name, loss in losses.items():
        milliseconds = 1000 * statistics.median(seconds[name])
        print(
            f"{name:<10}  loss per phrase {loss / phrases:.5f}  {milliseconds:7.1f} ms for {len(trees)} trees"
        )


def made_up(words: int, draw: random.Random) -> str:
    label = draw.randrange(LABELS)
    if words == 1:
        return f"({label} word{draw.randrange(1000)})"
    left = draw.randrange(1, words)
    return f"({label} {made_up(left, draw)} {made_up(words - left, draw)})"


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1)
    draw = random.Random(1)
    if sys.argv[1:]:
        texts = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
        main(draw.sample(texts, BATCH))
    else:
        main([made_up(draw.randint(1, 40), draw) for _ in range(BATCH)])
