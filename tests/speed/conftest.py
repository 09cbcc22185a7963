"""Plugins of another package, as a user would have installed them."""

import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "docs" / "example-plugin" / "packed_gru.py"

ENTRY_POINTS = """[stack_parser.plugins]
toy = toys:Toy
liar = toys:Liar
packed_gru = packed_gru:PackedGRU
unimportable = toys_that_are_not_there:Toy
leaving = leaves_when_imported:Toy
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """The folder of a package that announces the plugins of `toys.py` and of the documentation."""
    folder = tmp_path / "site"
    information = folder / "toys-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(HERE / "toys.py", folder)
    shutil.copy(EXAMPLE, folder)
    (folder / "leaves_when_imported.py").write_text("import sys\n\nsys.exit('not today')\n")
    monkeypatch.syspath_prepend(str(folder))  # the processes of the cells get it too
    return folder
