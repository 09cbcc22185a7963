"""Sentences lose all of their enhanced dependencies, or keep all."""

import io
import random
from collections import Counter
from pathlib import Path

import pytest
from enhanced_graphs import official_errors, with_graphs
from extended import first_of
from hypothesis import given
from hypothesis import strategies as st

from parser.cli import main
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.part_parser import output_of
from parser.treebank import conllu
from parser.treebank.conllu import blocks, parse_block
from parser.treebank.sentence import DEPS, EMPTY_ID, HEAD, ID, LABEL
from parser.treebank.text_files import open_text

MODEL = "tests/model"
MIXED = Counter({"edeps-only-sometimes": 1})
"""The official validator's error for files in which only some sentences have enhanced dependencies."""


def read(text):
    return [parse_block(block, tree=False) for block in blocks(io.StringIO(text, newline="\n"))]


def rows_of(sentence):
    return [line.split("\t") for line in sentence.lines if line[0].isdigit()]


def graphs_of(text):
    """The empty nodes, and the DEPS of the words."""
    return [[row if is_empty(row) else row[DEPS] for row in rows_of(sentence)] for sentence in read(text)]


def is_empty(row):
    return EMPTY_ID.fullmatch(row[ID])


def has_graph(sentence):
    return any(is_empty(row) or row[DEPS] != "_" for row in rows_of(sentence))


BLANK = "\t_"
TREE = st.tuples(st.integers(0, 3), st.sampled_from(["x", "root"]))
LINE_ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def sentences(draw):
    """A function that makes the text of a sentence from its tree, with and without enhanced dependencies."""
    words, end = draw(st.integers(1, 3)), draw(LINE_ENDS)
    deps = [draw(st.sampled_from(["_", "0:root", "1:x|2.1:y", "0.1:z"])) for _ in range(words)]
    empty = [draw(st.integers(0, 2)) for _ in range(words + 1)]
    misc = draw(st.sampled_from(["_", "CopyOf=1", "A=1:b||"]))
    before = draw(
        st.sampled_from(["", f"# a\t1.1{end}# 1.1\tb{end}", f"1-{words}\tab{7 * BLANK}\t{misc}{end}"])
    )

    def nodes(word):
        for number in range(1, empty[word] + 1):
            yield f"{word}.{number}\te{6 * BLANK}\t1:x\tCopyOf=1{end}"

    def text(tree, graph):
        lines = [before, *(nodes(0) if graph else [])]
        for word, ((head, label), arcs) in enumerate(zip(tree, deps, strict=True), 1):
            lines.append(f"{word}\tw{4 * BLANK}\t{head}\t{label}\t{arcs if graph else '_'}\t{misc}{end}")
            lines += nodes(word) if graph else []
        return "".join([*lines, end])

    return words, text


@given(st.data())
def test_of_a_sentence_all_or_nothing_is_dropped(data):
    words, text = data.draw(sentences())
    old = data.draw(st.lists(TREE, min_size=words, max_size=words))
    new = data.draw(st.sampled_from([old, [(head, "new") for head, _ in old]]))
    [sentence] = read(text(old, graph=True))
    for deps in ("drop", "drop-changed", "keep"):
        content, is_dropped, _ = output_of(sentence, ParsedTree(*zip(*new, strict=True)), "missing", deps)
        expected = text(new, graph=deps == "keep" or (deps == "drop-changed" and new == old))
        assert content.decode() == expected
        assert is_dropped == (expected != text(new, graph=True))


def test_tags_and_probabilities_are_those_of_the_words_that_are_left():
    text = "".join(
        f"{number}\ta\t_\t_\t_\t_\t_\t_\t{deps}\t_\n" for number, deps in (("0.1", "0:root"), ("1", "0.1:x"))
    )
    [sentence] = read(text)
    tree = ParsedTree((0,), ("root",), (0.5,), {"upos": ("NOUN",)})
    content, *_ = output_of(sentence, tree, "missing", deps="drop")
    assert content == b"1\ta\t_\tNOUN\t_\t_\t0\troot\t_\tArcProbability=0.5000\n"


