import json

import pytest
import torch
from plain import sentence

from parser.config import NetworkSettings, ParserSettings
from parser.parsing.model import Model
from parser.parsing.slots import parse
from parser.treebank.vocabulary import Vocabulary

CPU = torch.device("cpu")
TRAIN = [sentence((2, 0, 2)), sentence((0, 1))]


@pytest.mark.parametrize("pretrained", [[], ["word0", "other"]])
def test_a_saved_model_parses_as_before_without_any_other_file(tmp_path, pretrained):
    vocabulary = Vocabulary.build(TRAIN, ["form", "upos"], pretrained)
    vectors = torch.randn(2, 3) if pretrained else None
    settings = ParserSettings(
        system="arc-eager", network=NetworkSettings(pretrained="is/not/read/again.txt", dropout=0.5)
    )
    model = Model.build(settings, vocabulary, CPU, vectors)
    model.network.eval()
    model.save(tmp_path, {"dev": {"las": 12.5}})
    loaded = Model.load(tmp_path, CPU)
    assert loaded.settings == settings
    for name, weight in model.network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], weight), name
    sentences = [sentence((0, 1, 1, 2, 3)), sentence((2, 0))]
    assert parse(loaded, sentences) == parse(model, sentences)
    assert json.loads((tmp_path / "scores.json").read_text())["dev"]["las"] == 12.5


def test_says_when_a_folder_is_no_model(tmp_path):
    with pytest.raises(
        ValueError, match=r"not a model's folder, config.yaml, vocabulary.json, weights.safetensors missing"
    ):
        Model.load(tmp_path, CPU)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("weights.safetensors", b"\0" * 20),
        ("vocabulary.json", b"{}"),
        ("config.yaml", b"network: {hidden_size: 8}"),
    ],
)
def test_says_when_a_models_files_are_broken(tmp_path, name, content):
    Model.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU).save(tmp_path, {})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="broken or not of one model"):
        Model.load(tmp_path, CPU)
