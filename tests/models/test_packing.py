"""What is made of a model for others: packages of half the size, wheels, and folders for a hub."""

import base64
import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.metadata import Metadata
from plain_parser import sentence as made_up
from safetensors.torch import load_file, save_file

from parser import __version__, load
from parser.cli import main
from parser.models.loading import ModelChoice, load_model, load_models
from parser.models.model_files import Package
from parser.models.network_model import NetworkModel, load_network
from parser.models.settings import ParserSettings
from parser.networks.settings import NetworkSettings
from parser.treebank.vocabulary import Vocabulary

CPU = torch.device("cpu")
MODEL = Path("tests/model")
TREES = str(MODEL / "parsed.conllu")
WEIGHTS = "weights.safetensors"
ROUNDED = "The weights were rounded to float16 after these scores were measured.\n"
CARD = "---\nlicense: cc-by-sa-4.0\n---\n\n# toy\n\nFor tests.\n"
PACKAGE = "stack_parser_toy_tiny"
USE = f"""
import {PACKAGE}
from parser import load
from parser.cli import main
trees = [each.parse(["dogs", "bark"]) for each in ({PACKAGE}.load(), load("{PACKAGE}"))]
assert trees[0] == trees[1]
print(*trees[0].heads)
main(["parse", "{PACKAGE}", "tests/model/parsed.conllu"])
"""


@pytest.fixture
def model(tmp_path):
    """The folder of a model in the folder of a run."""
    folder = tmp_path / "Toy-Tiny" / "model"
    shutil.copytree("tests/model", folder)
    shutil.copy("tests/text/tokenizer.json", folder)
    (folder / "README.md").write_text(CARD)
    (folder / "LICENSE.txt").write_text("Share alike.\n")
    return folder


def packed(model, output, *options):
    assert main(["pack", str(model), "--precision", "float16", "-o", str(output), *options]) == 0
    return output


@pytest.fixture
def half(model, tmp_path):
    return packed(model, tmp_path / "half.stackparser")


def test_weights_are_stored_in_16_bits_and_read_in_32(model, half):
    before, stored = map(len, ((model / WEIGHTS).read_bytes(), Package(half).content(WEIGHTS)))
    assert stored < 0.6 * before  # the names of the weights are as long as before
    exact = load_file(model / WEIGHTS)
    loaded = load_network(half, CPU).network.state_dict()
    assert loaded.keys() == exact.keys()
    for name, weight in exact.items():
        assert loaded[name].dtype == torch.float32, name
        assert torch.equal(loaded[name], weight.half().float()), name


def test_products_round_to_8_bits_if_trees_stay_as_good(model, tmp_path, capsys, monkeypatch):
    output = tmp_path / "rounded.stackparser"
    pack = "pack", str(model), "-o", str(output)
    assert main([*pack, "--precision", "int8"]) == 2
    assert "--precision int8 needs --dev FILE, which shows what rounding changes" in capsys.readouterr().err
    assert main([*pack, "--dev", TREES]) == 2
    assert "--dev FILE is for --precision int8 and --learn-from" in capsys.readouterr().err
    complete = [*pack, "--precision", "int8", "--dev", TREES]
    for limit, value, fault in (("LEAST_EQUAL_TAGS", 100, "only 9"), ("MOST_LOST_LAS", -1, "LAS is")):
        with monkeypatch.context() as patched:
            patched.setattr(f"parser.evaluation.rounding.{limit}", value)
            assert main(complete) == 2
        assert f"products should not round to 8 bits: {fault}" in capsys.readouterr().err
        assert not output.exists()
    monkeypatch.setattr("parser.evaluation.rounding.LEAST_EQUAL_TAGS", 99)  # of few words
    assert main(complete) == 0
    assert load_model(output).settings.int8
    comparison = capsys.readouterr().out.splitlines()[0]
    assert comparison.startswith(f"{TREES}: LAS is ")
    assert (
        f"products of matrices round to 8 bits. On {Path(TREES).name}, LAS is"
        in Package(output).content("README.md").decode()
    )
    for int8, expected in ((None, True), (True, True), (False, False)):
        assert load_models(ModelChoice((output,), int8=int8)).settings.int8 == expected
    parsed = tmp_path / "parsed.conllu"
    for precision in ("auto", "int8", "float32"):
        assert main(["parse", str(output), TREES, "-o", str(parsed), "--precision", precision]) == 0


