"""Models that people have keep working: a small one of each format is kept, with trees that it wrote."""

from pathlib import Path

import pytest

from parser.cli import main

MODELS = sorted(Path("tests/models").iterdir())


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_an_old_model_writes_the_trees_that_it_wrote(model, tmp_path):
    """They are of sentences in which no decision is close."""
    wrote, writes = model / "parsed.conllu", tmp_path / "parsed.conllu"
    assert main(["parse", str(model), str(wrote), "-o", str(writes)]) == 0
    assert writes.read_bytes() == wrote.read_bytes()
    assert writes.read_text(encoding="utf-8").count("\n\n") >= 30
