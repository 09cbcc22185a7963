"""The commit at which something was measured."""

import subprocess

import pytest

from parser.system.stamp import commit_of


@pytest.fixture
def checkout(tmp_path):
    def git(*command):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True, capture_output=True)

    (tmp_path / "source.py").write_text("")
    git("init")
    git("add", "source.py")
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-m", "one")
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "tag", "-a", "v1.0.0", "-m", "one")
    return tmp_path


def test_it_is_a_hash_where_there_are_tags_too(checkout):
    commit = commit_of(checkout / "source.py")
    assert len(commit) == 40
    assert set(commit) <= set("0123456789abcdef")


def test_changes_are_told(checkout):
    (checkout / "source.py").write_text("changed")
    assert commit_of(checkout / "source.py").endswith("-dirty")


def test_a_file_that_is_not_of_the_checkout_has_none(checkout):
    (checkout / "installed.py").write_text("")
    assert commit_of(checkout / "installed.py") is None
