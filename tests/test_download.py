"""Releases of treebanks from repositories of git."""

import subprocess
import sys

import pytest
from programs import script


def git(folder, *command):
    own = ["-c", "user.name=Some", "-c", "user.email=some@example.org", "-c", "init.defaultBranch=master"]
    done = subprocess.run(["git", "-C", folder, *own, *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


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
    """Calls the script, into a folder `data`."""
    module = script("download_treebank")

    def run(treebank, *arguments):
        places = ["--into", tmp_path / "data", "--from", f"file://{repositories}"]
        monkeypatch.setattr(sys, "argv", ["script", treebank, *map(str, places), *arguments])
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
    assert download("UD_Some", "--release", "r2.17") == 0  # without the repository
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
