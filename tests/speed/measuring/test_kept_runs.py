"""The runs that are kept in docs/measurements are read by this version."""

from pathlib import Path

import pytest

from parser.speed.measuring.external import ROWS as EXTERNAL
from parser.speed.measuring.external import external_rows
from parser.speed.measuring.rows import read_content
from parser.speed.measuring.run import ROWS, read_run_config, rows_of

pytestmark = pytest.mark.extended

RUNS = sorted(path.parent for path in Path("docs/measurements").rglob("config.yaml"))


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: "/".join(folder.parts[2:]))
def test_every_row_is_found(folder):
    config = read_run_config(folder)
    if config.external:
        lines = read_content(folder / EXTERNAL).splitlines()
        assert len(external_rows(config, folder)) == len(lines) == len(config.external)
        return
    assert len(rows_of(folder, config).cells) == len(read_content(folder / ROWS).splitlines()) > 0
