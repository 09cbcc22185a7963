import importlib.util
import subprocess

import pytest

from parser.speed.measuring.origin import data_checksums, plugin_commit
from parser.speed.tasks.discovery import find


def git(folder, *arguments):
    command = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def sha256sum(path):
    return subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True).stdout.split()[0]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The data folder; settings name its files `${PARSER_DATA}/...`."""
    monkeypatch.setenv("PARSER_DATA", str(tmp_path))
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "b.txt").write_text("two")
    (tmp_path / "trees" / "a.txt").write_text("one")
    return tmp_path


def test_files_are_found_wherever_settings_name_them(data):
    one, two = "${PARSER_DATA}/trees/a.txt", "${PARSER_DATA}/trees/b.txt"
    found = data_checksums({"data": [one], "network": {"vectors": two}, "size": 3, "none": None})
    assert found == {one: sha256sum(data / "trees/a.txt"), two: sha256sum(data / "trees/b.txt")}


def test_names_of_files_that_are_not_there_and_other_words_have_none(data, monkeypatch):
    monkeypatch.chdir(data)
    assert data_checksums({"data": "${PARSER_DATA}/trees/c.txt", "task": "trees"}) == {}


def test_a_folder_has_the_checksum_of_what_sha256sum_prints_of_its_files(data, tmp_path_factory):
    listed = subprocess.run(
        ["sha256sum", "a.txt", "b.txt"], cwd=data / "trees", check=True, capture_output=True
    )
    expected = tmp_path_factory.mktemp("lines") / "lines"
    expected.write_bytes(listed.stdout)
    assert data_checksums({"data": "${PARSER_DATA}/trees"}) == {"${PARSER_DATA}/trees": sha256sum(expected)}


def test_a_plugin_of_another_repository_has_its_commit(tmp_path):
    (tmp_path / "own_plugin.py").write_text("class Own: pass\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "First")
    spec = importlib.util.spec_from_file_location("own_plugin", tmp_path / "own_plugin.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "own_plugin", module)
        spec.loader.exec_module(module)
        assert plugin_commit(module.Own) == git(tmp_path, "rev-parse", "HEAD")


def test_a_plugin_of_the_program_has_none():
    assert plugin_commit(find("tree_lstm")) is None
