"""The parsers of other programs, by the commands of docs/speed.md, in an environment without ours."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from programs import make_foreign

from parser.cli import main

pytestmark = pytest.mark.extended

PYTHON = "runs/peers/venv/bin/python"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The project's, with that environment, and with the shipped treebank in the place of English EWT."""
    folder = tmp_path / "project"
    monkeypatch.setenv("PYTHONPATH", make_foreign(folder)["PYTHONPATH"])
    monkeypatch.setenv("PARSER_DATA", str(folder / "data"))
    treebank = folder / "data" / "ud" / "UD_English-EWT"
    treebank.mkdir(parents=True)
    for part, ours in (("train", "dev"), ("dev", "dev"), ("test", "test")):  # dev is the smallest
        shutil.copy(f"data/quickstart/{ours}.conllu", treebank / f"en_ewt-ud-{part}.conllu")
    python = folder / PYTHON
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("name", "package", "once"),
    [("spaCy, efficiency", "spacy", "--steps 1"), ("UDPipe 1", "ufal.udpipe", "--iterations 1")],
)
def test_a_peer_is_trained_and_measured_as_the_page_says(name, package, once, folder, monkeypatch):
    pytest.importorskip(package)
    page = Path("docs/speed.md").read_text(encoding="utf-8")
    measured = yaml.safe_load(Path("configs/speed/peers.yaml").read_text(encoding="utf-8"))
    program = measured["external"][name]
    script = re.search(r"scripts/studies/peers/\w+\.py", program["command"])[0]
    [place] = re.findall(r"^    (U=.*)$", page, re.M)
    [train] = re.findall(rf"^    ({PYTHON} {script} train .*)$", page, re.M)
    monkeypatch.chdir(folder)
    subprocess.run(f"{place}\n{train} {once}", shell=True, check=True)
    config = folder / "peers.yaml"
    config.write_text(yaml.safe_dump({"external": {name: program}, "external_turns": 1}))
    assert main(["speed", str(config), "--run", "runs/speed"]) == 0
