"""The package as a whole."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import parser


def test_windows_is_told_that_it_is_not_supported(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ImportError, match="runs on Linux and macOS; on Windows use it in WSL 2"):
        importlib.reload(parser)
    assert "Windows" in Path("README.md").read_text(encoding="utf-8")


def test_the_licence_is_there_and_named():
    project = Path("pyproject.toml").read_text(encoding="utf-8")
    assert 'license = "Apache-2.0"' in project
    assert "Apache License" in Path("LICENSE").read_text(encoding="utf-8")[:200]


def test_what_nobody_asked_for_is_not_imported():
    """Ray, the launcher of several processes, and what has the optional packages."""
    unasked = "ray", "spacy", "ufal", "h5py", "torch.distributed.launcher", "torch.distributed.elastic.agent"
    program = f"import sys, parser.cli; print([name for name in {unasked} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
