"""Models in old formats can still be used. A small model of each format is kept, with its output."""

import shutil
from pathlib import Path

import pytest
import torch

from parser.cli import main
from parser.evaluation.evaluate import evaluate
from parser.parsing.model import Model
from parser.treebank.conllu import read_treebank

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


@pytest.mark.parametrize("model", ["tests/models/format-3", "tests/models/format-4"])
def test_a_model_gives_its_old_tags(model, tmp_path):
    wrote, blank, writes = Path(model, "parsed.conllu"), tmp_path / "blank", tmp_path / "out"
    lines = (line.split("\t") for line in wrote.read_text(encoding="utf-8").splitlines(keepends=True))
    untagged = ("\t".join([*line[:2], *"____", *line[6:]]) if len(line) == 10 else line[0] for line in lines)
    blank.write_text("".join(untagged), encoding="utf-8")
    assert main(["parse", model, str(blank), "-o", str(writes)]) == 0
    assert writes.read_bytes() == wrote.read_bytes()


def test_what_older_models_learnt_as_auxiliary_tags_is_predicted():
    model = Model.load(Path("tests/models/format-2-tags"), torch.device("cpu"))
    assert model.settings.network.tags.predict == ("upos", "xpos")
    assert list(model.vocabulary.predicted) == ["upos", "xpos"]
    gold = read_treebank("tests/models/format-2-tags/parsed.conllu")
    scores = evaluate(model, gold)
    assert scores.las == 100  # the trees in the file are the model's
    assert 80 < scores.percent("upos") < 100


def test_values_of_old_models_that_can_not_be_written_are_refused(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree("tests/models/format-2-tags", folder)
    vocabulary = folder / "vocabulary.json"
    vocabulary.write_text(vocabulary.read_text(encoding="utf-8").replace('"NOUN"', r'"X\n1\tmore"'))
    with pytest.raises(ValueError, match=r"predicted upos: .* can not be written"):
        Model.load(folder, torch.device("cpu"))


def test_a_model_of_two_treebanks_gives_the_labels_of_the_one_that_is_named(tmp_path):
    """In the second one determiners are labelled `dep`."""
    path, writes = "tests/models/format-5", tmp_path / "out"
    wrote = Path(path, "parsed.conllu").read_text(encoding="utf-8")
    assert wrote.count("\tdet\t") > 10
    assert "\tdep\t" not in wrote
    asked = ["parse", path, f"{path}/parsed.conllu", "-o", str(writes), "--treebank"]
    assert main([*asked, "one"]) == 0
    assert writes.read_text(encoding="utf-8") == wrote
    assert main([*asked, "two"]) == 0
    assert writes.read_text(encoding="utf-8") == wrote.replace("\tdet\t", "\tdep\t")
