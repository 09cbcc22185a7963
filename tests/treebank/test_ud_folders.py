"""Treebanks by UD's names, what their READMEs say, how large they are, and the versions of their files."""

import os
import subprocess
from hashlib import sha256

import pytest

from parser.system.console import printable
from parser.treebank.conllu import read_treebank, size_of
from parser.treebank.ud_folders import find_treebanks, provenance


def make(folder, name, *files, readme=None):
    (folder / name).mkdir()
    for file in files:
        (folder / name / file).write_text("")
    if readme is not None:
        (folder / name / "README.md").write_text(readme)


def test_treebanks_are_known_by_their_names(tmp_path):
    train, test = "ga_twittirish-ud-train.conllu", "ga_twittirish-ud-test.conllu"
    make(tmp_path, "UD_Irish-TwittIrish", train, test, "ga_twittirish-ud-train.txt", "stats.xml")
    make(tmp_path, "UD_Ancient_Greek-PTNK", "grc_ptnk-ud-dev.conllu")
    make(tmp_path, "UD_Irish", "x-ud-train.conllu")
    make(tmp_path, "tools")
    (tmp_path / "UD_Czech-PDT").write_text("")
    greek, irish = find_treebanks(tmp_path).treebanks
    assert (irish.name, irish.language) == ("UD_Irish-TwittIrish", "Irish")
    assert (irish.model_name, irish.code) == ("irish-twittirish", "ga")
    assert [path.name for path in irish.train] == [train]
    assert (irish.dev, irish.test.name) == (None, test)
    assert (greek.language, greek.model_name, greek.code) == ("Ancient Greek", "ancient_greek-ptnk", "grc")
    assert (greek.train, greek.dev.name) == ((), "grc_ptnk-ud-dev.conllu")


def test_a_train_set_of_several_files(tmp_path):
    parts = [f"cs_pdt-ud-train-{part}.conllu" for part in "abc"]
    make(tmp_path, "UD_Czech-PDT", *reversed(parts))
    [czech] = find_treebanks(tmp_path).treebanks
    assert [path.name for path in czech.train] == parts


def test_a_test_set_of_several_files_is_refused(tmp_path):
    parts = [f"cs_pdt-ud-test-{part}.conllu" for part in "ab"]
    make(tmp_path, "UD_Czech-PDT", *parts)
    make(tmp_path, "UD_Irish-IDT")
    found = find_treebanks(tmp_path)
    assert [each.name for each in found.treebanks] == ["UD_Irish-IDT"]
    told = f"{parts[0]}, {parts[1]}: only train may be several files; join these by `cat`"
    assert found.left_out == {"UD_Czech-PDT": told}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("UD_Irish", "its name is not of the form of UD_English-EWT"),
        ("UD_Old Irish-IDT", "its name is not of the form of UD_English-EWT"),
        ("UD_Grün-IDT", "its name is not of the form of UD_English-EWT"),
        (os.fsdecode(b"UD_\xff-IDT"), "its name is not of the form of UD_English-EWT"),
        ("UD_Thai-Pud", "its name and UD_Thai-PUD differ in case alone, and their models would have one"),
    ],
)
def test_folders_whose_names_cannot_be_used_are_told(tmp_path, name, told):
    for folder in ("UD_Irish-IDT", "UD_Thai-PUD", name):
        make(tmp_path, folder)
    found = find_treebanks(tmp_path)
    assert found.left_out[printable(name)].startswith(told)
    others = set() if name != "UD_Thai-Pud" else {"UD_Thai-PUD"}
    assert {each.name for each in found.treebanks} == {"UD_Irish-IDT", "UD_Thai-PUD"} - others
    assert found.left_out.keys() == {printable(name), *others}
    assert find_treebanks(tmp_path, [name]).left_out == {printable(name): found.left_out[printable(name)]}


def test_a_name_that_cannot_be_used_keeps_no_other_from_being_used(tmp_path):
    for folder in ("UD_Irish-IDT", "UD_irish-idt"):
        make(tmp_path, folder)
    found = find_treebanks(tmp_path)
    assert [each.name for each in found.treebanks] == ["UD_Irish-IDT"]
    assert found.left_out.keys() == {"UD_irish-idt"}


def test_folders_that_cannot_be_read_are_told(tmp_path):
    """Links to themselves, which even root cannot read."""
    make(tmp_path, "UD_Irish-IDT")
    (tmp_path / "UD_Thai-PUD").symlink_to("UD_Thai-PUD")
    found = find_treebanks(tmp_path)
    assert [each.name for each in found.treebanks] == ["UD_Irish-IDT"]
    place = tmp_path / "UD_Thai-PUD"
    assert found.left_out == {place.name: f"{place}: cannot be read: Too many levels of symbolic links"}
    with pytest.raises(ValueError, match="UD_Thai-PUD: cannot be read: Too many levels"):
        find_treebanks(place)


@pytest.mark.parametrize(
    ("readme", "licence"),
    [
        ("# Summary\nLicense: is below\n\n<pre>\nLicense: CC BY-SA 4.0\nParallel: no\n", "CC BY-SA 4.0"),
        ("Data available since: UD v2.4\r\nLicense: LGPL-LR \r\nGenre: news\r\n", "LGPL-LR"),
        ("License:\nIncludes text: yes\n", None),
        ("no metadata", None),
        (None, None),
    ],
)
def test_the_licence_of_the_metadata(tmp_path, readme, licence):
    make(tmp_path, "UD_Irish-IDT", readme=readme)
    [irish] = find_treebanks(tmp_path).treebanks
    assert irish.licence == licence
    assert irish.licence_text == ""
    (tmp_path / "UD_Irish-IDT" / "LICENSE.txt").write_text("Share alike.")
    assert irish.licence_text == "Share alike."


def test_the_contributors_of_the_metadata(tmp_path):
    make(
        tmp_path, "UD_Irish-IDT", readme="Contributors: Lynn, Teresa; Foster, Jennifer\nContributing: here\n"
    )
    [irish] = find_treebanks(tmp_path).treebanks
    assert irish.contributors == "Lynn, Teresa; Foster, Jennifer"
    assert irish.repository == "https://github.com/UniversalDependencies/UD_Irish-IDT"


def test_only_some(tmp_path):
    for name in ("UD_Irish-IDT", "UD_Irish-PUD", "UD_Thai-PUD"):
        make(tmp_path, name)
    only = find_treebanks(tmp_path, ["UD_*-PUD"]).treebanks
    assert [each.name for each in only] == ["UD_Irish-PUD", "UD_Thai-PUD"]
    assert len(find_treebanks(tmp_path, ["UD_Irish-IDT", "*Thai*"]).treebanks) == 2
    with pytest.raises(
        ValueError, match=r"--only UD_Welsh\*: .* but UD_Irish-IDT, UD_Irish-PUD, UD_Thai-PUD"
    ):
        find_treebanks(tmp_path, ["UD_Irish*", "UD_Welsh*"])


def test_a_folder_without_treebanks(tmp_path):
    with pytest.raises(ValueError, match="has no folder with a name such as UD_English-EWT"):
        find_treebanks(tmp_path)
    with pytest.raises(ValueError, match="nowhere: cannot be read: No such file or directory"):
        find_treebanks(tmp_path / "nowhere")


def test_sizes_are_those_of_the_sentences_that_are_read():
    path = "data/quickstart/dev.conllu"
    sentences = read_treebank(path)
    assert size_of(path) == (len(sentences), sum(map(len, sentences)))
    assert size_of(path, most=7) == (7, sum(map(len, sentences[:7])))


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