@pytest.fixture
def shipped(tmp_path):
    """The treebank that ships, with enhanced dependencies."""
    path = tmp_path / "shipped.conllu"
    path.write_text(with_graphs(Path("data/quickstart/test.conllu").read_text()))
    return path


def trees_of(text):
    return [
        [row[HEAD : LABEL + 1] for row in rows_of(sentence) if not is_empty(row)] for sentence in read(text)
    ]


@pytest.mark.extended
def test_the_command_drops_those_of_trees_that_change_and_says_so_once(shipped, monkeypatch, capsys):
    monkeypatch.setattr(conllu, "PART_BYTES", 1 << 16)
    command = ["parse", MODEL, str(shipped), "--device", "cpu", "--deps", "drop-changed"]
    outputs = []
    for processes in "12":
        assert main([*command, "--processes", processes]) == 0
        text, told = capsys.readouterr()
        outputs.append((text, told.splitlines()[:-1]))
    assert outputs[0] == outputs[1]
    text, told = outputs[0]
    changed = [old != new for old, new in zip(trees_of(shipped.read_text()), trees_of(text), strict=True)]
    assert [not has_graph(sentence) for sentence in read(text)] == changed
    assert told == [
        f"warning: {shipped}: the enhanced dependencies (DEPS and empty nodes) of {sum(changed)} sentences "
        "were dropped, since they were derived from other trees; --deps keep leaves them as they are, "
        "--deps drop-changed where the tree is the same"
    ]
    assert official_errors(text) == MIXED


@pytest.mark.parametrize("deps", first_of(["drop", "keep"]))
def test_the_command_keeps_or_drops_those_of_all_sentences(shipped, capsys, deps):
    assert main(["parse", MODEL, str(shipped), "--device", "cpu", "--deps", deps]) == 0
    text, told = capsys.readouterr()
    assert trees_of(text) != trees_of(shipped.read_text())
    if deps == "keep":
        assert graphs_of(text) == graphs_of(shipped.read_text())
    else:
        assert not any(map(has_graph, read(text)))
    assert told.count("\n") == (2 if deps == "drop" else 1)
    assert official_errors(text) == Counter()


ENGLISH = "UD_English-EWT"
"""Has enhanced dependencies."""
WITHOUT = "UD_French-Sequoia", "UD_Ancient_Greek-PTNK", "UD_Uyghur-UDT"


@pytest.mark.real_data
@pytest.mark.parametrize("name", [ENGLISH, *WITHOUT])
def test_the_official_validator_finds_no_new_error_in_real_treebanks(treebanks, name):
    [path] = treebanks.glob(f"{name}/*-test.conllu")
    with open_text(str(path)) as file:
        text = file.read() if name == ENGLISH else with_graphs(file.read())
    assert_no_new_error(text)


def assert_no_new_error(text):
    """Check that changing the trees of about half of the sentences causes no new error."""
    draw, before = random.Random(1), official_errors(text)
    sentences = [parse_block(block, tree=True) for block in blocks(io.StringIO(text, newline="\n"))]
    trees = [draw.choice([flat, as_it_was])(sentence) for sentence in sentences]
    for deps, more in (("drop", Counter()), ("drop-changed", MIXED), ("keep", Counter())):
        found = [output_of(one, tree, False, deps) for one, tree in zip(sentences, trees, strict=True)]
        assert sum(one.is_dropped for one in found) > (-1 if deps == "keep" else len(sentences) // 4)
        assert official_errors(b"".join(one.content for one in found).decode()) == before + more


def as_it_was(sentence):
    return ParsedTree(sentence.heads, sentence.labels)


def flat(sentence):
    """A tree in which all other words depend on the root."""
    root = sentence.heads.index(0) + 1
    return ParsedTree(tuple(min(head, 1) * root for head in sentence.heads), sentence.labels)
