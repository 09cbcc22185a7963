"""Which sentences are selected, and how they are written."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages.small_trees import parsed, sentence
from parsing.test_reparsing import model_of

from parser.annotation import selection
from parser.annotation.output import lines_of
from parser.annotation.selection import Candidate, FileSentence, most_valuable, select
from parser.cli import main
from parser.parsing.parse import parse
from parser.parsing.parse_options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.conllu import read_treebank

MODEL, TREEBANK = "tests/model", "data/quickstart/dev.conllu"
SENTENCES = read_treebank(TREEBANK)[:60]
ONE, OTHER = model_of(1), model_of(2)
DOGS = parsed(sentence("Dogs NOUN 2 nsubj", "bark VERB 0 root", "loudly ADV 2 advmod", comments=["# x = y"]))[
    0
]


def sources(sentences=SENTENCES, file="dev.conllu"):
    return [FileSentence(file, one) for one in sentences]


def candidate(value, words=1):
    own = replace(DOGS, forms=("x",) * words)
    return Candidate("a", own, ParsedTree((), ()), (), value)


def expected_errors(one, model=ONE):
    [tree] = parse(model, [one], options=ParseOptions(probabilities=True))
    return len(one) - sum(tree.probabilities)


def test_the_sentences_with_most_expected_errors_of_their_length_come_first():
    """Their values are the shares that are less doubtful, half of the sentence itself counted."""
    distinct = list({one.forms: one for one in reversed(SENTENCES)}.values())
    doubts = {one.forms: expected_errors(one) / len(one) for one in distinct}
    shares = {}
    for one in doubts:
        alike = [doubts[other] for other in doubts if (len(other) - 1) // 5 == (len(one) - 1) // 5]
        shares[one] = (sum(other < doubts[one] for other in alike) + 0.5) / len(alike)
    found = select(ONE, sources(), 100)
    assert [own.value for own in found] == pytest.approx([shares[own.sentence.forms] for own in found])
    assert [own.value for own in found] == pytest.approx(sorted(shares.values(), reverse=True)[: len(found)])
    lengths = [len(own.sentence) for own in found]
    assert sum(lengths) >= 100 > sum(lengths[:-1])


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.01, 0.99)), min_size=1, max_size=40))
def test_selected_sentences_are_as_long_as_the_others(many):
    """However much more of long sentences is doubted."""
    lengths = [own for own, _ in many] * 20
    doubts = [[own / 50 * (1 - share * copy / 20) for own, share in many] for copy in range(20)]
    of_lengths = defaultdict(selection._OfOneLength)
    for length, value in zip(lengths, chain(*doubts), strict=True):
        of_lengths[length].add(candidate(value, length), sum(lengths))
    ranked = chain.from_iterable(own.ranked() for own in of_lengths.values())
    found = Counter(len(own.sentence) for own in most_valuable(ranked, sum(lengths) // 2))
    for length, number in Counter(lengths).items():
        assert abs(found[length] - number / 2) <= 1


def test_an_ensemble_selects_those_on_which_its_models_disagree():
    together = replace(ONE, others=(OTHER,))
    [trees, *alone] = [parse(model, SENTENCES) for model in (together, ONE, OTHER)]
    for own in select(together, sources(), 200, "disagreement"):
        number = next(place for place, one in enumerate(SENTENCES) if one.forms == own.sentence.forms)
        arcs = list(zip(trees[number].heads, trees[number].labels, strict=True))
        shares = [
            sum(
                list(zip(tree[number].heads, tree[number].labels, strict=True))[word] == arc for tree in alone
            )
            / 2
            for word, arc in enumerate(arcs)
        ]
        assert own.confidence == tuple(shares)
        assert own.doubts == len(shares) - sum(shares)
    with pytest.raises(ValueError, match="a single model can not disagree"):
        select(ONE, sources(), 200, "disagreement")


def test_random_ones_depend_on_the_seed_alone():
    first, again, other = (
        [own.sentence.line for own in select(ONE, sources(), 100, "random", seed)] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_of_the_same_words_the_first_counts():
    found = select(ONE, [*sources(file="one"), *sources(file="other")], 10_000)
    assert {own.file for own in found} == {"one"}
    assert len({own.sentence.forms for own in found}) == len(found)


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1)), max_size=30), st.integers(1, 30))
def test_what_is_left_out_early_would_not_be_selected_later(values, words):
    candidates = [candidate(value, own) for own, value in values]
    kept = []
    for each in candidates:
        kept = most_valuable([*kept, each], words)
    assert [own.value for own in kept] == [own.value for own in most_valuable(candidates, words)]


def test_chunks_change_nothing(monkeypatch):
    whole = select(ONE, sources(), 60)
    monkeypatch.setattr(selection, "CHUNK", 7)
    parts = select(ONE, sources(), 60)
    assert [own.sentence for own in parts] == [own.sentence for own in whole]


def test_doubtful_arcs_are_left_out_and_the_reason_is_told():
    tree = ParsedTree((2, 0, 1), ("obj", "root", "advmod"))
    own = Candidate("dogs.conllu", DOGS, tree, (0.5, 0.8, 0.79), 1.0)
    lines = lines_of(own, 3, "confidence", 0.8)
    assert [line.split("\t")[6:8] for line in lines if line[0].isdigit()] == [
        ["_", "_"],
        ["0", "root"],
        ["_", "_"],
    ]
    comments = [line for line in lines if line.startswith("#")]
    reason = "0.9 of 3 arcs are expected to be wrong; 2 left out, with a confidence below 0.8\n"
    assert comments[-1] == f"# selected = 3, dogs.conllu:1: {reason}"
    assert comments[:-1] == [line for line in DOGS.lines if line.startswith("#")]
    again = lines_of(own._replace(sentence=replace(DOGS, lines=lines, word_lines=(3, 4, 5))), 9, "random", 0)
    assert [line for line in again if "selected" in line] == [
        "# selected = 9, dogs.conllu:1: at random; 0 left out, with a confidence below 0, of 3 arcs\n"
    ]


def test_the_command_writes_what_parse_finds(tmp_path, capsys):
    output = tmp_path / "todo.conllu"
    arguments = ["select", MODEL, TREEBANK, "--words", "50", "-o", str(output)]
    assert main([*arguments, "--doubtful", "0"]) == 0
    found = read_treebank(str(output))
    assert sum(map(len, found)) >= 50
    assert str(output) in capsys.readouterr().err
    assert main([*arguments, "--doubtful", "1.5"]) == 2
    assert "from 0 to 1" in capsys.readouterr().err
    assert main([*arguments[:-1], TREEBANK]) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert main([*arguments, "--by", "disagreement"]) == 2
    assert "--ensemble" in capsys.readouterr().err


def test_selected_sentences_can_stand_in_any_order(tmp_path):
    """Also if a file begins with a blank line, or ends without one."""
    blocks = Path(TREEBANK).read_text(encoding="utf-8").split("\n\n")[:3]
    files = [tmp_path / name for name in ("a.conllu", "b.conllu", "c.conllu")]
    for file, content in zip(files, (f"\n{blocks[0]}", blocks[1], f"{blocks[2]}\n"), strict=True):
        file.write_text(content, encoding="utf-8")
    output = tmp_path / "todo.conllu"
    command = ["select", MODEL, *map(str, files), "--words", "1000", "--doubtful", "0", "-o"]
    assert main([*command, str(output)]) == 0
    found = {one.forms for one in read_treebank(str(output))}
    assert found == {one.forms for one in SENTENCES[:3]}


def test_standard_output_is_no_file(capsys):
    assert main(["select", MODEL, TREEBANK, "--words", "50", "-o", "-"]) == 2
    assert "-o -: give the name of a file" in capsys.readouterr().err
