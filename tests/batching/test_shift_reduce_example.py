"""The example of docs/stack-lstm.md: its steps, and that its three ways give equal results."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

from parser.batching.stack_operations import HOLD, PUSH, REDUCE_AND_REPLACE

FILE = Path(__file__).parents[2] / "docs/examples/shift_reduce.py"
TEXTS = [
    "(3 (2 (2 The) (2 Rock)) (4 (3 (2 is) (4 great)) (2 .)))",
    "(1 bad)",
    "(0 (1 (2 not) (3 good)) (2 !))",
]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    specification = importlib.util.spec_from_file_location("shift_reduce", FILE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def batch_of(example: ModuleType, texts: list[str]) -> tuple:
    trees = [example.Tree.of(text) for text in texts]
    rows = {word: row for row, word in enumerate(sorted({word for tree in trees for word in tree.words}))}
    return example.Batch.of(trees, rows), [example.Batch.of([tree], rows) for tree in trees], len(rows)


def test_a_tree_is_its_steps(example: ModuleType) -> None:
    tree = example.Tree.of(TEXTS[2])
    assert tree.words == ["not", "good", "!"]
    assert tree.phrases == [(0, 1, 2), (1, 2, 3), (0, 2, 1), (2, 3, 2), (0, 3, 0)]
    batch, _, _ = batch_of(example, TEXTS[1:])
    done = [PUSH, PUSH, REDUCE_AND_REPLACE, PUSH, REDUCE_AND_REPLACE]
    assert batch.operations.tolist() == [list(map(list, own)) for own in ([PUSH] + [HOLD] * 4, done)]
    assert batch.labels.tolist() == [[1] + [example.NO_LABEL] * 4, [2, 3, 1, 2, 0]]


def test_a_phrase_is_the_mean_of_its_words(example: ModuleType) -> None:
    batch, _, words = batch_of(example, TEXTS[2:])
    model = example.Sentiment(words, 3).double()
    rows = model.words(batch.words[0])
    expected = torch.stack([rows[0], rows[1], rows[:2].mean(0), rows[2], rows.mean(0)])
    torch.testing.assert_close(model.vectors(batch)[0], expected)


def test_the_three_ways_have_one_loss_and_its_gradients(example: ModuleType) -> None:
    draw = random.Random(3)
    texts = [*TEXTS, *(example.made_up(draw.randint(1, 9), draw) for _ in range(5))]
    together, alone, words = batch_of(example, texts)
    torch.manual_seed(0)
    model = example.Sentiment(words, 4).double()
    losses = [
        sum(example.loss_by_steps(model, batch) for batch in alone),
        example.loss_by_steps(model, together),
        example.loss_by_replay(model, together),
    ]
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    for loss, own in zip(losses[1:], gradients[1:], strict=True):
        torch.testing.assert_close(loss, losses[0])
        torch.testing.assert_close(own, gradients[0])


def test_it_prints_equal_losses(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(TEXTS, repeats=2)
    printed = capsys.readouterr().out
    assert re.search(
        r"^round 2 of 2:  one by one [\d.]+ ms  by steps [\d.]+ ms  by replay [\d.]+ ms$", printed, re.M
    )
    found = re.findall(
        r"^(one by one|by steps|by replay) .* ([\d.]+)  +[\d.]+ ms for 3 trees$", printed, re.M
    )
    assert [name for name, _ in found] == ["one by one", "by steps", "by replay"]
    assert len({round(float(loss), 4) for _, loss in found}) == 1