def test_all_else_is_the_same(model, half):
    for path in model.iterdir():
        if path.name not in (WEIGHTS, "README.md", "parsed.conllu"):
            assert Package(half).content(path.name) == path.read_bytes(), path.name
    card = Package(half).content("README.md").decode()
    assert card == f"{CARD}\n{ROUNDED}"
    text = "The cat sleeps. Dogs don't bark."
    one, other = (load(path, device="cpu").parse_text(text) for path in (model, half))
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
    one, other = load_models(ModelChoice((both,))).members
    for name, weight in load_model(half).weights.items():
        assert np.array_equal(one.weights[name], weight)
        assert np.array_equal(other.weights[name], weight)


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
    NetworkModel.build(settings, vocabulary, CPU, torch.randn(2, 3)).save(tmp_path / "model", {})
    half = packed(tmp_path / "model", tmp_path / "half.stackparser")
    assert {weight.dtype for weight in load_network(half, CPU).network.state_dict().values()} == {
        torch.float32
    }


def test_weights_beyond_float16_are_refused(model, tmp_path, capsys):
    weights = load_file(model / WEIGHTS)
    weights["scores.weight"][0, 0] = 7e4
    save_file(weights, model / WEIGHTS)
    output = tmp_path / "half.stackparser"
    assert main(["pack", str(model), "--precision", "float16", "-o", str(output)]) == 2
    assert "scores.weight: has weights above 65,504" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("other", "name"), [(torch.bfloat16, "BF16"), (torch.float64, "F64"), (torch.int32, "I32")]
)
def test_other_types_are_named(model, other, name):
    weights = load_file(model / WEIGHTS)
    save_file({**weights, "scores.weight": weights["scores.weight"].to(other)}, model / WEIGHTS)
    with pytest.raises(ValueError, match=f"scores.weight is of type {name}, not F32 or F16"):
        load_model(model)


def test_a_package_made_of_another_needs_a_name(half, capsys):
    assert main(["pack", str(half), "--precision", "float16"]) == 2
    assert "needs a name: -o FILE" in capsys.readouterr().err


@pytest.fixture
def wheel(model, tmp_path):
    assert main(["pack", str(model), "--wheel", "-o", str(tmp_path / "dist")]) == 0
    [wheel] = (tmp_path / "dist").iterdir()
    return wheel


def test_what_is_in_a_wheel(wheel):
    assert wheel.name == f"{PACKAGE}-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as file:
        content = {name: file.read(name) for name in file.namelist()}
    information = f"{PACKAGE}-{__version__}.dist-info"
    head, _, text = content[f"{information}/METADATA"].decode().partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    Metadata.from_email(content[f"{information}/METADATA"])  # raises if it breaks the packaging guides
    assert fields["Name"] == PACKAGE
    assert (fields["License"], fields["License-File"]) == ("cc-by-sa-4.0", "LICENSE.txt")
    assert fields["Requires-Dist"] == f"stack-parser>={__version__}"
    assert text == "# toy\n\nFor tests.\n"
    assert content[f"{information}/licenses/LICENSE.txt"] == b"Share alike.\n"
    record = content.pop(f"{information}/RECORD").decode().splitlines()
    assert record.pop() == f"{information}/RECORD,,"
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(member).digest()) for name, member in content.items()
    }
    assert dict(line.split(",", 1) for line in record) == {
        name: f"sha256={digest.decode().rstrip('=')},{len(content[name])}" for name, digest in digests.items()
    }


