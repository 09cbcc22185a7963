"""Studies of accuracy: mirrored sentences, votes of parsers, trees that cross, gains, and predicted tags."""

import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import all_trees, projective_trees, sentence
from programs import script

from parser.evaluation.significance import compare
from parser.parsing.parsed_tree import ParsedTree
from parser.runtime.arcs import SecondOpinion
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import with_tags

SHIPPED = "data/quickstart/dev.conllu"
TREES = st.integers(1, 4).flatmap(lambda length: st.sampled_from(list(all_trees(length))))
PROJECTIVE = [(2, 0), (0, 1), (2, 0, 2), (0, 1, 2), (3, 3, 0), (0, 3, 1)]


@given(heads=TREES)
def test_a_mirrored_tree_has_the_same_arcs_and_is_mirrored_back(heads):
    mirrored_heads = script("mirror_treebank").mirrored_heads
    mirrored = mirrored_heads(heads)
    place = {0: 0, **{word: len(heads) + 1 - word for word in range(1, len(heads) + 1)}}
    assert set(enumerate(mirrored, 1)) == {(place[word], place[head]) for word, head in enumerate(heads, 1)}
    assert mirrored_heads(mirrored) == heads


def content(sentences):
    return [(s.forms, s.upos, s.xpos, s.lemmas, s.feats, s.heads, s.labels, s.identifier) for s in sentences]


def test_a_treebank_that_is_mirrored_twice_is_as_before(tmp_path, monkeypatch):
    program, source = script("mirror_treebank"), SHIPPED
    for name in ("once", "twice"):
        target = str(tmp_path / name / "dev.conllu")
        monkeypatch.setattr(sys, "argv", ["mirror_treebank.py", source, target])
        program.main()
        source = target
    gold, once, twice = map(read_treebank, (SHIPPED, str(tmp_path / "once/dev.conllu"), source))
    assert content(twice) == content(gold)
    assert content(once) == content(map(program.mirrored, gold))
    assert [sentence.forms for sentence in once] == [sentence.forms[::-1] for sentence in gold]


@pytest.fixture(scope="module")
def voting():
    return script("measure_right_to_left")


def opinion(voting, heads, probabilities=None, labels=None, scorer_heads=None, bonus=2.0):
    labels = labels or ["root" if head == 0 else "obj" for head in heads]
    tree = ParsedTree(tuple(heads), tuple(labels), tuple(probabilities or [0.5] * len(heads)))
    logs = torch.randn(len(heads), len(heads) + 1).log_softmax(1).numpy()
    return voting.Opinion(tree, scorer_heads or tree.heads, logs, bonus)


@given(seed=st.integers(0, 1000), way=st.sampled_from(["votes", "weighted votes", "scorers"]))
def test_the_tree_of_several_parsers_has_the_greatest_sum(voting, seed, way):
    torch.manual_seed(seed)
    trees = projective_trees(4)
    picked = [trees[number] for number in torch.randint(len(trees), (6,)).tolist()]
    members = [
        opinion(voting, heads, torch.rand(4).tolist(), scorer_heads=others, bonus=float(bonus))
        for bonus, heads, others in zip((1, 2, 6), picked[::2], picked[1::2], strict=True)
    ]

    def value(member, word, head):
        if way == "scorers":
            bonus = 3.0 if member.own_heads[word] == head else 0.0
            return (member.log_probabilities[word, head] + bonus) / 3
        weight = member.tree.probabilities[word] if way == "weighted votes" else 1
        return weight * (member.tree.heads[word] == head)

    def total(heads):
        return sum(value(member, word, head) for word, head in enumerate(heads) for member in members)

    [tree] = voting.together([[member] for member in members], way)
    assert total(tree.heads) == pytest.approx(max(map(total, trees)), rel=1e-5)


def test_labels_are_those_of_most_of_the_parsers_with_the_arc(voting):
    members = [opinion(voting, (2, 0), labels=[label, "root"]) for label in ("obj", "iobj", "iobj")]
    members += [opinion(voting, (0, 1), labels=["root", "nsubj"]) for _ in range(2)]
    assert voting.labelled((2, 0), members, voting.equal).labels == ("iobj", "root")
    assert voting.labelled((0, 1), members[:3], voting.equal).labels == ("root", "dep")
    surer = [opinion(voting, (2, 0), [0.9, 1.0], ["obj", "root"]), *members[1:2]]
    assert voting.labelled((2, 0), surer, voting.probable).labels == ("obj", "root")


@given(heads=TREES)
def test_what_a_parser_says_of_a_mirrored_sentence_is_mirrored_back(voting, heads):
    given_opinion = opinion(voting, heads)
    mirrored = voting.mirrored_opinion(given_opinion)
    last = len(heads) + 1
    for word in range(1, last):
        for head in range(last):
            probability = mirrored.log_probabilities[last - word - 1, last - head if head else 0]
            assert probability == given_opinion.log_probabilities[word - 1, head]
    again = voting.mirrored_opinion(mirrored)
    assert again.tree == given_opinion.tree
    assert tuple(again.own_heads) == tuple(given_opinion.own_heads)


