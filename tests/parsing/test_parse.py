"""Parsing with continuous batching agrees with a plain greedy parser and gives trees for any weights."""

import gc
import weakref
from itertools import islice

import pytest
import torch
from extended import extended, first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import PlainParser, is_tree, sentence
from random_parsers import RUNNERS, model, run_by

from parser.models.network_model import NetworkModel
from parser.networks.stepping import stepper
from parser.parsing.engine import Engine, parse
from parser.parsing.options import ParseOptions
from parser.parsing.pytorch.running_batch import RunningBatch
from parser.speed.tasks.stack_parser.baselines import parse_batch, parse_one
from parser.speed.tasks.stack_parser.methods import parse_tokens
from parser.transitions import SYSTEMS
from parser.treebank.projectivity import is_projective
from parser.treebank.tokens import encode_tokens


def words(length):
    return sentence((0, *range(1, length)))


LENGTHS = [5, 1, 17, 3, 2, 2, 40, 9, 1, 6]


@pytest.mark.parametrize(
    ("composition", "word_features"),
    [(False, False), (True, True), *extended((False, True), (True, False))],
)
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("batch_size", [3, *first_of([1, 64])[1:]])
@pytest.mark.parametrize("runner", RUNNERS)
def test_each_way_of_parsing_gives_the_trees_of_a_plain_greedy_parser(
    system, runner, batch_size, composition, word_features, monkeypatch
):
    run_by(monkeypatch, runner)
    parser = model(system, dtype=torch.double, composition=composition, word_features=word_features)
    sentences = [words(length) for length in LENGTHS]
    found = parse(parser, sentences, batch_size, ParseOptions(probabilities=True))
    for one, tree in zip(sentences, found, strict=True):
        tokens = encode_tokens(parser.vocabulary, [one])
        with torch.no_grad():
            heads, labels, probabilities = PlainParser(parser.network, parser.inventory, tokens).parse()
        assert tree.heads == heads
        assert tree.labels == tuple(map(parser.vocabulary.labels.string, labels))
        assert tree.probabilities == pytest.approx(probabilities, rel=1e-5)


