"""Models in old formats can still be used. A small model of each format is kept, with its output."""

import shutil
from pathlib import Path

import pytest
import torch

from parser.cli import main
from parser.parsing.model import Model

MODELS = sorted(Path("tests/models").iterdir())


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_an_old_model_gives_its_old_output(model, tmp_path):
    """The sentences have no decisions that rounding could change."""
    wrote, writes = model / "parsed.conllu", tmp_path / "parsed.conllu"
    assert main(["parse", str(model), str(wrote), "-o", str(writes)]) == 0
    assert writes.read_bytes() == wrote.read_bytes()
    assert writes.read_text(encoding="utf-8").count("\n\n") >= 30


def test_the_oldest_models_do_not_say_their_format(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree("tests/models/format-1", folder)
    settings = folder / "config.yaml"
    settings.write_text(settings.read_text().replace("format: 1\n", ""))
    assert Model.load(folder, torch.device("cpu")).settings.network.word_features
