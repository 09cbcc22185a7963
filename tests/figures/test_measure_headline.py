"""The cells of the headline, whose rows must be from one commit."""

import json
import shutil

import pytest
from figures.headline import CONFIG, read_groups
from programs import script

from parser.config.file import read_settings
from parser.speed.measuring.cells import SpeedConfig, cells_of
from parser.speed.tasks.discovery import find

QUICK = """
Tasks:
  baseline: one after the other
  method: none
  lines:
    Toys:
      config: toys
      experiment: toy
      batch_size: 2
      best: [agenda]
      simple: [manual]
      paper: {name: A & B 2020}
"""
TOYS = """
experiments:
  toy:
    plugin: bilstm_tagger
    methods: [none, agenda, depth, manual, library]
    batch_sizes: [1, 2]
    settings:
      made: {sentences: 4, shortest: 2, longest: 3, vocabulary: 9, labels: 3}
      word_size: 3
      hidden_size: 4
  other:
    plugin: bilstm_tagger
devices: [cpu]
seconds: 0.01
turn: 0.01
warmup: 0.01
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    program = script("measure_headline")
    (tmp_path / "headline.yaml").write_text(QUICK)
    (tmp_path / "toys.yaml").write_text(TOYS)
    monkeypatch.setattr(program, "CONFIG", tmp_path / "headline.yaml")
    monkeypatch.setattr(program, "CONFIGS", tmp_path)
    monkeypatch.setattr(program, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(program, "ROWS", tmp_path / "kept")
    monkeypatch.setattr("sys.argv", ["measure_headline.py"])
    return program


def test_every_line_is_measured_beside_its_baseline_at_the_same_batch_size():
    program = script("measure_headline")
    groups = list(read_groups(CONFIG).values())
    configs = program.headline_configs(groups)
    for group in groups:
        for line in group.lines.values():
            cells = cells_of(configs[line.config], find)
            own = [cell for cell in cells if (cell.experiment, cell.mode) == (line.experiment, line.mode)]
            sizes = {cell.batch_size for cell in own}
            assert line.batch_size is None or sizes == {line.batch_size}
            found = [{cell.method for cell in own if cell.batch_size == size} for size in sizes]
            assert all(group.method in methods for methods in found)
            assert any({group.method, *line.best, *line.simple} <= methods for methods in found)
    # Only those settings of the config that the lines need.
    whole = read_settings(program.CONFIGS / "on-the-fly.yaml", SpeedConfig)
    assert set(configs["on-the-fly"].experiments) < set(whole.experiments)
    assert configs["on-the-fly"].seconds == whole.seconds


def test_what_is_measured_is_kept_and_not_measured_again(program, tmp_path, capsys):
    assert program.main() == 0
    kept = tmp_path / "kept/toys/rows.jsonl.gz"
    first = kept.read_bytes()
    assert program.main() == 0
    assert "3 of 3 cells were measured before" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "runs/toys")
    assert program.main() == 0
    assert "3 of 3 cells were measured before" in capsys.readouterr().out
    assert len(kept.read_bytes()) == pytest.approx(len(first), rel=0.1)


def test_rows_of_two_commits_are_refused(program, tmp_path):
    assert program.main() == 0
    path = tmp_path / "runs/toys/rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "commit": "another"}) + "\n" for row in rows))
    with pytest.raises(ValueError, match="has rows of the commit another"):
        program.main()


def test_an_unknown_config_is_named(program, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["measure_headline.py", "other"])
    assert program.main() == 2
    assert "does not name other; it names toys" in capsys.readouterr().err
