"""Which sentences are selected, and how they are written."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages.small_trees import parsed, sentence
from parsing.test_reparsing import model_of

from parser import load
from parser.cli import main
from parser.evaluation import selection
from parser.evaluation.selection import Candidate, FileSentence, lines_of, most_valuable, select
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.conllu import read_treebank

MODEL, TREEBANK = "tests/model", "data/quickstart/dev.conllu"
SENTENCES = read_treebank(TREEBANK)[:60]
ONE, OTHER = model_of(1), model_of(2)
DOGS = parsed(sentence("Dogs NOUN 2 nsubj", "bark VERB 0 root", "loudly ADV 2 advmod", comments=["# x = y"]))[
    0
]


def sources(file="dev.conllu"):
    return [FileSentence(file, one) for one in SENTENCES]


def candidate(value, words=1):
    each = replace(DOGS, forms=("x",) * words)
    return Candidate("a", each, ParsedTree((), ()), (), value)


def group_of(sentence):
    """Sentences of 1 to 5 words are one group, those of 6 to 10 the next, and so on."""
    return (len(sentence) - 1) // 5


def assert_most_doubtful(found, doubts):
    """Check that each selected sentence has a larger share of doubtful arcs than others of its length.

    doubts: the shares of all sentences, by their words. A sentence's value is the share of sentences of its
    length that are less doubtful, counting itself as a half.
    """
    selected = {each.sentence.forms for each in found}
    for each in found:
        group = group_of(each.sentence)
        alike = {forms: doubt for forms, doubt in doubts.items() if group_of(forms) == group}
        doubt = alike[each.sentence.forms]
        less = sum(other < doubt - 1e-5 for other in alike.values())
        no_more = sum(other < doubt + 1e-5 for other in alike.values())
        assert less < each.value * len(alike) < no_more
        assert all(doubt > other - 1e-5 for forms, other in alike.items() if forms not in selected)
    assert [each.value for each in found] == sorted((each.value for each in found), reverse=True)


def test_the_sentences_with_most_expected_errors_of_their_length_come_first():
    found = select(ONE, sources(), 60)
    trees = parse(ONE, SENTENCES, options=ParseOptions(probabilities=True))
    probabilities = {one.forms: tree.probabilities for one, tree in zip(SENTENCES, trees, strict=True)}
    assert_most_doubtful(found, {one: 1 - sum(own) / len(own) for one, own in probabilities.items()})
    lengths = [len(each.sentence) for each in found]
    assert sum(lengths) >= 60 > sum(lengths[:-1])


def test_an_ensemble_selects_those_on_which_its_models_disagree():
    together = replace(ONE, others=(OTHER,))
    [trees, *alone] = [parse(model, SENTENCES) for model in (together, ONE, OTHER)]
    agreements = {}
    for number, one in enumerate(SENTENCES):
        arcs = list(zip(trees[number].heads, trees[number].labels, strict=True))
        of_models = [list(zip(tree[number].heads, tree[number].labels, strict=True)) for tree in alone]
        agreements[one.forms] = [
            sum(each[word] == arc for each in of_models) / 2 for word, arc in enumerate(arcs)
        ]
    found = select(together, sources(), 60, "disagreement")
    assert all(each.confidence == tuple(agreements[each.sentence.forms]) for each in found)
    assert_most_doubtful(found, {one: 1 - sum(shares) / len(shares) for one, shares in agreements.items()})
    with pytest.raises(ValueError, match="a single model cannot disagree"):
        select(ONE, sources(), 200, "disagreement")


def test_random_ones_depend_on_the_seed_alone():
    first, again, other = (
        [each.sentence.line for each in select(ONE, sources(), 100, "random", seed)] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_of_the_same_words_the_first_counts():
    found = select(ONE, [*sources(file="one"), *sources(file="other")], 10_000)
    assert {each.file for each in found} == {"one"}
    assert len({each.sentence.forms for each in found}) == len(found)


def words_of(candidates):
    return sum(len(each.sentence) for each in candidates)


LENGTHS_AND_VALUES = st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), max_size=60)


@given(LENGTHS_AND_VALUES, st.integers(1, 60))
def test_what_is_left_out_early_would_not_be_selected_later(values, words):
    """Compared with a selection that leaves nothing out early."""
    candidates = [candidate(value, each) for each, value in values]
    groups = {}  # in the order of their first sentences
    for each in candidates:
        groups.setdefault(group_of(each.sentence), []).append(each)
    ranked = [
        each._replace(value=1 - (rank + 0.5) / len(group))
        for group in groups.values()
        for rank, each in enumerate(sorted(group, key=lambda one: -one.value))
    ]
    ranked.sort(key=lambda each: -each.value)
    expected = [each for rank, each in enumerate(ranked) if words_of(ranked[:rank]) < words]
    assert most_valuable(candidates, words, "confidence") == expected


@given(LENGTHS_AND_VALUES, st.integers(1, 60))
def test_random_ones_are_compared_with_all(values, words):
    candidates = [candidate(value, each) for each, value in values]
    ranked = sorted(candidates, key=lambda each: -each.value)
    expected = [each.sentence for rank, each in enumerate(ranked) if words_of(ranked[:rank]) < words]
    assert [each.sentence for each in most_valuable(candidates, words, "random")] == expected


def test_chunks_change_nothing(monkeypatch):
    whole = select(ONE, sources(), 60)
    monkeypatch.setattr(selection, "CHUNK", 7)
    parts = select(ONE, sources(), 60)
    assert [each.sentence for each in parts] == [each.sentence for each in whole]


def test_doubtful_arcs_are_left_out_and_the_reason_is_told():
    tree = ParsedTree((2, 0, 1), ("obj", "root", "advmod"))
    each = Candidate("dogs.conllu", DOGS, tree, (0.5, 0.8, 0.79), 1.0)
    lines = lines_of(each, 3, "confidence", 0.8)
    rows = [line.split("\t")[6:8] for line in lines if line[0].isdigit()]
    assert rows == [["_", "_"], ["0", "root"], ["_", "_"]]
    *comments, selected = [line for line in lines if line.startswith("#")]
    assert selected.startswith(
        "# selected = 3, dogs.conllu:1: 0.9 of 3 arcs are expected to be wrong; 2 left out"
    )
    assert comments == [line for line in DOGS.lines if line.startswith("#")]
    again = lines_of(each._replace(sentence=replace(DOGS, lines=lines, word_lines=(3, 4, 5))), 9, "random", 0)
    [selected] = [line for line in again if "selected" in line]
    assert selected.startswith("# selected = 9, dogs.conllu:1: at random; 0 left out")


def test_what_was_said_of_another_tree_goes(tmp_path):
    scored, output = tmp_path / "scored.conllu", tmp_path / "todo.conllu"
    assert main(["parse", MODEL, TREEBANK, "-o", str(scored), "--probabilities"]) == 0
    assert "ArcProbability=" in scored.read_text()
    assert main(["select", MODEL, str(scored), "--words", "50", "-o", str(output)]) == 0
    assert "ArcProbability=" not in output.read_text()


def test_the_command_writes_what_parse_finds(tmp_path, capsys):
    output = tmp_path / "todo.conllu"
    arguments = ["select", MODEL, TREEBANK, "--words", "50"]
    assert main([*arguments, "-o", str(output), "--doubtful", "0"]) == 0
    assert sum(map(len, read_treebank(str(output)))) >= 50
    assert str(output) in capsys.readouterr().err
    for path, more, message in (
        (str(output), ["--doubtful", "1.5"], "from 0 to 1"),
        (TREEBANK, [], "would overwrite"),
        (str(tmp_path / "nowhere" / "todo.conllu"), [], "nowhere"),
        (str(output), ["--by", "disagreement"], "--ensemble"),
    ):
        assert main([*arguments, "-o", path, *more]) == 2
        assert message in capsys.readouterr().err


def test_selected_sentences_can_stand_in_any_order(tmp_path):
    """Even if a file starts with a blank line or ends without one."""
    blocks = Path(TREEBANK).read_text(encoding="utf-8").split("\n\n")[:3]
    files = [tmp_path / name for name in ("a.conllu", "b.conllu", "c.conllu")]
    for file, content in zip(files, (f"\n{blocks[0]}", blocks[1], f"{blocks[2]}\n"), strict=True):
        file.write_text(content, encoding="utf-8")
    output = tmp_path / "todo.conllu"
    command = ["select", MODEL, *map(str, files), "--words", "1000", "--doubtful", "0", "-o"]
    assert main([*command, str(output)]) == 0
    found = {one.forms for one in read_treebank(str(output))}
    assert found == {one.forms for one in SENTENCES[:3]}


@pytest.mark.parametrize(
    ("name", "escaped"), [(b"\xff.conllu", r"\udcff.conllu"), (b"a\n1\tb.conllu", r"a\n1\tb.conllu")]
)
def test_files_of_any_name_are_named_in_one_line_of_utf_8(tmp_path, name, escaped):
    treebank, output = tmp_path / os.fsdecode(name), tmp_path / "todo.conllu"
    shutil.copy(TREEBANK, treebank)
    assert main(["select", MODEL, str(treebank), "--words", "50", "--doubtful", "0", "-o", str(output)]) == 0
    assert f"# selected = 1, {escaped}:" in output.read_bytes().decode()
    assert read_treebank(str(output))


def test_doubtful_tags_have_their_probability(tmp_path):
    output, bare = tmp_path / "selected.conllu", tmp_path / "bare.conllu"
    rows = ("1\tzyxw" + "\t_" * 8, "2\tbark\tbark\tNOSUCH" + "\t_" * 6)
    bare.write_text("\n".join(rows) + "\n\n")
    assert main(["select", MODEL, str(bare), "--words", "2", "--doubtful", "1", "-o", str(output)]) == 0
    comment, first, second = output.read_text().splitlines()[:3]
    tree = load(MODEL).parse(["zyxw", "bark"], probabilities=True)
    assert f"UposProbability={tree.tag_probabilities['upos'][0]:.4f}" in first
    assert "UposProbability" not in second  # the given one stays
    tags = first.count("Probability=") + second.count("Probability=")
    assert comment.endswith(f"; {tags} tags with a probability below it, in MISC")
    assert main(["select", MODEL, str(bare), "--words", "2", "--doubtful", "0", "-o", str(output)]) == 0
    assert "Probability" not in output.read_text()
