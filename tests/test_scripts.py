"""Scripts whose rows the documents stand on."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

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
