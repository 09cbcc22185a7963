"""Parsing with constraints, compared with a plain parser that looks at all trees, and by enumeration."""

from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from extended import extended, first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_constraints import plain_tree
from plain_parser import all_trees, is_tree, projective_trees, sentence
from random_parsers import RUNNERS, model, numbered_sentence, run_by

from parser.models.network_model import NetworkModel
from parser.models.settings import CalibrationSettings
from parser.networks.stack_parser import EncodedSentences
from parser.parsing.constraints import ConstraintReader, LabelChoices
from parser.parsing.engine import Engine, parse
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import with_calibration
from parser.parsing.pytorch.constrained_batch import ConstrainedBatch
from parser.parsing.pytorch.running_batch import RunningBatch
from parser.treebank.conllu_faults import cycles
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import NO_HEAD
from parser.treebank.set_aside import set_aside
from parser.treebank.tokens import encode_tokens

SYSTEMS = "arc-hybrid", "arc-eager"
KEEP = ParseOptions(keep="given")
KEEP_ALL = ParseOptions(keep="given", non_projective="given")
LIFTED = sentence((2, 0, 2, 3, 2), labels=["det", "root", "obj", "det↑obj", "nsubj"])
SUBTYPES = sentence((2, 0, 2, 2), labels=["nsubj:pass", "root", "obj↑det", "punct"])
WORD_LABELS = "det", "obj", "punct", "nsubj", "nsubj:pass"


def partial(heads, labels):
    return replace(sentence(tuple(0 for _ in heads)), heads=tuple(heads), labels=tuple(labels))


@st.composite
def partial_sentences(draw, most_words=5):
    """A sentence with some heads and labels of a projective tree."""
    tree = draw(st.sampled_from(projective_trees(draw(st.integers(1, most_words)))))
    heads = [head if draw(st.booleans()) else NO_HEAD for head in tree]
    labels = [draw(st.sampled_from(["_", "_", *(("root",) if head == 0 else WORD_LABELS)])) for head in tree]
    return partial(heads, labels)


def subsets_of_trees(words):
    """All subsets of the arcs of projective trees."""
    return sorted({
        tuple(head if (chosen >> place) % 2 else NO_HEAD for place, head in enumerate(tree))
        for tree in projective_trees(words)
        for chosen in range(1 << words)
    })  # fmt: skip


def with_labels(heads, number):
    """Labels for some words, which are possible for the given arcs."""
    draw = np.random.default_rng(number)
    return [
        "_" if draw.random() < 0.5 or head < 0 else draw.choice(WORD_LABELS) if head else "root"
        for head in heads
    ]


def assert_kept(one, tree):
    assert is_tree(tree.heads), (one.heads, tree.heads)
    for given_head, head in zip(one.heads, tree.heads, strict=True):
        assert given_head in (NO_HEAD, head), (one.heads, tree.heads)
    for given_label, label in zip(one.labels, tree.labels, strict=True):
        assert given_label in ("_", label), (one.labels, tree.labels)


@pytest.fixture(params=RUNNERS)
def runner(request, monkeypatch):
    run_by(monkeypatch, request.param)
    return request.param