def test_each_parser_is_in_as_many_groups_as_the_others(voting):
    assert voting.groups(3, 3, 3, 0) == [([0, 1, 2], [])]
    assert voting.groups(3, 2, 3, 1) == [([0, 1], [2]), ([1, 2], [0]), ([0, 2], [1])]
    assert voting.groups(3, 2, 1, 1) == [([0, 1], [0]), ([1, 2], [0]), ([0, 2], [0])]


@given(seed=st.integers(0, 1000), bonus=st.sampled_from([0.0, 1.0]))
def test_of_all_trees_that_of_the_greatest_sum_is_found(seed, bonus):
    torch.manual_seed(seed)
    trees = list(all_trees(4))
    logs = torch.randn(4, 5).mul(3).log_softmax(1).numpy()
    parsed = trees[seed % len(trees)]

    def total(heads):
        return sum(logs[word, head] + bonus * (parsed[word] == head) for word, head in enumerate(heads))

    second = SecondOpinion(logs, logs.max(1), torch.zeros(0, 0), 0)
    best = script("measure_arc_scorer").chu_liu_edmonds(second, parsed, bonus)
    assert total(best) == pytest.approx(max(map(total, trees)), rel=1e-5)


def test_the_gain_on_one_treebank_is_that_of_a_comparison_and_that_on_two_their_mean():
    program = script("compare_over_treebanks")
    gold = [sentence(heads) for heads in PROJECTIVE]
    trees = [ParsedTree(one.heads, one.labels) for one in gold]
    wrong = [tree._replace(labels=("dep",) * len(tree.labels)) for tree in trees]
    worse, better = [*wrong[:4], *trees[4:]], [*trees[:3], wrong[3], *trees[4:]]
    expected = compare(gold, worse, better)
    counts = program.counts_of(gold, [(worse, better)])
    alone = program.gain([counts])
    assert alone.mean == pytest.approx(expected.difference)
    assert alone[1:] == pytest.approx(expected.interval)
    same = program.counts_of([replace(one) for one in gold], [(better, better), (worse, better)])
    assert program.gain([same]).mean == pytest.approx(expected.difference / 2)
    assert program.gain([counts, same]).mean == pytest.approx(expected.difference * 3 / 4)
    assert program.gain([same, same]).low > 0


QUICKSTART = "data/quickstart"
NETWORK = "parser: {network: {tag_sizes: {}, tags: {predict: [upos]}}}\n"


@pytest.fixture
def tagging(monkeypatch):
    """The script with taggers that know the tags of sentences they have seen, and tag all others as X."""
    program, seen = script("predict_tags"), {}

    def tagger(config, run, sentences):
        seen[run] = {sentence.identifier for sentence in sentences}
        return run

    def tagged(model, sentences):
        retagged = [with_tags(one, {"upos": ["X"] * len(one)}, "all")[0] for one in sentences]
        pairs = zip(sentences, retagged, strict=True)
        return [one if one.identifier in seen[model] else other for one, other in pairs]

    monkeypatch.setattr(program, "tagger", tagger)
    monkeypatch.setattr(program, "tagged", tagged)
    return program


def test_no_sentence_is_tagged_by_a_tagger_that_has_seen_it(tagging, tmp_path, monkeypatch, capsys):
    config = tmp_path / "tagger.yaml"
    config.write_text(
        f"treebank: {{train: {QUICKSTART}/dev.conllu, dev: {QUICKSTART}/dev.conllu, "
        f"test: {QUICKSTART}/test.conllu}}\n" + NETWORK
    )
    output = tmp_path / "tags"
    monkeypatch.setattr(sys, "argv", ["predict_tags.py", str(config), str(output), "--folds", "7"])
    tagging.main()
    gold = read_treebank(f"{QUICKSTART}/dev.conllu")
    train, dev = (read_treebank(str(output / f"{name}.conllu")) for name in ("train", "dev"))
    assert {tag for sentence in train for tag in sentence.upos} == {"X"}
    assert content(train) == content(replace(one, upos=("X",) * len(one)) for one in gold)
    assert [one.upos for one in dev] == [one.upos for one in gold]  # by the tagger of all sentences
    assert "train.conllu: 2,480 words, UPOS 0.00 %" in capsys.readouterr().out


TRAIN = f"{QUICKSTART}/train.conllu"


@pytest.mark.parametrize(
    ("train", "network", "message"),
    [
        (f"[{TRAIN}, {QUICKSTART}/test.conllu]", NETWORK, r"treebank\.train has several files"),
        (TRAIN, "", r"predict has no upos"),
    ],
    ids=["several files", "no tagger"],
)
def test_a_config_that_is_not_for_this_is_refused(tagging, tmp_path, monkeypatch, train, network, message):
    config = tmp_path / "tagger.yaml"
    config.write_text(f"treebank: {{train: {train}, dev: {QUICKSTART}/dev.conllu}}\n{network}")
    monkeypatch.setattr(sys, "argv", ["predict_tags.py", str(config), str(tmp_path / "tags")])
    with pytest.raises(SystemExit, match=message):
        tagging.main()