def test_equal_models_give_equal_wheels(wheel, model, tmp_path):
    assert main(["pack", str(model), "-o", str(tmp_path / "toy-tiny.stackparser")]) == 0
    packed = str(tmp_path / "toy-tiny.stackparser")
    assert main(["pack", packed, "--wheel", "-o", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()


@pytest.mark.extended
def test_an_installed_wheel_is_known_by_its_name(wheel, tmp_path):
    site = tmp_path / "site"
    options = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", *options, "--target", site, wheel], check=True)
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n{USE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heads, parsed = done.stdout.split("\n", 1)
    assert heads == " ".join(map(str, load("tests/model").parse(["dogs", "bark"]).heads))
    assert main(["parse", "tests/model", "tests/model/parsed.conllu", "-o", str(tmp_path / "own")]) == 0
    assert parsed == (tmp_path / "own").read_text()


def test_a_folder_for_a_hub_is_the_model_and_its_card(model, tmp_path, capsys):
    hub = tmp_path / "hub"
    assert main(["pack", str(model), "--hub", "-o", str(hub)]) == 0
    assert "licence cc-by-sa-4.0" in capsys.readouterr().out
    same = {path.name: path.read_bytes() for path in model.iterdir() if path.name != "parsed.conllu"}
    assert {path.name: path.read_bytes() for path in hub.iterdir()} == same
    assert load(hub).parse(["dogs", "bark"]) == load(model).parse(["dogs", "bark"])
    assert main(["pack", str(model), "--hub", "-o", str(hub)]) == 2
    assert "is there already" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["--wheel", "--hub"])
@pytest.mark.parametrize("card", [None, "# toy\n", "---\nlanguage: en\n---\n"])
def test_a_model_whose_licence_is_not_told_stays(model, tmp_path, capsys, form, card):
    (model / "README.md").unlink()
    if card:
        (model / "README.md").write_text(card)
    assert main(["pack", str(model), form, "-o", str(tmp_path / "out")]) == 2
    assert "has no licence, so nobody else may use it: write a README.md" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("card", "name"),
    [
        (CARD.replace("cc-by-sa-4.0", '"free\\nRequires-Dist: other"'), "toy"),
        (CARD.replace("# toy", "Version: 9"), '"); import os; ("'),
    ],
)
def test_what_a_stranger_writes_gets_into_no_field_and_no_code(model, tmp_path, card, name):
    (model / "README.md").write_text(card)
    strange = tmp_path / f"{name}.stackparser"
    assert main(["pack", str(model), "-o", str(strange)]) == 0
    assert main(["pack", str(strange), "--wheel", "-o", str(tmp_path / "dist")]) == 0
    [wheel] = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as file:
        content = {path: file.read(path) for path in file.namelist()}
    [code] = (member for path, member in content.items() if path.endswith("__init__.py"))
    assert b"import os" not in code
    [metadata] = (member.decode() for path, member in content.items() if path.endswith("METADATA"))
    head = metadata.partition("\n\n")[0].splitlines()
    assert [line for line in head if line.startswith("Requires-Dist")] == [
        f"Requires-Dist: stack-parser>={__version__}"
    ]
    assert len([line for line in head if line.startswith("Version")]) == 1


def test_an_ensemble_is_given_away_with_the_card_of_its_first_model(model, tmp_path, capsys):
    command = ["pack", str(model), "--ensemble", str(model)]
    assert main([*command, "--wheel", "-o", str(tmp_path / "dist")]) == 0
    [wheel] = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as file:
        [metadata] = [file.read(name).decode() for name in file.namelist() if name.endswith("/METADATA")]
    assert "License: cc-by-sa-4.0" in metadata
    assert main([*command, "--hub", "-o", str(tmp_path / "hub")]) == 0
    assert (tmp_path / "hub" / "README.md").read_text() == CARD
    assert len(load(tmp_path / "hub", device="cpu").parse(["dogs", "bark"]).heads) == 2
    both = tmp_path / "both.stackparser"
    assert main([*command, "-o", str(both)]) == 0
    assert main(["pack", str(both), "--wheel", "-o", str(tmp_path / "again")]) == 0
    other = tmp_path / "other"
    shutil.copytree(model, other)
    (other / "README.md").write_text(CARD.replace("cc-by-sa-4.0", "lgpl-lr"))
    capsys.readouterr()
    assert main(["pack", str(model), "--ensemble", str(other), "--wheel", "-o", str(tmp_path / "no")]) == 2
    assert "the models have several licences, cc-by-sa-4.0, lgpl-lr" in capsys.readouterr().err
    (other / "README.md").unlink()
    assert main(["pack", str(model), "--ensemble", str(other), "--wheel", "-o", str(tmp_path / "no")]) == 2
    assert f"{other}: has no licence, so nobody else may use it" in capsys.readouterr().err
