"""A model's folder and its package in a single file. The kept package shows if the format changes."""

import json
import random
import shutil
import sys
import zipfile
from contextlib import suppress
from errno import EACCES
from pathlib import Path

import numpy as np
import pytest
import torch
from extended import first_of
from make_model import steady

import parser
from parser.cli import main
from parser.models.loading import load_model
from parser.models.model_files import Folder, Package
from parser.models.network_model import load_network
from parser.models.transformer_files import refuse_missing_libraries
from parser.system.version import __version__
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
MODEL = Path("tests/model")
GOLD = str(MODEL / "parsed.conllu")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "english.stackparser"
    assert main(["pack", str(MODEL), "-o", str(path)]) == 0
    return path


@pytest.fixture
def package(packed, tmp_path):
    """A copy of the package, which a test can change."""
    return Path(shutil.copy(packed, tmp_path))


def changed(package, name, content, compression=zipfile.ZIP_STORED):
    """Change the content of one member, or remove it."""
    with zipfile.ZipFile(package) as old:
        members = {member: old.read(member) for member in old.namelist()}
    members[name] = content
    with zipfile.ZipFile(package, "w", compression) as new:
        for member, own in members.items():
            if own is not None:
                new.writestr(member, own)


@pytest.mark.parametrize("which", [None, "reader_of_tags", "reader_of_treebanks"])
def test_a_package_is_the_folder(which, tmp_path, request):
    model = Path(request.getfixturevalue(which)) if which else MODEL
    package = tmp_path / "model.stackparser"
    assert main(["pack", str(model), "-o", str(package)]) == 0
    one, other = (load_model(path) for path in (model, package))
    assert one.settings == other.settings
    assert one.vocabulary.as_json() == other.vocabulary.as_json()
    assert one.dev_shares == other.dev_shares
    for name, weight in one.weights.items():
        assert np.array_equal(other.weights[name], weight)
    weights = "weights.safetensors"
    assert Folder(model).stored(weights) == Package(package).stored(weights)


@pytest.mark.extended
def test_all_commands_read_it(package, tmp_path, capsys):
    outputs = []
    for number, model in enumerate((str(MODEL), str(package))):
        written = tmp_path / f"{number}.conllu"
        for more in ([], ["--processes", "2"]):
            assert main(["parse", model, GOLD, "-o", str(written), "--device", "cpu", *more]) == 0
            outputs.append(written.read_bytes())
        assert main(["evaluate", model, GOLD, "--json"]) == 0
    assert len(set(outputs)) == 1
    assert main(["compare", str(MODEL), str(package), GOLD]) == 0
    printed = capsys.readouterr().out
    assert "LAS of B - A is +0.00" in printed
    assert parser.load(package, device="cpu").parse(["The", "cat", "sleeps"]).heads


def test_equal_models_have_equal_packages_beside_the_folder(package, tmp_path):
    folder = tmp_path / "folder" / "model"
    shutil.copytree(MODEL, folder)
    assert main(["pack", str(folder)]) == 0
    assert (tmp_path / "folder" / "model.stackparser").read_bytes() == package.read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("weights.safetensors", None, "weights.safetensors missing"),
        ("weights.safetensors", b"", "broken"),
        ("weights.safetensors", b"\xff" * 40, "weights.safetensors is cut"),
        ("vocabulary.json", b"{}", "vocabulary.json"),
        ("settings.json", b'{"x": ' + b"[" * 300, "settings.json: .*recursion limit"),
        ("settings.json", b" " * 300_000, "settings.json: longer than 262,144 bytes"),
        ("settings.json", b"\xff", "settings.json: not UTF-8: invalid start byte at byte 0"),
        ("columns.json", b" " * 300_000, "columns.json: longer than 262,144 bytes"),
        ("columns.json", None, "columns.json missing"),
    ],
)
def test_broken_packages_are_refused(package, name, content, message):
    changed(package, name, content)
    with pytest.raises(ValueError, match=message):
        load_model(package)


def test_another_archive_is_no_package(tmp_path):
    path = tmp_path / "letters.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<a/>" * 100)
    with pytest.raises(ValueError, match=r"letters\.docx: neither a model's folder nor a package of one"):
        load_model(path)


def test_compressed_weights_are_refused(package):
    changed(package, "more", b"0" * 1000, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"weights\.safetensors is compressed, as only texts are"):
        load_model(package)


def test_texts_are_compressed_and_need_not_be(package):
    sizes = {member.filename: member.compress_size for member in zipfile.ZipFile(package).infolist()}
    assert sizes["vocabulary.json"] < len(Folder(MODEL).content("vocabulary.json")) / 2
    assert sizes["weights.safetensors"] == len(Folder(MODEL).content("weights.safetensors"))
    before = load_model(package).vocabulary.as_json()
    changed(package, "LICENSE.txt", b"Share alike.")  # all members are stored as they are
    assert load_model(package).vocabulary.as_json() == before


