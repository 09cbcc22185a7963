"""Which files of a corpus are parsed, and where their trees go."""

from __future__ import annotations

import os
import shutil
from errno import EACCES

import pytest

from parser.parsing.corpus.files import find_files


@pytest.fixture
def folders(tmp_path):
    """The folder of a corpus and the folder for its trees."""
    (tmp_path / "in").mkdir()
    return tmp_path / "in", tmp_path / "out"


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("A b .\n")


def test_trees_of_texts_have_names_of_their_own(folders):
    corpus, target = folders
    write(corpus, "a.txt", "a.txt.gz", "sub/a.txt", "a.conllu", "README")
    found = find_files(*folders, "tokenized")
    assert {file.output for file in found.missing} == {
        str(target / name) for name in ("a.conllu", "a.conllu.gz", "sub/a.conllu")
    }
    assert (found.done, found.others) == (0, 2)


def test_trees_of_texts_may_not_have_the_names_of_folders(folders):
    write(folders[0], "a.txt", "a.conllu/b/c.txt")
    found = find_files(*folders, "tokenized")
    assert [file.name for file in found.missing] == ["a.conllu/b/c.txt"]
    assert found.failures["a.txt"].startswith("its trees would have the name of a folder with trees of other")


def test_a_folder_is_no_file_that_is_there_already(folders):
    write(folders[0], "a.txt")
    (folders[1] / "a.conllu").mkdir(parents=True)
    fault = f"its trees would have the name of a folder, {folders[1]}/a.conllu; rename one of them"
    assert find_files(*folders, "tokenized").failures == {"a.txt": fault}


def test_names_that_are_not_utf_8_are_told(folders):
    write(folders[0], "\udcff.txt", "\udcfe/b.txt", "c.txt")
    found = find_files(*folders, "tokenized")
    assert [file.name for file in found.missing] == ["c.txt"]
    fault = "its name, or that of a folder, is not UTF-8; rename it"
    assert found.failures == {r"\udcff.txt": fault, r"\udcfe/b.txt": fault}


def test_folders_whose_names_are_not_utf_8_are_refused(tmp_path):
    corpus = tmp_path / "\udcff"
    write(corpus, "a.txt")
    for folders in ((corpus, tmp_path / "out"), (tmp_path, corpus)):
        with pytest.raises(
            ValueError, match="its name, or that of a folder above it, is not UTF-8; rename it"
        ):
            find_files(*folders, "tokenized")


def test_what_cannot_be_read_is_told(folders, monkeypatch):
    write(folders[0], "a.txt", "closed/b.txt")
    for name, target in (("loop.txt", "loop.txt"), ("gone.txt", "nowhere"), ("other", "nowhere")):
        (folders[0] / name).symlink_to(target)
    listed = os.scandir

    def refuse(path):
        if os.path.basename(path) == "closed":
            raise PermissionError(EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = find_files(*folders, "tokenized")
    assert [file.name for file in found.missing] == ["a.txt"]
    assert found.failures == {
        "closed": "cannot be read: Permission denied",
        "gone.txt": "cannot be read: No such file or directory",
        "loop.txt": "cannot be read: Too many levels of symbolic links",
    }


def test_what_is_no_corpus_is_said(folders):
    with pytest.raises(ValueError, match=r"no file ends in \.txt or \.txt\.gz"):
        find_files(*folders, "tokenized")
    with pytest.raises(ValueError, match="nowhere: there is no such folder"):
        find_files(folders[0] / "nowhere", folders[1], "tokenized")


def test_no_name_of_the_corpus_is_that_of_our_folder(folders):
    """Our folder keeps its name until the corpus contains that name."""
    corpus, target = folders

    def own():
        return find_files(*folders, None).store.name

    write(corpus, ".parse-corpus/a.conllu", ".PARSE-corpus-2/a.conllu", "a.conllu")
    assert own() == ".parse-corpus-3"
    write(target, ".parse-corpus/a.conllu", ".parse-corpus-3/settings.json")
    for name in (".parse-corpus", ".PARSE-corpus-2"):
        shutil.rmtree(corpus / name)
    assert own() == ".parse-corpus-3"
    write(corpus, ".parse-corpus-3/a.conllu")
    assert own() == ".parse-corpus-2"  # the first may hold trees of files that have left the corpus
