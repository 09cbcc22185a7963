"""A small model of the present format is kept: if a change makes other files or trees of it, this is seen."""

import json
from pathlib import Path

import pytest
import torch
from make_model import steady

from parser.cli import main
from parser.parsing.model import Model
from parser.treebank.conllu import read_treebank

MODEL = Path("tests/model")
PARSED = MODEL / "parsed.conllu"


@pytest.fixture(scope="module")
def model():
    return Model.load(MODEL, torch.device("cpu"))


def test_it_gives_the_kept_trees_and_tags(tmp_path):
    wrote, blank, writes = PARSED.read_text(encoding="utf-8"), tmp_path / "blank", tmp_path / "out"
    lines = (line.split("\t") for line in wrote.splitlines(keepends=True))
    untagged = ("\t".join([*line[:2], *"____", *line[6:]]) if len(line) == 10 else line[0] for line in lines)
    blank.write_text("".join(untagged), encoding="utf-8")
    assert main(["parse", str(MODEL), str(blank), "-o", str(writes)]) == 0
    assert writes.read_text(encoding="utf-8") == wrote
    assert wrote.count("\n\n") == 40


def test_saved_again_its_files_are_the_same(model, tmp_path):
    model.save(tmp_path, json.loads((MODEL / "scores.json").read_text()))
    saved = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert saved == {path.name: path.read_bytes() for path in MODEL.iterdir() if path != PARSED}


def test_rounding_changes_none_of_its_trees(model):
    sentences = read_treebank(str(PARSED))
    assert steady(model, sentences) == sentences
    dev = read_treebank("data/quickstart/dev.conllu")
    assert len(steady(model, dev)) < len(dev)