@pytest.mark.parametrize("name", ["README.md", "model-1/README.md"])
def test_a_text_may_not_become_larger_than_the_format_allows(tmp_path, name):
    package = tmp_path / "bomb.stackparser"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("settings.json", "{}")
        bomb.writestr(name, b" " * (1 << 22))
    assert package.stat().st_size < 1 << 14
    with pytest.raises(ValueError, match=r"README\.md: longer than 1,048,576 bytes"):
        Package(package).content(name)


@pytest.mark.parametrize("damage", [0, 30, 60_000, -22])
def test_a_damaged_package_is_refused(package, damage):
    content = bytearray(package.read_bytes())
    content[damage] ^= 0xFF
    package.write_bytes(content)
    with pytest.raises(ValueError, match=r"english.stackparser"):
        load_model(package)


@pytest.mark.parametrize("seed", first_of(range(60), 10))
def test_no_damage_raises_anything_else(package, seed):
    """Damage in the headers of the members, or in the directory at the end."""
    content, generator = bytearray(package.read_bytes()), random.Random(seed)
    for _ in range(1 + seed % 3):
        place = generator.choice([generator.randrange(600), -generator.randrange(1, 420)])
        content[place] = generator.randrange(256)
    package.write_bytes(content)
    with suppress(ValueError):
        load_model(package)


@pytest.mark.parametrize("name", ["settings.json", "vocabulary.json", "weights.safetensors"])
@pytest.mark.parametrize("size", [0, 2**32 - 16])
def test_a_directory_that_lies_about_sizes_is_refused(package, name, size):
    content = package.read_bytes()
    place = content.rindex(name.encode()) - 46 + 20  # in the directory's entry, before the name
    package.write_bytes(content[:place] + size.to_bytes(4, "little") * 2 + content[place + 8 :])
    with pytest.raises(ValueError, match=r"english\.stackparser"):
        load_model(package)


def test_what_is_no_model_is_neither_packed_nor_read(package, tmp_path, capsys):
    assert main(["pack", str(tmp_path)]) == 2
    assert "not a model's folder" in capsys.readouterr().err
    assert main(["pack", str(package)]) == 2
    assert "only the folder of a model is packed" in capsys.readouterr().err
    (tmp_path / "text").write_text("text")
    with pytest.raises(ValueError, match="neither a model's folder nor a package of one"):
        load_model(tmp_path / "text")


PARSED = MODEL / "parsed.conllu"


@pytest.fixture(scope="module")
def model():
    return load_network(MODEL, torch.device("cpu"))


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
    saved, before = (
        {path.name: path.read_bytes() for path in folder.iterdir() if path.name != PARSED.name}
        for folder in (tmp_path, MODEL)
    )
    settings, old = (json.loads(files.pop("settings.json")) for files in (saved, before))
    assert settings == {**old, "version": __version__}
    assert saved == before


@pytest.mark.extended
def test_rounding_changes_none_of_its_trees(model):
    sentences = read_treebank(str(PARSED))
    assert steady(model, sentences) == sentences
    dev = read_treebank("data/quickstart/dev.conllu")
    assert len(steady(model, dev)) < len(dev)


@pytest.mark.parametrize("name", ["model/weights.safetensors", "model/vocabulary.json", "model.stackparser"])
def test_files_that_cannot_be_read_are_told(tmp_path, monkeypatch, capsys, name):
    model = tmp_path / Path(name).parts[0]
    shutil.copytree("tests/model", tmp_path / "model")
    assert main(["pack", str(tmp_path / "model")]) == 0
    opened = Path.open

    def refuse(path, *arguments, **options):
        if path == tmp_path / name:
            raise PermissionError(EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert main(["evaluate", str(model), "data/quickstart/dev.conllu"]) == 2
    assert capsys.readouterr().err == f"{tmp_path}/{name}: Permission denied\n"


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    """Training needs the library, and parsing only its tokenizers."""
    monkeypatch.setitem(sys.modules, "peft", None)
    install = r"^a parser with a pretrained transformer needs transformers and peft: pip install .*'peft>="
    with pytest.raises(ValueError, match=install):
        refuse_missing_libraries()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name in ("settings.json", "vocabulary.json", "weights.safetensors", "transformer/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    install = f"^{tmp_path}: a parser with a pretrained transformer needs tokenizers: pip install .*tokenizer"
    with pytest.raises(ValueError, match=install):
        load_model(tmp_path)
    sizes = dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"), 1)
    config = {"model_type": "bert", "hidden_act": "mish", **sizes}
    (tmp_path / "transformer/config.json").write_text(json.dumps(config))
    install = f"^{tmp_path}: transformer/config.json: hidden_act is 'mish': .* needs transformers and peft: "
    with pytest.raises(ValueError, match=install):
        load_model(tmp_path)


def test_an_encrypted_member_is_refused(package):
    content = bytearray(package.read_bytes())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = content.find(signature)
        while place >= 0:
            content[place + offset] |= 1
            place = content.find(signature, place + 4)
    package.write_bytes(content)
    with pytest.raises(ValueError, match=package.name):
        Package(package).content("settings.json")