@pytest.mark.parametrize("system", first_of(SYSTEMS))
@pytest.mark.parametrize("runner", RUNNERS)
@given(seed=st.integers(0, 1000), scale=st.sampled_from([0.0, 0.1, 3.0, 1e4]))
def test_outputs_are_trees_with_one_root_for_any_weights(system, runner, seed, scale):
    torch.manual_seed(seed)
    with pytest.MonkeyPatch.context() as patched:
        run_by(patched, runner)
        trees = parse(model(system, scale), [words(length) for length in LENGTHS], batch_size=4)
    for tree in trees:
        assert is_tree(tree.heads)
        assert is_projective(tree.heads)
        assert [label == "root" for label in tree.labels] == [head == 0 for head in tree.heads]
        assert set(tree.labels) <= {"root", "det", "obj", "punct"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_device_gives_the_trees_of_the_cpu(system, device):
    parser = model(system, dtype=torch.double)
    sentences = [words(length) for length in LENGTHS]
    on_cpu = parse(parser, sentences, batch_size=4)
    parser.network.to(device)
    moved = NetworkModel(parser.settings, parser.vocabulary, parser.inventory.to(device), parser.network)
    assert parse(moved, sentences, batch_size=4) == on_cpu


@pytest.mark.parametrize("composition", first_of([True, False]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_gpu_computes_in_vain_changes_nothing(monkeypatch, system, composition):
    run_by(monkeypatch, "PyTorch")
    parser = model(system, dtype=torch.double, composition=composition, word_features=True)
    sentences = [words(length) for length in LENGTHS]
    expected = parse(parser, sentences, batch_size=3)
    monkeypatch.setattr(stepper, "_can_wait_for_count", lambda device: False)
    assert parse(parser, sentences, batch_size=3) == expected


@pytest.mark.parametrize("system", SYSTEMS)
def test_static_batches_and_single_sentences_give_the_same_trees(system, device):
    parser = model(system, dtype=torch.double, device=device)
    tokens = encode_tokens(parser.vocabulary, [words(length) for length in LENGTHS])
    with torch.inference_mode():
        continuous = parse_tokens(RunningBatch([parser], 3, in_graph=False), parser, tokens)
        together = parse_batch(parser, tokens.to(device))
        unbatched = [
            parse_one(parser, tokens.select(row[None]).to(device)) for row in torch.arange(len(tokens))
        ]
    for name in ("heads", "labels"):
        expected = torch.tensor([value for arcs in continuous for value in getattr(arcs, name)])
        assert torch.equal(getattr(together, name)[:-1].cpu(), expected)
        assert torch.equal(torch.cat([getattr(state, name)[:-1] for state in unbatched]).cpu(), expected)


@given(
    st.lists(st.integers(1, 9), max_size=16),
    st.integers(1, 32),
    st.integers(1, 5),
    st.sampled_from([*RUNNERS]),
)
def test_streams_keep_the_order_for_any_read_ahead(lengths, read_ahead, batch_size, runner):
    torch.manual_seed(0)
    parser = model(dtype=torch.double)
    sentences = [words(length) for length in lengths]
    with pytest.MonkeyPatch.context() as patched:
        run_by(patched, runner)
        streamed = list(Engine(parser, batch_size).stream(iter(sentences), read_ahead=read_ahead))
    assert [one for one, _ in streamed] == sentences
    assert [tree for _, tree in streamed] == parse(parser, sentences)


def test_the_stream_reads_no_further_than_its_read_ahead():
    taken, read = 0, []

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield words(5)

    for _, _ in islice(Engine(model(), batch_size=4).stream(endless(), read_ahead=50), 30):
        read.append(taken)
    assert read[0] == 1  # the first tree comes before more is read
    assert max(own - yielded for yielded, own in enumerate(read)) == 10


@pytest.mark.parametrize("system", first_of(SYSTEMS))
def test_a_sentence_of_a_thousand_words_among_short_ones(system):
    trees = parse(model(system), [words(3), words(1000), words(2)], batch_size=2)
    assert [len(tree.heads) for tree in trees] == [3, 1000, 2]
    assert trees[1].heads.count(0) == 1


@pytest.mark.extended
def test_a_sentence_of_ten_thousand_words():
    parser, long = model("arc-hybrid"), words(10_000)
    trees = parse(parser, [words(3), long, words(5)])
    assert [len(tree.heads) for tree in trees] == [3, 10_000, 5]
    assert is_tree(trees[1].heads)


@pytest.mark.parametrize(
    ("room", "message"), [(10, None), (4, "sentence made up: .* too little memory for a sentence of 5 words")]
)
@pytest.mark.parametrize("runner", RUNNERS)
def test_too_little_memory(monkeypatch, capsys, runner, room, message):
    run_by(monkeypatch, runner)
    kind = RUNNERS[runner]
    join = kind.join

    def join_or_fail(this, encoded):
        if sum(len(each.request.sentence) for each in encoded.running) > room:
            raise MemoryError("too much")
        join(this, encoded)

    parser, sentences = model(dtype=torch.double), [words(length) for length in (5, 9, 2, 4)]
    whole = parse(parser, sentences)
    monkeypatch.setattr(kind, "join", join_or_fail)
    if message:
        with pytest.raises(ValueError, match=message):
            parse(parser, sentences)
        return
    assert parse(parser, sentences) == whole
    assert capsys.readouterr().err.count("out of memory") == 1


@pytest.mark.parametrize("word_features", [False, True])
@pytest.mark.parametrize("composition", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_steps_in_a_cuda_graph_give_the_same_trees(system, composition, word_features, device, capsys):
    if device.type != "cuda":
        pytest.skip("CUDA graphs need a GPU")
    parser = model(system, device=device, composition=composition, word_features=word_features)
    # Enough steps to capture, and a sentence for which the stacks grow.
    tokens = encode_tokens(parser.vocabulary, [words(length) for length in [*LENGTHS, 12, 5, 30, 21]])
    found = []
    for in_graph in (False, True):
        with torch.inference_mode():
            batch = RunningBatch([parser], 3, in_graph)
            found += [parse_tokens(batch, parser, tokens, probabilities=True) for _ in range(2)]
    for own in found[1:]:
        assert [(arcs.heads, arcs.labels) for arcs in own] == [(arcs.heads, arcs.labels) for arcs in found[0]]
        for arcs, expected in zip(own, found[0], strict=True):
            assert arcs.probabilities == pytest.approx(expected.probabilities, rel=1e-5)
    assert not capsys.readouterr().err  # no warning that it continued without a graph


def test_a_batch_frees_its_tensors_and_its_graph_at_once(device):
    parser = model(device=device)
    gc.disable()
    try:
        with torch.inference_mode():
            batch = RunningBatch([parser], 3, in_graph=device.type == "cuda")
            parse_tokens(batch, parser, encode_tokens(parser.vocabulary, [words(5)] * 9))
        reference = weakref.ref(batch)
        del batch
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("number", first_of([float("nan"), float("inf"), float("-inf")]))
@pytest.mark.parametrize("runner", RUNNERS)
def test_outputs_are_trees_for_scores_that_are_not_finite(system, number, runner, monkeypatch):
    run_by(monkeypatch, runner)
    broken = model(system)
    torch.nn.init.constant_(broken.network.scores.bias, number)
    for tree in parse(broken, [words(length) for length in LENGTHS], batch_size=4):
        assert is_tree(tree.heads)


def test_nothing_to_parse():
    assert parse(model(), []) == []
