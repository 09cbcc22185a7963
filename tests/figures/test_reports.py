"""Every kept measurement is read by this version and can be drawn; rows are found by their configs."""

import json
from pathlib import Path

import pytest
from figures.kept import MEASUREMENTS, rows, tables, training_runs
from figures.pages import TABLES, reports
from programs import script

from parser.speed.measuring.external import ROWS as EXTERNAL
from parser.speed.measuring.external import external_rows
from parser.speed.measuring.rows import read_content
from parser.speed.measuring.run import ROWS, read_run_config, rows_of
from parser.training.config import Config, read_config
from parser.training.runs import rows_of as runs_of
from parser.training.table import read_table

pytestmark = pytest.mark.extended


def test_some_reports_are_drawn(tmp_path, monkeypatch, capsys):
    program = script("write_reports")
    names = ["speed/levels/quiet", "speed/peers", "accuracy/parts"]
    monkeypatch.setattr(program, "REPORTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["write_reports.py", *names])
    assert program.main() == 0
    for name in names:
        report = (tmp_path / name / "report.md").read_text(encoding="utf-8")
        drawn = list((tmp_path / name / "plots").glob("*.svg"))
        assert drawn
        assert all(f"(plots/{path.name})" in report for path in drawn)
    monkeypatch.setattr("sys.argv", ["write_reports.py", "speed/other"])
    assert program.main() == 2
    assert "there is no speed/other" in capsys.readouterr().err


def test_every_folder_and_every_table_has_a_report():
    names = set(reports())
    assert {
        path.parent.relative_to(MEASUREMENTS).as_posix() for path in MEASUREMENTS.rglob("config.yaml")
    } < names
    assert {f"accuracy/{name}" for name in tables()} < names


OF_REAL_TREEBANKS = [
    *("characters", "small-treebank-settings", "seeds-from-raw-text", "word-dropout"),
    *("pretrained-encoders", "many-languages", "from-many-languages"),
]
"""Their configs depend on the sizes of the treebanks."""


@pytest.mark.parametrize("name", [name for name in tables() if name not in OF_REAL_TREEBANKS])
def test_every_run_of_a_table_is_found(name):
    _, jobs = read_table(TABLES / f"{name}.yaml")
    found = runs_of(jobs, training_runs(name))
    assert {(row["name"], row["seed"]) for row in found.values()} == {(job.name, job.seed) for job in found}
    assert len(found) == len(training_runs(name))


@pytest.mark.real_data
@pytest.mark.parametrize("name", OF_REAL_TREEBANKS)
def test_every_run_of_a_table_by_size_is_found(name, treebanks):
    test_every_run_of_a_table_is_found(name)


def test_single_runs_are_of_the_configs_they_are_named_after():
    for run in training_runs(None):
        config = read_config(Path(f"configs/{run['name']}.yaml"))
        assert Config.model_validate_json(json.dumps(run["config"])) == config


def test_the_distilled_parser_has_the_network_of_the_small_one():
    small, distilled = (
        read_config(Path(f"configs/{name}.yaml")) for name in ("ud-fast", "ud-fast-distilled")
    )
    assert distilled.parser == small.parser


def test_every_row_says_when_and_where_it_was_measured():
    for path in MEASUREMENTS.rglob("*.jsonl*"):
        for row in rows(str(path.relative_to(MEASUREMENTS)).removesuffix(".gz")):
            assert row["date"]
            assert row["commit"]
            assert row["machine"]["cpu"]


RUNS = sorted(path.parent for path in Path("docs/measurements").rglob("config.yaml"))


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: "/".join(folder.parts[2:]))
def test_every_row_is_found(folder):
    config = read_run_config(folder)
    if config.external:
        lines = read_content(folder / EXTERNAL).splitlines()
        assert len(external_rows(config, folder)) == len(lines) == len(config.external)
        return
    assert len(rows_of(folder, config).cells) == len(read_content(folder / ROWS).splitlines()) > 0
