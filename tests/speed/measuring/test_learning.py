"""Learning, as a user starts it."""

import pytest

from parser.cli import main
from parser.speed.measuring import learning
from parser.speed.measuring.cells import SpeedConfig

CONFIG = """
experiments:
  toy: {plugin: toy, methods: [none], batch_sizes: [1]}
learning:
  toys: {plugin: toy, methods: [good, broken, absent], batch_size: 4, target: 0.9, epochs: 5}
  other: {plugin: packed_gru, methods: [none], target: 1}
devices: [cpu]
seconds: 0.1
turn: 0.02
warmup: 0.01
"""


@pytest.fixture
def started(toys, tmp_path, capsys, monkeypatch):
    """Starts learning without processes: rows by method, the output, and the number of prepared cells."""
    monkeypatch.setattr(learning, "Remote", Here)

    def start(target=0.9, epochs=5):
        counts = tmp_path / "counts"
        toy = {
            "plugin": "toy",
            "methods": ["none", "good", "wrong"],
            "settings": {"count_runs_in": str(counts)},
            "batch_size": 4,
            "target": target,
            "epochs": epochs,
        }
        experiments = {"toy": {"plugin": "toy"}}
        own = {"devices": ["cpu"], "experiments": experiments, "learning": {"toys": toy}}
        config = SpeedConfig.model_validate(own)
        counts.unlink(missing_ok=True)
        learning.learn(config, tmp_path)
        rows = learning.learned(config, tmp_path)
        prepared = len(counts.read_text().splitlines()) if counts.exists() else 0
        return {row.method: row for row in rows}, capsys.readouterr().out, prepared

    return start


class Here:
    """A remote cell in this process."""

    def __init__(self, make, *arguments, timeout):
        self._object = make(*arguments)

    def call(self, method, *arguments):
        return getattr(self._object, method)(*arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_epochs_until_the_target(started):
    rows, printed, prepared = started()
    assert rows["none"].scores == [0.25, 0.5, 0.75, 1.0, 1.25]
    assert rows["good"].scores == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert rows["wrong"].scores == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert all(len(row.seconds) == len(row.scores) for row in rows.values())
    assert rows["good"].commit
    assert (rows["none"].notes, rows["good"].notes) == ({}, {"batching": 1.5})
    assert prepared == 3
    assert "0.9 in 2 epochs" in printed
    assert "not 0.9 in 5 epochs, best score 0.5000" in printed


def test_what_is_learned_is_not_learned_again(started):
    first, _, _ = started()
    again, printed, prepared = started()
    assert (again, printed, prepared) == (first, "", 0)


def test_more_epochs_are_learned_anew_and_another_target_is_only_looked_up(started):
    started(target=0.4, epochs=3)
    rows, _, prepared = started(target=0.4, epochs=4)
    assert {method: len(row.scores) for method, row in rows.items()} == {"none": 4, "good": 4, "wrong": 4}
    assert prepared == 3
    rows, _, prepared = started(target=1.0, epochs=4)
    assert prepared == 0
    assert rows["none"].reached.epochs == 4


@pytest.mark.extended
def test_from_config_to_report(toys, tmp_path, capsys):
    path, run = tmp_path / "small.yaml", tmp_path / "run"
    path.write_text(CONFIG)
    assert main(["speed", str(path), "--run", str(run)]) == 0
    assert (
        "error: ValueError: packed_gru lacks some of `learn`, `score` and `notes`" in capsys.readouterr().out
    )
    report = (run / "report.md").read_text()
    assert "## toys, learning" in report
    assert "| at epoch | batching |" in report
    assert "| good | 4 | 2 |" in report
    assert "| 5 | 1.50 |" in report
    assert "broken: error: ZeroDivisionError: the toy cannot learn" in report
    assert "absent: skipped: nobody has it." in report
    assert (run / "plots" / "toys-learning.svg").read_text().startswith("<svg")


def test_unknown_methods_are_told(toys, tmp_path, capsys):
    path = tmp_path / "small.yaml"
    path.write_text(CONFIG.replace("[good", "[god"))
    assert main(["speed", str(path), "--run", str(tmp_path / "run")]) != 0
    assert "learning.toys.methods: toy has no method 'god' here" in capsys.readouterr().err
