"""Giving a model away: as a wheel, and as a folder for a hub."""

import base64
import hashlib
import shutil
import subprocess
import sys
import zipfile

import pytest
from packaging.metadata import Metadata

from parser import __version__, load
from parser.cli import main

CARD = "---\nlicense: cc-by-sa-4.0\n---\n\n# toy\n\nFor tests.\n"
PACKAGE = "stack_parser_toy_tiny"
USE = f"""
import {PACKAGE}
from parser import load
from parser.cli import main
trees = [own.parse(["dogs", "bark"]) for own in ({PACKAGE}.load(), load("{PACKAGE}"))]
assert trees[0] == trees[1]
print(*trees[0].heads)
main(["parse", "{PACKAGE}", "tests/model/parsed.conllu"])
"""


@pytest.fixture
def model(tmp_path):
    """The folder of a model in the folder of a run."""
    folder = tmp_path / "Toy-Tiny" / "model"
    shutil.copytree("tests/model", folder)
    shutil.copy("tests/treebank/text/tokenizer.json", folder)
    (folder / "README.md").write_text(CARD)
    (folder / "LICENSE.txt").write_text("Share alike.\n")
    return folder


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
    assert fields["Requires-Dist"] == f"stack-parser[text]>={__version__}"
    assert text == "# toy\n\nFor tests.\n"
    assert content[f"{information}/licenses/LICENSE.txt"] == b"Share alike.\n"
    record = content.pop(f"{information}/RECORD").decode().splitlines()
    assert record.pop() == f"{information}/RECORD,,"
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(own).digest()) for name, own in content.items()}
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
    [code] = (own for path, own in content.items() if path.endswith("__init__.py"))
    assert b"import os" not in code
    [metadata] = (own.decode() for path, own in content.items() if path.endswith("METADATA"))
    head = metadata.partition("\n\n")[0].splitlines()
    assert [line for line in head if line.startswith("Requires-Dist")] == [
        f"Requires-Dist: stack-parser[text]>={__version__}"
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
