"""Runs of older versions are still read: tests/speed/old-run is one of 2026-11-21."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from parser.cli import main
from parser.speed.cells import cells_of
from parser.speed.discovery import find
from parser.speed.row_file import RowFile
from parser.speed.run import read_run_config, rows_of

OLD_RUN = Path(__file__).parent / "old-run"


@pytest.fixture
def old_run(tmp_path):
    return Path(shutil.copytree(OLD_RUN, tmp_path / "run"))


def test_plots_of_an_old_run_are_drawn(old_run, capsys):
    assert main(["plots", str(old_run)]) == 0
    report = (old_run / "report.md").read_text()
    assert "| static | 10000 |" in report
    assert "known" not in report
    assert list((old_run / "plots").glob("*.svg"))


def test_old_rows_have_the_names_of_today(old_run):
    rows = rows_of(old_run, read_run_config(old_run))
    assert {row["method"] for row in rows} == {"none", "static", "grouped"}
    for row in rows:
        assert {"interleaved_group", "phase_seconds"} <= row.keys()
        assert not {"sitting", "split"} & row.keys()
        assert "known" not in row["only"]


def test_settings_that_came_later_have_their_defaults(old_run):
    lines = [json.loads(line) for line in (old_run / "rows.jsonl").read_text().splitlines()]
    for row in lines:
        del row["settings"]["chosen"]
    (old_run / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    assert len(rows_of(old_run, read_run_config(old_run))) == len(lines)


def test_a_config_with_an_old_name_is_refused_with_the_new_one(old_run, tmp_path, capsys):
    path = old_run / "config.yaml"
    config = ["speed", str(path), "--run", str(tmp_path / "new")]
    assert main(config) == 2
    assert "precision: this setting is now called relative_error" in capsys.readouterr().err
    path.write_text(path.read_text().replace("\nprecision:", "\nrelative_error:"))
    assert main(config) == 2
    assert "experiments.experts-1.methods: 'known' is now called 'static'" in capsys.readouterr().err
    assert main([*config, "--set", "experiments.experts-1.methods=[none]"]) == 2
    assert "experiments.experts-1.batch_sizes: 'known' is now called 'static'" in capsys.readouterr().err


def test_compressed_rows_are_read_and_unpacked_when_rows_are_added(old_run):
    path = old_run / "rows.jsonl"
    content = path.read_bytes()
    expected = rows_of(old_run, read_run_config(old_run))
    with gzip.open(f"{path}.gz", "wb") as file:
        file.write(content)
    path.unlink()
    assert rows_of(old_run, read_run_config(old_run)) == expected
    assert not path.exists()
    cell = cells_of(read_run_config(old_run), find)[0]
    RowFile(path).add(cell, {"status": "timeout"})
    assert path.read_bytes().startswith(content)
    assert RowFile(path).find(cell)["status"] == "timeout"


def test_a_damaged_compressed_file_is_refused(old_run):
    path = old_run / "rows.jsonl"
    with gzip.open(f"{path}.gz", "wb") as file:
        file.write(path.read_bytes())
    path.unlink()
    packed = path.with_name("rows.jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"rows.jsonl.gz: not a complete gzip file"):
        RowFile(path)