@pytest.mark.parametrize(
    "ways", first_of([("arc-hybrid", False), ("arc-eager", False), ("arc-hybrid", True), ("arc-eager", True)])
)
@given(
    sentences=st.lists(partial_sentences(), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    at_most_one=st.sampled_from([(), ("nsubj",), ("obj", "nsubj:pass"), ("det", "obj", "punct", "nsubj")]),
    not_root=st.sampled_from([(), ("NOUN",), ("NOUN", "VERB", "ADP")]),
)
def test_trees_are_those_of_a_plain_parser_that_looks_at_all_trees(
    ways, sentences, seed, at_most_one, not_root
):
    """In a batch with sentences without constraints, and alone."""
    system, composition = ways
    torch.manual_seed(seed)
    parser = constrained_model(system, composition)
    options = ParseOptions(keep="given", at_most_one=at_most_one, not_root=not_root)
    for runner in RUNNERS:
        with pytest.MonkeyPatch.context() as patched:
            run_by(patched, runner)
            found = parse(parser, sentences, batch_size=3, options=options)
        for one, tree in zip(sentences, found, strict=True):
            no_roots = {word for word, tag in enumerate(one.upos, 1) if tag in not_root}
            heads, labels = plain_tree(parser, one, at_most_one=at_most_one, no_roots=no_roots)
            assert (tree.heads, tree.labels) == deprojectivize(heads, labels)
            assert_kept(one, tree)
            assert tree.violations == violations(tree, at_most_one, no_roots)


def constrained_model(system="arc-hybrid", composition=False, **options):
    return model(system, dtype=torch.double, composition=composition, train=[LIFTED, SUBTYPES], **options)


def violations(tree, at_most_one, no_roots):
    """Violations by the definition: dependents after the first one that counts, and roots."""
    seen, found = Counter(), []
    for word, (head, label) in enumerate(zip(tree.heads, tree.labels, strict=True), 1):
        own = [limit for limit in at_most_one if limit in (label, label.partition(":")[0])]
        broken = [f"at-most-one:{limit}" for limit in own if seen[head, limit]]
        seen.update((head, limit) for limit in own)
        found.append(",".join([*broken, *(["not-root"] if head == 0 and word in no_roots else [])]))
    return tuple(found) if any(found) else ()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("words", first_of(range(1, 7), 3))
def test_all_subsets_of_the_arcs_of_all_trees_are_kept(system, words, runner):
    sentences = [
        partial(heads, with_labels(heads, number)) for number, heads in enumerate(subsets_of_trees(words))
    ]
    parser = constrained_model(system)
    for one, tree in zip(sentences, parse(parser, sentences, options=KEEP), strict=True):
        assert_kept(one, tree)


@pytest.mark.parametrize("words", [1, 2, 3, *extended((4,))])
def test_arcs_that_cross_are_put_back(words, runner):
    sentences = [
        partial(
            [head if (chosen >> place) % 2 else NO_HEAD for place, head in enumerate(tree)], ["_"] * words
        )
        for tree in all_trees(words)
        for chosen in range(1 << words)
    ]
    sentences = list({one.heads: one for one in sentences}.values())
    for one, tree in zip(sentences, parse(constrained_model(), sentences, options=KEEP_ALL), strict=True):
        assert_kept(one, tree)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_whole_tree_stays_as_it_is(system, runner):
    parser = constrained_model(system)
    sentences = [
        partial(tree, ["det" if head else "root" for head in tree])
        for words in (1, 3, 4)
        for tree in all_trees(words)
    ]
    for one, tree in zip(sentences, parse(parser, sentences, options=KEEP_ALL), strict=True):
        assert (tree.heads, tree.labels) == (one.heads, one.labels)


@pytest.mark.parametrize("sentences", first_of([300, 100_000]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_random_subsets_of_random_trees_are_kept(system, sentences):
    draw = np.random.default_rng(1)

    def drawn():
        order, share = draw.permutation(draw.integers(1, 25)), draw.random()
        heads = np.full(len(order), NO_HEAD)
        for place, word in enumerate(order):  # each below a word before it
            if draw.random() < share:
                heads[word] = order[draw.integers(place)] + 1 if place else 0
        labels = [str(draw.choice(["_", "det", "nsubj"])) if head != 0 else "_" for head in heads]
        return partial(heads.tolist(), labels)

    given_ones = [drawn() for _ in range(sentences)]
    possible = ConstraintReader(parser := constrained_model(system))
    given_ones = [one for one in given_ones if not possible.faults(one, KEEP_ALL)]
    assert len(given_ones) > 0.8 * sentences
    for one, tree in zip(given_ones, parse(parser, given_ones, options=KEEP_ALL), strict=True):
        assert_kept(one, tree)


def test_what_is_not_constrained_is_parsed_as_ever(runner):
    parser = constrained_model("arc-eager")
    free = [sentence((0, *range(1, words))) for words in (3, 9, 1, 14, 6, 2, 8, 20)]
    expected = parse(parser, free, batch_size=3, options=ParseOptions(probabilities=True))
    run = Engine(parser, batch_size=3)
    requests = []
    for number, one in enumerate(free):
        requests.append(run.add(one, ParseOptions(probabilities=True)))
        limits = ParseOptions(probabilities=True, keep="given", at_most_one=("obj",) if number % 2 else ())
        run.add(partial([NO_HEAD, 1, NO_HEAD], ["_", "obj", "_"]), limits)
    for request, tree in zip(requests, expected, strict=True):
        found = run.result(request)
        assert (found.heads, found.labels) == (tree.heads, tree.labels)
        assert found.probabilities == pytest.approx(tree.probabilities)


def test_sentences_that_begin_anew_count_anew(monkeypatch):
    """Sentences are removed from a batch while they are parsed."""
    run_by(monkeypatch, "PyTorch")
    parser = constrained_model()
    limits = ParseOptions(keep="given", at_most_one=("det", "obj"))
    sentences = [partial([NO_HEAD] * words, ["_"] * (words - 1) + ["obj"]) for words in (9, 4, 12, 30, 7, 5)]
    expected = parse(parser, sentences, batch_size=6, options=limits)
    monkeypatch.setattr("parser.parsing.pytorch.running_batch.MAX_FRAMES", 40)
    assert parse(parser, sentences, batch_size=6, options=limits) == expected


@pytest.mark.extended
@torch.inference_mode()
def test_a_batch_forgets_limits_that_no_sentence_has(monkeypatch):
    """New limits keep coming while sentences with other limits are parsed."""
    monkeypatch.setattr("parser.parsing.pytorch.constrained_batch.KEPT_LIMITS", 4)
    parser = constrained_model()
    reader, running = ConstraintReader(parser), RunningBatch([parser], 3, in_graph=False)
    sentences = [numbered_sentence(number, 5 + 7 * (number % 3)) for number in range(20)]
    constraints = [
        reader.read(one, ParseOptions(at_most_one=limits), {})
        for one, limits in zip(sentences, permutations(WORD_LABELS, 2), strict=True)
    ]

    def join(batch, number):
        tokens = encode_tokens(parser.vocabulary, [sentences[number]])
        read = EncodedSentences(tokens, parser.network.encode_distinct(tokens)[0])
        return batch.join([read], constraints=[constraints[number]])[0]

    def alone(number):
        batch = RunningBatch([parser], 1, in_graph=False)
        join(batch, number)
        while not (found := batch.done()):
            batch.work()
        return found.popitem()[1]

    numbers, rows = {}, []
    for number in range(len(sentences)):
        numbers[join(running, number)] = number
        rows.append(len(running._constraints._limits))
        while len(numbers) == 3 or (numbers and number == len(sentences) - 1):
            running.work()
            for slot, arcs in running.done().items():
                assert arcs == alone(numbers.pop(slot))
    assert max(rows) == 5


@torch.inference_mode()
def test_new_limits_move_tensors_seldom():
    """A CUDA graph is captured again whenever they do."""
    parser = constrained_model()
    reader, choices = ConstraintReader(parser), LabelChoices.of(parser.vocabulary)
    batch = ConstrainedBatch(parser.inventory, choices, 32)
    given = partial([NO_HEAD] * 3, ["_"] * 3)

    def join(limits):
        return batch.join([8], [reader.read(given, ParseOptions(keep="given", at_most_one=limits), {})])

    assert not join(())
    moves = [join(limits) for limits in permutations(WORD_LABELS, 3)]
    assert moves[0]  # from now on steps look at limits
    assert sum(moves) == 4  # and at 8, 16 and 32 rows
    assert not any(join(limits) for limits in permutations(WORD_LABELS, 3))


def test_the_probability_of_what_is_given_is_one(runner):
    """Even if an arc is put back after parsing, and although calibration never gives 1."""
    parser = with_calibration(constrained_model(), CalibrationSettings(right=0.5, wrong=0.5, offset=-1))
    sentences = [
        partial([2, 0, 2], ["det", "root", "obj"]),
        partial([3, 4, NO_HEAD, NO_HEAD], ["det", "obj", "_", "nsubj"]),  # the second arc is put back
    ]
    whole, part = parse(parser, sentences, options=replace(KEEP_ALL, probabilities=True))
    assert whole.probabilities == (1, 1, 1)
    assert part.heads[:2] == (3, 4)
    assert part.probabilities[:2] == (1, 1)
    assert all(0 < own < 1 for own in part.probabilities[2:])


def test_the_device_keeps_constraints_in_a_graph(device, capsys):
    torch.manual_seed(3)
    parser = constrained_model()
    sentences = [
        partial(heads, with_labels(heads, number)) for number, heads in enumerate(subsets_of_trees(4)[::5])
    ]
    options = ParseOptions(keep="given", at_most_one=("nsubj", "obj"), not_root=("NOUN",))
    on_cpu = parse(parser, sentences, batch_size=4, options=options)
    parser.network.to(device)
    moved = NetworkModel(parser.settings, parser.vocabulary, parser.inventory.to(device), parser.network)
    assert parse(moved, sentences, batch_size=4, options=options) == on_cpu
    assert not capsys.readouterr().err  # no warning that it continued without a graph


FAULTS = [
    ([2, 1, NO_HEAD], "___", 1, "the heads of the words 1, 2 form a cycle"),
    ([0, 0, NO_HEAD], "___", 2, "the words 1, 2 are all given as the root"),
    ([0, NO_HEAD, NO_HEAD], ["_", "root", "_"], 2, "the words 1, 2 are all given as the root"),
    (
        [NO_HEAD] * 3,
        ["_", "nosuch", "_"],
        2,
        "DEPREL 'nosuch'.*the model knows no such label, but det, nsubj",
    ),
    ([NO_HEAD, 0, NO_HEAD], ["_", "det", "_"], 2, "DEPREL 'det' for the root.* but root"),
    ([NO_HEAD] * 3, ["det", "det", "obj"], 1, "no word can be the root"),
    (
        [3, 0, NO_HEAD],
        "___",
        1,
        "no projective tree has the arc from word 3 to word 1 .*set non-projective to `given`",
    ),
]


@pytest.mark.parametrize(("heads", "labels", "word", "message"), FAULTS)
def test_what_no_tree_can_have_is_told(heads, labels, word, message, runner):
    one, parser = partial(heads, labels), constrained_model()
    [(place, told)] = ConstraintReader(parser).faults(one, KEEP)
    assert place == word
    run = Engine(parser)
    other, refused = run.add(sentence((0, 1))), run.add(one, KEEP)
    assert is_tree(run.result(other).heads)
    with pytest.raises(ValueError, match=f"sentence made up: word {word}: .*{message}"):
        run.result(refused)
    assert told in str(refused._error)


def test_a_label_of_the_root_alone_makes_the_root(runner):
    [tree] = parse(constrained_model(), [partial([NO_HEAD] * 3, ["_", "_", "root"])], options=KEEP)
    assert tree.heads[2] == 0


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (ParseOptions(at_most_one=("nsbj",)), "at most one 'nsbj': the model knows no such label, but det, "),
        (
            ParseOptions(not_root=("NOWN",)),
            "not root 'NOWN': the model knows no such UPOS, but ADP, NOUN, VERB",
        ),
        (ParseOptions(at_most_one=("obj",) * 61), "61 labels; at most 60"),
    ],
)
def test_what_a_model_does_not_know_is_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        ConstraintReader(constrained_model()).refuse_unable(wanted, wanted.keep is not None)


def test_without_any_tag_nothing_says_what_is_no_root():
    words = replace(sentence((2, 0)), upos=("_", "_"))
    with pytest.raises(ValueError, match="no word has a UPOS, which says what is not root, and the model pr"):
        parse(constrained_model(), [words], options=ParseOptions(not_root=("NOUN",)))


@pytest.mark.parametrize("wanted", [KEEP, ParseOptions(not_root=("NOUN",))])
def test_a_system_without_obstacles_refuses_given_arcs(wanted):
    parser = constrained_model("arc-standard")
    with pytest.raises(ValueError, match=r"arc-standard cannot tell .* arc-hybrid or arc-eager"):
        ConstraintReader(parser).refuse_unable(wanted, wanted.keep is not None)
    with pytest.raises(ValueError, match="arc-standard cannot tell"):
        parse(parser, [partial([NO_HEAD, 1], "__")], options=KEEP)


def test_any_system_limits_dependents(runner):
    torch.manual_seed(1)
    parser, limits = constrained_model("arc-standard"), ParseOptions(at_most_one=("nsubj", "obj", "punct"))
    sentences = [numbered_sentence(number, 2 + number) for number in range(20)]
    free = parse(parser, sentences)
    for tree in parse(parser, sentences, options=limits):
        assert is_tree(tree.heads)
        assert tree.violations == violations(tree, limits.at_most_one, ()) == ()
    assert any(violations(tree, limits.at_most_one, ()) for tree in free)


def test_an_ensemble_keeps_what_is_given(runner):
    torch.manual_seed(4)
    first, other = constrained_model(), constrained_model()
    together = replace(first, others=(other,))
    sentences = [
        partial(heads, with_labels(heads, number)) for number, heads in enumerate(subsets_of_trees(4)[::7])
    ]
    for one, tree in zip(sentences, parse(together, sentences, options=KEEP), strict=True):
        assert_kept(one, tree)


def test_only_what_can_not_be_kept_is_set_aside():
    """This is what the reader finds; see also `tests/treebank/test_partial_trees.py`."""
    one = partial([4, NO_HEAD, NO_HEAD, NO_HEAD, 3], ["_"] * 5)
    assert not cycles(one.heads)
    assert set_aside(one.heads) == [1]
    read = ConstraintReader(constrained_model()).read(one, KEEP_ALL, {})
    assert read.kept_heads == (NO_HEAD, NO_HEAD, NO_HEAD, NO_HEAD, 3)
    assert not read.may_be_root[0]  # since it gets another head
