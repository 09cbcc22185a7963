"""Scripts whose rows the documents stand on."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from parser.batching.recurrence.examples import EXAMPLES, with_scores
from parser.batching.recurrence.graph import Layer
from parser.batching.recurrence.operations import operations
from parser.batching.recurrence.weights import Weights

SCRIPTS = Path(__file__).parent.parent / "scripts"


def script(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("late", [0, 2])
def test_late_gradients_are_those_of_earlier_weights(late):
    weight = torch.nn.Parameter(torch.tensor(1.0))
    updates = script("late_gradients").LateUpdates(torch.optim.SGD([weight], lr=0.1), late)
    found = [1.0]
    for _ in range(6):
        updates.step(weight.square() / 2)
        found.append(weight.item())
    expected = [1.0] * (late + 1)  # the gradient of x²/2 is x
    for _ in range(6 - late):
        expected.append(expected[-1] - 0.1 * expected[-1 - late])
    assert found == pytest.approx(expected)


def test_output_is_kept_without_the_place_of_the_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PARSER_DATA", str(tmp_path))
    rows = tmp_path / "rows.jsonl"
    command = ["python", "-c", "import sys; print(sys.argv[1])", "${PARSER_DATA}/a"]
    monkeypatch.setattr(sys, "argv", ["keep_output.py", str(rows), *command])
    script("keep_output").main()
    row = json.loads(rows.read_text())
    assert row["command"] == command
    assert row["printed"] == ["${PARSER_DATA}/a"]
    assert row["machine"]["cpu"]


@pytest.mark.parametrize("network", ["peephole-lstm", "lstm", "two-layers"])
def test_the_products_of_the_bound_are_those_of_the_utilisation(network):
    bound = script("measure_recurrence_bound")
    graph = with_scores(EXAMPLES[network](Layer(size=5, kind="symbols"), 3), 4)
    products = bound.products_of(Weights(graph), 6, 2)
    found = sum(2 * each.rows * each.inner * each.columns * each.times for each in products)
    assert found == operations(Weights(graph), 6, 2, 6)


def test_levels_of_a_treebank():
    found = script("measure_levels").counted("data/quickstart/dev.conllu")
    assert found["sentences"] == "300"
    assert found["levels"].startswith("median ")


def test_rows_of_learned_programs(tmp_path):
    learn = script("learn_programs")
    found = {"count": learn.Accuracy(1, 4), "exist": learn.Accuracy(1, 1)}
    of_run = {"method": "levels", "epoch": 2, "epochs": 4, "seconds": 1.5}
    learn.keep(tmp_path / "rows.jsonl", of_run, accuracy=found, majority=found)
    (row,) = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert row["accuracy"] == row["majority"] == {"count": 25.0, "exist": 100.0, "all": 40.0}
    assert of_run.items() <= row.items()
    assert row["machine"]["cpu"]


def test_commits_are_compared_turn_by_turn(monkeypatch, capsys, tmp_path):
    compare = script("compare_commits")
    old, new = (compare.Side(tmp_path / name, "config", "only") for name in ("old", "new"))
    asked = []

    def measured(side, seconds):
        asked.append(side)
        drift = 1 + (len(asked) - 1) // 2  # the machine gets faster from turn to turn
        return {"cell": drift * (10.0 if side is old else 9.0), "other": drift * 10.0}

    monkeypatch.setattr(compare, "measured", measured)
    compare.compare((old, new), turns=6, seconds=1.0)
    assert asked[:4] == [old, new, new, old]
    *_, cell, other = capsys.readouterr().out.splitlines()
    assert cell == "cell: new / old = 0.90 [0.90, 0.90] over 6 turns: slower"
    assert other.endswith("over 6 turns: no slower")


def test_no_slower_means_that_the_interval_reaches_a_bound():
    compare = script("compare_commits")
    assert compare.verdict("x", [0.9, 0.91, 0.92] * 4).endswith("over 12 turns: slower")
    assert compare.verdict("x", [0.93, 0.96, 0.99] * 4).endswith("no slower")


def test_only_equal_cells_are_compared():
    compare = script("compare_commits")
    assert compare.paired({"a": 2.0, "b": 4.0}, {"b": 6.0, "a": 1.0}) == {"a": 0.5, "b": 1.5}
    assert compare.paired({"its old name": 2.0}, {"name": 3.0}) == {"name": 1.5}
    with pytest.raises(SystemExit, match="the commits measured different cells"):
        compare.paired({"a": 2.0}, {"a": 1.0, "b": 1.0})


def test_speeds_of_a_run(tmp_path):
    row = {"experiment": "e", "plugin": "p", "mode": "train", "device": "cpu", "threads": 1, "method": "m"}
    row |= {"batch_size": 4, "status": "ok", "sentences_per_second": 2.5}
    path = tmp_path / "rows.jsonl"
    rows = [row, {**row, "status": "skipped: why"}, {**row, "precision": "bfloat16", "batch_size": 8}]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    # The first is of a version without precisions.
    expected = {"e, train, cpu, 1, float32, m, 4": 2.5, "e, train, cpu, 1, bfloat16, m, 8": 2.5}
    assert script("compare_commits").speeds(path) == expected
