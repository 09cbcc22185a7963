"""Models whose weights are stored in 16 bits."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from plain_parser import sentence as made_up
from safetensors.torch import load_file, save_file

from parser import load
from parser.cli import main
from parser.models.model import Model, ModelChoice, load_models
from parser.models.model_files import Package
from parser.models.settings import ParserSettings
from parser.networks.settings import NetworkSettings
from parser.treebank.vocabulary import Vocabulary

CPU = torch.device("cpu")
MODEL = Path("tests/model")
TREES = str(MODEL / "parsed.conllu")
WEIGHTS = "weights.safetensors"
ROUNDED = "The weights were rounded to float16 after these scores were measured.\n"


def packed(model, output, *options):
    assert main(["pack", str(model), "--precision", "float16", "-o", str(output), *options]) == 0
    return output


@pytest.fixture
def model(tmp_path):
    """A model with a tokenizer and a card."""
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    shutil.copy("tests/treebank/text/tokenizer.json", folder)
    (folder / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n\n# toy\n")
    return folder


@pytest.fixture
def half(model, tmp_path):
    return packed(model, tmp_path / "half.stackparser")


def test_weights_are_stored_in_16_bits_and_read_in_32(model, half):
    before, stored = (len(own) for own in ((model / WEIGHTS).read_bytes(), Package(half).content(WEIGHTS)))
    assert stored < 0.6 * before  # the names of the weights are as long as before
    exact = load_file(model / WEIGHTS)
    loaded = Model.load(half, CPU).network.state_dict()
    assert loaded.keys() == exact.keys()
    for name, weight in exact.items():
        assert loaded[name].dtype == torch.float32, name
        assert torch.equal(loaded[name], weight.half().float()), name


def test_all_else_is_the_same(model, half):
    for path in model.iterdir():
        if path.name not in (WEIGHTS, "README.md", "parsed.conllu"):
            assert Package(half).content(path.name) == path.read_bytes(), path.name
    card = Package(half).content("README.md").decode()
    assert card == (model / "README.md").read_text() + "\n" + ROUNDED
    text = "The cat sleeps. Dogs don't bark."
    one, other = (load(own, device="cpu").parse_text(text) for own in (model, half))
    assert [tree.words for tree in one] == [tree.words for tree in other]


def test_its_trees_are_those_of_the_model_where_rounding_does_not_matter(half, tmp_path):
    out = tmp_path / "out.conllu"
    assert main(["parse", str(half), TREES, "--tags=all", "-o", str(out)]) == 0
    assert out.read_bytes() == Path(TREES).read_bytes()


def test_packed_again_it_is_the_same_file(model, half, tmp_path):
    again = packed(half, tmp_path / "again.stackparser")
    assert again.read_bytes() == half.read_bytes()
    assert packed(model, tmp_path / "more.stackparser").read_bytes() == half.read_bytes()


def test_each_model_of_an_ensemble(model, half, tmp_path):
    both = packed(model, tmp_path / "both.stackparser", "--ensemble", str(MODEL))
    one, other = load_models(ModelChoice((both,)), CPU).members
    expected = Model.load(half, CPU).network.state_dict()
    for name, weight in expected.items():
        assert torch.equal(one.network.state_dict()[name], weight)
        assert torch.equal(other.network.state_dict()[name], weight)


def test_wheels_and_folders_for_a_hub_have_them_too(model, half, tmp_path):
    packed(model, tmp_path / "hub", "--hub")
    assert (tmp_path / "hub" / WEIGHTS).read_bytes() == Package(half).content(WEIGHTS)
    packed(model, tmp_path / "dist", "--wheel")
    [wheel] = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as file:
        [inside] = [name for name in file.namelist() if name.endswith(".stackparser")]
        assert file.read(inside) == half.read_bytes()


def test_pretrained_vectors_are_read_in_32_bits(tmp_path):
    vocabulary = Vocabulary.build([made_up((2, 0, 2))], ["form", "upos"], ["word0", "other"])
    settings = ParserSettings(network=NetworkSettings(pretrained="is/not/read/again.txt"))
    Model.build(settings, vocabulary, CPU, torch.randn(2, 3)).save(tmp_path / "model", {})
    half = packed(tmp_path / "model", tmp_path / "half.stackparser")
    assert {weight.dtype for weight in Model.load(half, CPU).network.state_dict().values()} == {torch.float32}


def test_weights_beyond_float16_are_refused(model, tmp_path, capsys):
    weights = load_file(model / WEIGHTS)
    weights["scores.weight"][0, 0] = 7e4
    save_file(weights, model / WEIGHTS)
    output = tmp_path / "half.stackparser"
    assert main(["pack", str(model), "--precision", "float16", "-o", str(output)]) == 2
    assert "scores.weight: has weights above 65,504" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize("other", [torch.bfloat16, torch.float64, torch.int32])
def test_other_types_are_named(model, other):
    weights = load_file(model / WEIGHTS)
    save_file({**weights, "scores.weight": weights["scores.weight"].to(other)}, model / WEIGHTS)
    expected = f"scores.weight is of {other}, not of torch.float32 or torch.float16"
    with pytest.raises(ValueError, match=expected):
        Model.load(model, CPU)


def test_a_package_made_of_another_needs_a_name(half, capsys):
    assert main(["pack", str(half), "--precision", "float16"]) == 2
    assert "needs a name: -o FILE" in capsys.readouterr().err


def test_the_number_of_the_format_stays(half):
    assert json.loads(Package(half).content("settings.json"))["format"] == 1
