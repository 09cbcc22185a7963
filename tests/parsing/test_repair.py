"""Trees that break learned constraints are changed, as little as the scorers allow."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.test_learned_constraints import CONSTRAINTS, LABELS, TAGS
from parsing.test_reparsing import MODEL, SENTENCES
from plain_parser import is_projective, is_tree, projective_trees, sentence

from parser import Constraints
from parser.api.parser import Parser
from parser.cli import main
from parser.models.learned_constraints import ConstrainedTree, LearnedConstraints
from parser.models.loading import ModelChoice, load_models
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import Arcs
from parser.parsing.repair import MOST_CHANGES, MOST_WORDS, TreeRepair
from parser.parsing.reparsing import with_bonus
from parser.runtime.arcs import SecondOpinion
from parser.treebank.conllu import read_treebank

STRINGS = ["", *LABELS[:-1], "root"]
BONUS = 0.5


class RandomScorer:
    """Scores of labels that depend on word and head alone. A column has the number of the label."""

    bonus = BONUS
    numbers = range(len(STRINGS))

    def __init__(self, seed, words):
        random = np.random.default_rng(seed)
        self.scores = random.normal(size=(words, words + 1, len(STRINGS))).astype(np.float32)
        self.scores[:, :, 0] = -np.inf
        self.scores[:, 1:, -1] = -np.inf
        self.scores[:, 0, 1:-1] = -np.inf
        logs = random.normal(size=(words, words + 1)).astype(np.float32)
        logs -= np.logaddexp.reduce(logs, 1, keepdims=True)
        self.opinion = SecondOpinion(logs, logs.max(1), logs, logs)

    def label_scores(self, arcs):
        return np.concatenate([self.scores[each.words, each.heads] for each in arcs])

    def probability(self, word, head, label):
        """The logarithm of that of an arc."""
        scores = self.scores[word - 1, head]
        return self.opinion.log_probabilities[word - 1, head] + scores[label] - np.logaddexp.reduce(scores)


@st.composite
def parsed(draw):
    heads = draw(st.sampled_from(projective_trees(draw(st.integers(1, 5)))))
    labels = [draw(st.integers(1, len(STRINGS) - 2)) if head else len(STRINGS) - 1 for head in heads]
    upos = [draw(st.sampled_from(TAGS)) for _ in heads]
    return Arcs(list(heads), labels, [0.5] * len(heads)), upos


def conflicts(constraints, heads, labels, upos):
    tree = ConstrainedTree.of(heads, [STRINGS[label] for label in labels], upos)
    return {word: constraints.conflicts(tree, word, tree.heads[word], tree.labels[word])
            for word in constraints.broken(tree)}  # fmt: skip


@given(CONSTRAINTS, parsed(), st.integers(0, 999), st.sets(st.integers(1, 5)))
def test_trees_stay_trees_and_given_arcs_stay(constraints, tree, seed, kept):
    arcs, upos = tree
    repair = TreeRepair(constraints, RandomScorer(seed, len(upos)), STRINGS)
    changed = repair(arcs, repair.reparser.opinion, upos, kept)
    assert is_tree(changed.heads)
    assert is_projective(changed.heads)
    assert all(0 <= probability <= 1 for probability in changed.probabilities)
    for word in kept & set(range(1, len(upos) + 1)):
        assert (changed.heads[word - 1], changed.labels[word - 1]) == (
            arcs.heads[word - 1],
            arcs.labels[word - 1],
        )
    if not conflicts(constraints, arcs.heads, arcs.labels, upos):
        assert changed is arcs
    assert [head == 0 for head in changed.heads] == [head == 0 for head in arcs.heads]


@given(parsed(), st.integers(0, 999), st.sampled_from(LABELS[:3]), st.sampled_from(TAGS))
def test_the_arc_that_costs_least_is_chosen(tree, seed, label, upos_of_label):
    """One word has a label that its UPOS rules out: the most probable other arc to it is made."""
    arcs, upos = tree
    constraints = LearnedConstraints(tags=frozenset({(label, upos_of_label)}))
    broken = conflicts(constraints, arcs.heads, arcs.labels, upos)
    if len(broken) != 1:
        return
    [word] = broken
    scorer = RandomScorer(seed, len(upos))
    changed = TreeRepair(constraints, scorer, STRINGS)(arcs, scorer.opinion, upos)

    def gain(arc):
        head, number = arc
        return scorer.probability(word, head, number) + BONUS * (head == arcs.heads[word - 1])

    def is_possible(arc):
        head, number = arc
        heads = [head if other == word else each for other, each in enumerate(arcs.heads, 1)]
        return head and STRINGS[number] != label and is_tree(heads) and is_projective(heads)

    arcs_to_word = product(range(len(upos) + 1), range(1, len(STRINGS) - 1))
    best = max(filter(is_possible, arcs_to_word), key=gain)
    assert (changed.heads[word - 1], changed.labels[word - 1]) == best
    assert sum(one != other for one, other in zip(changed.heads, arcs.heads, strict=True)) <= 1


def with_constraints(sentences):
    """A random parser, which knows what these trees never have."""
    return replace(with_bonus(MODEL, 1.0), constraints=LearnedConstraints.learned(sentences))


TRAIN = read_treebank("data/quickstart/train.conllu")
CONSTRAINED = with_constraints(TRAIN)


def broken_in(trees):
    pairs = zip(SENTENCES, trees, strict=True)
    found = [
        CONSTRAINED.constraints.broken(ConstrainedTree.of(tree.heads, tree.labels, one.upos))
        for one, tree in pairs
    ]
    return sum(map(len, found))


def test_parsers_repair_their_trees_unless_they_should_not():
    as_ever = parse(with_bonus(MODEL, 1.0), SENTENCES)
    assert parse(CONSTRAINED, SENTENCES, options=ParseOptions(constraints="none")) == as_ever
    repaired = parse(CONSTRAINED, SENTENCES)
    assert broken_in(repaired) < broken_in(as_ever) / 3
    assert all(is_tree(tree.heads) for tree in repaired)
    parser = Parser(CONSTRAINED)
    words = [list(one.forms) for one in SENTENCES]
    free = [tree.heads for tree in parser.parse_all(words, constraints=Constraints(learned=False))]
    assert free == [tree.heads for tree in as_ever]
    with pytest.raises(ValueError, match="learned is 'none'; it should be True or False"):
        Constraints(learned="none")


def test_given_arcs_stay_where_they_break_constraints():
    [odd] = [one for one in SENTENCES if len(one) > 4][:1]
    given = replace(
        odd, labels=(odd.labels[1], "_", *["_"] * (len(odd) - 2)), heads=(2, *[-1] * (len(odd) - 1))
    )
    [tree] = parse(CONSTRAINED, [given], options=ParseOptions(keep="given"))
    assert (tree.heads[0], tree.labels[0]) == (2, odd.labels[1])


def test_a_long_sentence_with_many_broken_constraints_takes_little_more_time(monkeypatch):
    """Counted in the arcs that are compared, as clocks are not reliable."""
    changes = []
    best = TreeRepair._best_change
    monkeypatch.setattr(TreeRepair, "_best_change", lambda *args: changes.append(args) or best(*args))
    [tree] = parse(CONSTRAINED, [sentence([0, *range(1, 300)], forms=["is"] * 300)])
    assert is_tree(tree.heads)
    assert MOST_WORDS < len(changes) <= MOST_CHANGES * MOST_WORDS


def test_models_keep_constraints(tmp_path, capsys):
    CONSTRAINED.save(tmp_path / "model", {})
    packed, output = tmp_path / "a.stackparser", tmp_path / "out.conllu"
    assert main(["pack", str(tmp_path / "model"), "-o", str(packed)]) == 0
    loaded = load_models(ModelChoice((packed,)))
    assert loaded.constraints == CONSTRAINED.constraints
    treebank = "data/quickstart/dev.conllu"
    for wanted in ("learned", "none"):
        command = ["parse", str(packed), treebank, "--constraints", wanted, "-o", str(output)]
        assert main(command) == 0
        trees = parse(loaded, SENTENCES, options=ParseOptions(constraints=wanted))
        found = read_treebank(str(output))[: len(SENTENCES)]
        assert [one.heads for one in found] == [tree.heads for tree in trees]
    replace(CONSTRAINED, constraints=None).save(tmp_path / "model", {})
    assert load_models(ModelChoice((tmp_path / "model",))).constraints is None
    CONSTRAINED.save(tmp_path / "model", {})
    (tmp_path / "model" / "constraints.json").write_text("[]")
    assert main(["parse", str(tmp_path / "model"), treebank]) == 2
    assert "constraints.json" in capsys.readouterr().err
