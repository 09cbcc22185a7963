"""The version of a treebank file."""

import os
import subprocess
from hashlib import sha256

import pytest

from parser.treebank.ud_folders import provenance

CONTENT = b"# a treebank\n"


@pytest.fixture
def clone(tmp_path):
    """A repository with a committed file, and a commit that can be tagged."""
    (tmp_path / "dev.conllu").write_bytes(CONTENT)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=Some", "-c", "user.email=some@example.org", "commit", "-qm", "first")
    return tmp_path


def git(folder, *command):
    done = subprocess.run(["git", "-C", folder, *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_file_of_a_clone_has_commit_and_release(clone):
    found = {
        "sha256": sha256(CONTENT).hexdigest(),
        "commit": git(clone, "rev-parse", "HEAD"),
        "release": None,
    }
    assert provenance(str(clone / "dev.conllu")) == found
    git(clone, "tag", "r2.16")
    assert provenance(str(clone / "dev.conllu")) == {**found, "release": "r2.16"}
    (clone / "link.conllu").symlink_to(clone / "dev.conllu")
    assert provenance(str(clone / "link.conllu")) == {**found, "release": "r2.16"}


def test_what_was_changed_or_is_not_of_the_clone_has_its_hash_only(clone):
    (clone / "dev.conllu").write_bytes(b"changed")
    (clone / "own.conllu").write_bytes(CONTENT)
    for name, content in {"dev.conllu": b"changed", "own.conllu": CONTENT}.items():
        found = {"sha256": sha256(content).hexdigest(), "commit": None, "release": None}
        assert provenance(str(clone / name)) == found


def test_files_outside_clones(tmp_path, monkeypatch):
    (tmp_path / "dev.conllu").write_bytes(CONTENT)
    found = {"sha256": sha256(CONTENT).hexdigest(), "commit": None, "release": None}
    assert provenance(str(tmp_path / "dev.conllu")) == found
    monkeypatch.setenv("PATH", "")  # without git
    assert provenance(str(tmp_path / "dev.conllu")) == found


def test_a_pipe_is_left_to_its_reader(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert provenance(str(tmp_path / "pipe")) is None
