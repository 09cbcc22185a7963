import json

import pytest
import torch
import yaml
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


def vocabulary_with(labels):
    columns = {"form": [], "upos": []}
    return json.dumps({"columns": columns, "labels": labels, "root_labels": [1], "word_labels": [2]})


def saved(folder):
    Model.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU).save(folder, {})
    return yaml.safe_load((folder / "config.yaml").read_text()), json.loads(
        (folder / "vocabulary.json").read_text()
    )


def test_a_newer_programs_model_is_told(tmp_path):
    settings, _ = saved(tmp_path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**settings, "format": 2, "miracles": True}))
    with pytest.raises(ValueError, match="made by a newer program"):
        Model.load(tmp_path, CPU)


def test_sizes_that_do_not_fit_are_told_by_name(tmp_path):
    settings, _ = saved(tmp_path)
    network = {**settings["network"], "hidden_size": 10**6, "layers": 3}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**settings, "network": network}))
    with pytest.raises(ValueError, match=r"stack\.weight_hh_l2 is missing, not \(4000000, 1000000\)"):
        Model.load(tmp_path, CPU)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", "!!python/object/apply:os.system ['touch {trap}']"),
        ("config.yaml", "network: &a [*a]"),
        ("config.yaml", "- 1"),
        (
            "config.yaml",
            "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{9 * f'*a{n - 1},'}]\n" for n in range(1, 30)),
        ),
        ("config.yaml", "network: {layers: 1000000000}"),
        ("config.yaml", "network: {hidden_size: 1" + 40 * "0" + "}"),
        ("vocabulary.json", "[" * 100_000),
        ("vocabulary.json", '{"columns": {"form": 3}, "labels": [], "root_labels": [], "word_labels": []}'),
        ("vocabulary.json", '{"columns": {"lemma": []}, "labels": [], "root_labels": [], "word_labels": []}'),
        ("vocabulary.json", '{"columns": {}, "labels": ["a"], "root_labels": [99], "word_labels": [-7]}'),
        (
            "vocabulary.json",
            '{"columns": {"pretrained": []}, "labels": [], "root_labels": [], "word_labels": []}',
        ),
        ("vocabulary.json", vocabulary_with(["root", "a\tb"])),
        ("vocabulary.json", vocabulary_with(["root", "a\n1\tx"])),
        ("vocabulary.json", vocabulary_with(["root", "root"])),
        ("vocabulary.json", vocabulary_with(["root", "\ud800"])),
        ("weights.safetensors", b"\xff" * 8 + b"{}"),
        ("weights.safetensors", b"\x80\x04cos\nsystem\n"),
    ],
)
def test_a_strangers_folder_does_no_harm(tmp_path, name, content):
    saved(tmp_path)
    trap = tmp_path / "trap"
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(
        content.replace("{trap}", str(trap))
    )
    with pytest.raises(ValueError, match="broken or not of one model"):
        Model.load(tmp_path, CPU)
    assert not trap.exists()


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    model = Model.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU)
    torch.nn.init.constant_(model.network.scores.bias, float("nan"))
    model.save(tmp_path, {})
    with pytest.raises(ValueError, match=r"scores\.bias holds what is no finite number"):
        Model.load(tmp_path, CPU)
