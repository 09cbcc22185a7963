"""The runs that are kept in docs/measurements are still read by this version."""

from pathlib import Path

import pytest

from parser.speed.external import ROWS as EXTERNAL
from parser.speed.external import external_rows
from parser.speed.row_file import read_content
from parser.speed.run import ROWS, read_run_config, rows_of

pytestmark = pytest.mark.extended

RUNS = sorted(path.parent for path in Path("docs/measurements").rglob("config.yaml"))


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: "/".join(folder.parts[2:]))
def test_every_row_is_found(folder):
    config = read_run_config(folder).model_copy(update={"devices": ["cpu"]})
    if config.external:
        lines = read_content(folder / EXTERNAL).splitlines()
        assert len(external_rows(config, folder)) == len(lines) == len(config.external)
        return
    assert len(rows_of(folder, config)) == len(read_content(folder / ROWS).splitlines()) > 0


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: "/".join(folder.parts[2:]))
def test_every_plot_of_a_report_is_kept_and_no_other(folder):
    report = (folder / "report.md").read_text()
    kept = [path.name for path in (folder / "plots").glob("*.svg")]
    assert kept
    assert [name for name in kept if f"(plots/{name})" not in report] == []
    assert report.count("](plots/") == len(kept)
