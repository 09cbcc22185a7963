"""README and docs/ have the figures of the rows that are kept, and no others in their tables."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from figures.pages import figures_by_name, names_in, pictures, without_figures
from scripts_of import SCRIPTS, script

pytestmark = pytest.mark.extended

PAGES = script("write_figures").pages()
HEADER = re.compile(r"^\|.*\n(?=\|---)", re.MULTILINE)
MEASURED_CELL = re.compile(r"\| *[+-]?\d[\d,]*\.\d|\| *\d{3,}")
"""The beginning of a cell that looks like a measurement."""


def name_of(page):
    return str(page.relative_to(SCRIPTS.parent))


def test_the_pages_are_up_to_date():
    command = [sys.executable, SCRIPTS / "write_figures.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_figure_stands_on_a_page():
    shown = {name for page in PAGES for name in names_in(page.read_text(encoding="utf-8"))}
    assert shown == set(figures_by_name())


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "settings.md"], ids=name_of)
def test_no_figure_stands_in_a_table_without_a_mark(page):
    text = HEADER.sub("", without_figures(page.read_text(encoding="utf-8")))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert [line for line in lines if MEASURED_CELL.search(line)] == []


def test_every_picture_is_shown():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in pictures():
        assert Path("docs", name).is_file()
        assert f"{name})" in text
