import os
import subprocess
import sys
from pathlib import Path

import pytest

import parser
from parser.system.processes import environment, environment_for_children, python


def test_a_process_finds_the_modules_that_this_one_does(tmp_path, monkeypatch):
    (tmp_path / "parser.py").write_text("raise RuntimeError('of somebody else')")
    monkeypatch.setattr(sys, "path", [os.getcwd(), *sys.path])
    monkeypatch.chdir(tmp_path)
    code = "import os, parser; print(parser.__file__, os.environ['RANK'])"
    done = subprocess.run(python("-c", code), env=environment(RANK="3"), capture_output=True, text=True)
    assert done.stdout == f"{Path(parser.__file__)} 3\n", done.stderr


def test_the_working_folder_is_found_by_its_name_if_it_is_searched_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert environment()["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)


@pytest.mark.parametrize("path", [None, "/somewhere"])
def test_the_environment_is_as_before_afterwards(path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path:
        monkeypatch.setenv("PYTHONPATH", path)
    before = dict(os.environ)
    with environment_for_children():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert dict(os.environ) == before


def test_one_file_says_how_python_is_started():
    paths = [path for path in Path("parser").rglob("*.py") if "sys.executable" in path.read_text()]
    assert paths == [Path("parser/system/processes.py")]
