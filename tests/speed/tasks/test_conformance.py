"""What plugins must do, and which results agree."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from parser.cli import main
from parser.speed.tasks.conformance import disagreement, faults_of
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import Work


@pytest.fixture
def example(toys):
    """The documentation's plugin."""
    return find("packed_gru")


def test_the_documentations_plugin_does_all_that_it_must(example, capsys):
    assert main(["plugins", "--check", "packed_gru"]) == 0
    assert capsys.readouterr().out == "packed_gru: no fault found\n"


def test_a_check_says_what_it_checks_and_uses_as_many_examples_as_asked_for(example, monkeypatch, capsys):
    counts, inner = [], example.check

    def check(self):
        counts.append(sum(map(len, self.batches(self.setup.checked))))
        return inner(self)

    monkeypatch.setattr(example, "check", check)
    for options, expected in (([], 8), (["--examples", "20"], 20), (["--examples", "999"], 50)):
        counts.clear()
        assert main(["plugins", "packed_gru", "--check", *options]) == 0
        assert set(counts) == {expected}
        told = capsys.readouterr().err.splitlines()
        assert [line for line in told if "packed at" in line] == [
            f"packed_gru: checking train, packed at {size}" for size in (1, 3)
        ]
    assert main(["plugins", "packed_gru", "--examples", "3"]) == 2
    assert "--examples needs --check" in capsys.readouterr().err


def run_with_wrong_gradients(self, batch):
    with self.setup.phase("forward"):
        loss = self.loss(batch)
    self.optimizer.zero_grad()
    (loss if self.setup.method == "none" else -3 * loss).backward()
    self.optimizer.step()


def run_with_an_update_by_hand(self, batch):
    self.loss(batch).backward()
    with torch.no_grad():
        for parameter in self.gru.parameters():
            parameter -= 0.01 * parameter.grad
            parameter.grad = None


def faults(example, **changes):
    """The faults of the example, with little data and with the given changes."""

    class Few(example.Settings):
        size: int = 4
        examples: int = 5

    return faults_of(type("Changed", (example,), {"Settings": Few, **changes}))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": 3}, "`name` must be a string of the class"),
        ({"Settings": dict}, "`Settings` must be a pydantic model"),
        ({"work": None}, "it has no method `work`"),
        ({"methods": {"dream": ("none",)}}, "`methods` must give the batching methods of `train`"),
        ({"methods": {"train": ("packed",)}}, "`methods` of 'train' lack 'none'"),
        ({"skip": lambda self, setup: "no data"}, "train: skipped with the defaults of `Settings` (no data)"),
        ({"prepare": lambda self, setup: 1 / 0}, "train: ZeroDivisionError: division by zero"),
        ({"check": lambda self: []}, "train: `check` must return finite numbers"),
        ({"check": lambda self: [float("nan")]}, "train: `check` must return finite numbers"),
        (
            {"check": lambda self: [float(self.setup.method == "none")]},
            "train, packed at 1: `check` must return what",
        ),
        ({"check": lambda self: [float(self.setup.batch_size)]}, "train, none at 3: `check` must return"),
        ({"check": lambda self: [0.5]}, "train, none at 1: `run` must change the results of `check`"),
        (
            {"run": run_with_wrong_gradients},
            "train, packed at 1: `run` must have the gradients without batching: that of gru.",
        ),
        (
            {"run": run_with_an_update_by_hand},
            "train: ValueError: no gradient can be compared, because no optimizer of PyTorch made an update",
        ),
        ({"work": lambda self, batch: Work(len(batch), 0, 1.0)}, "train, none at 1: `work` must count"),
        ({"work": lambda self, batch: Work(len(batch), 1, 1.0, padding=1.5)}, "`work` must give the padding"),
        (
            {"batches": lambda self, most=None: [self.sequences[: self.setup.batch_size]]},
            "train, none at 3: `batches` must hold the same sentences",
        ),
        (
            {"batches": lambda self, most=None: [self.sequences]},
            "train, none at 1: `batches` must have at most `batch_size` examples each, here 1",
        ),
        (
            {"work": lambda self, batch: Work(len(batch), 1, 2.0 + len(self.setup.method))},
            "train, packed at 1: `batches` must hold the same operations",
        ),
    ],
)
def test_each_fault_is_found_and_named(example, changes, fault):
    assert any(found.startswith(fault) or fault in found for found in faults(example, **changes))


def test_unknown_phases_and_no_phases_are_found(example):
    def run(self, batch):
        with self.setup.phase("thinking"):
            example.run(self, batch)

    assert any("names the phases thinking" in fault for fault in faults(example, run=run))

    def run_without_phases(self, batch):
        setup, self.setup = self.setup, replace(self.setup, phase=lambda _: nullcontext())
        example.run(self, batch)
        self.setup = setup

    assert any("must name its phases" in fault for fault in faults(example, run=run_without_phases))


def test_dropout_in_check_is_found(example):
    assert any("the second time" in fault for fault in faults(example, check=lambda self: torch.rand(3)))


def test_the_command_names_the_faults(toys, capsys):
    assert main(["plugins", "--check", "liar"]) == 2
    errors = capsys.readouterr().err
    assert "liar: train, wrong at 1: `check` must return what it returns without batching" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("results", "expected", "difference"),
    [
        ([1.0, 100.0], [1.0, 100.01], None),  # rounding is relative to each result
        ([1.01, 100.0], [1.0, 100.0], "result 0 is 1.01, but 1 without batching"),
        ([1e-6, 100.0], [0.0, 100.0], None),  # negligible next to the largest
        ([1e-5, 100.0], [0.0, 100.0], "result 0 is 1e-05, but 0 without batching"),
        ([1.0, 100.0], [1.0, 100.1], "result 1 is 100, but 100.1 without batching"),
        ([1.0], [1.0, 2.0], "1 results, but 2"),
        (None, [1.0], "0 results, but 1"),
        ([float("nan")], [1.0], "result 0 is nan"),
        ([1.0], [float("nan")], "but nan"),
        ([], [], None),
    ],
)
def test_disagreement(results, expected, difference):
    found = disagreement(results, expected)
    assert found == difference or difference in found
