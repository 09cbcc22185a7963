"""Networks batched on the fly, which equal a plain loop over words and nodes, and their plugins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from chosen_device import ALL_SIMULATED, DEVICE
from extended import COMPILES, examples, first_of
from hypothesis import given
from hypothesis import strategies as st
from plugin_setups import prepared, setup_of, with_settings
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from parser.batching.operations.cells import Grain
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.static_computation import StaticComputation
from parser.networks.bilstm import bilstm_by_levels, bilstm_packed
from parser.speed.tasks.bilstms import (
    bilstm_compiled,
    bilstm_nested,
    bilstm_padded_together,
    bilstm_vmapped,
)
from parser.speed.tasks.conformance import faults_of
from parser.speed.tasks.feature_parser.dynamic_oracle import NOTHING, Decisions, FeatureSentence
from parser.speed.tasks.feature_parser.transition_parser_plugin import (
    FeatureParser,
    RecordedFeatureParser,
    TransitionParser,
    TransitionParserSettings,
    dropout_rates,
)
from parser.speed.tasks.feature_parser.transition_parser_plugin import (
    forward_operations as operations_of_parse,
)
from parser.speed.tasks.message_training import NEEDS_CPU
from parser.speed.tasks.operation_training import copy_vectors, missing_compiler, sparse_table
from parser.speed.tasks.plugin import Methods
from parser.speed.tasks.tagged_text import UNKNOWN, TaggedSentence
from parser.speed.tasks.taggers.bilstm_char_tagger_plugin import BiLSTMCharTagger
from parser.speed.tasks.taggers.bilstm_tagger_plugin import (
    BiLSTMTagger,
    BiLSTMTaggerSettings,
    MadeSentences,
    RecordedTagger,
    Tagger,
)
from parser.speed.tasks.taggers.bilstm_tagger_plugin import tagger_operations as operations_of_sentence
from parser.speed.tasks.tree_lstm.methods import compiled_loss, loss_by_depth, loss_vmapped
from parser.speed.tasks.tree_lstm.network import BinaryTree, RecordedTreeLSTM, TreeLSTM
from parser.speed.tasks.tree_lstm.tree_lstm_plugin import (
    LabelledTree,
    MadeTrees,
    TreeLSTMPlugin,
    make_trees,
    prepare_tree,
)

COMPILED = "compiled"
WORDS, LABELS, CHARACTERS = 20, 5, 9
GRAINS: tuple[Grain, ...] = ("cell", "operation")
BY_HAND = {"manual": bilstm_by_levels, "library": bilstm_packed, "padded": bilstm_padded_together}
BY_PYTORCH = {"nested": bilstm_nested, "vmap": bilstm_vmapped}
NOT_SIMULATED = {"nested"}
"""A nested tensor keeps one of its parts on the CPU, which the simulated GPU does not allow."""


def outcome(loss: float, network: nn.Module) -> list[Tensor]:
    """The loss and all gradients, zero for weights that no loss uses."""
    gradients = [
        torch.zeros_like(weight) if weight.grad is None else weight.grad.to_dense()
        for weight in network.parameters()
        if weight.requires_grad
    ]
    network.zero_grad()
    return [torch.tensor(loss, dtype=torch.double), *gradients]


def of_torch(loss: Tensor, network: nn.Module) -> list[Tensor]:
    loss.backward()
    return outcome(loss.item(), network)


def assert_same(found: list[Tensor], expected: list[Tensor], which: object) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8, msg=lambda text: f"{which}: {text}")


def assert_graphs_give(expected: list[Tensor], network: nn.Module, recorder: Any, examples: list) -> None:
    """Check each grain and method."""
    for grain in GRAINS:
        recorded = recorder(network, grain)
        for method in GRAPH_METHODS:
            graph = Graph(method, DEVICE, torch.double)
            losses = [value for example in examples for value in recorded.losses(graph, example)]
            loss = graph.values(losses).sum().item()
            graph.backward(losses)
            assert_same(outcome(loss, network), expected, (grain, method))


def sentences(lengths: Sequence[int], spelled: bool) -> list[TaggedSentence]:
    draw = random.Random(1)
    return [
        TaggedSentence(
            [draw.randrange(WORDS) for _ in range(length)],
            [draw.randrange(LABELS) for _ in range(length)],
            {
                place: [draw.randrange(CHARACTERS) for _ in range(draw.randint(1, 5))]
                for place in range(0, length, 3)
                if spelled
            },
        )
        for length in lengths
    ]


def plain_lstm(lstm: nn.LSTM, suffix: str, vectors: Sequence[Tensor]) -> list[Tensor]:
    weight_in, weight, bias = (
        getattr(lstm, f"{name}_{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih")
    )
    hidden = cell = torch.zeros(lstm.hidden_size, dtype=torch.double, device=DEVICE)
    states = []
    for vector in vectors:
        into, forget, new, out = (weight_in @ vector + weight @ hidden + bias).chunk(4)
        cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
        hidden = out.sigmoid() * cell.tanh()
        states.append(hidden)
    return states


def plain_bilstm(lstm: nn.LSTM, vectors: list[Tensor]) -> list[Tensor]:
    for layer in range(lstm.num_layers):
        forward = plain_lstm(lstm, f"l{layer}", vectors)
        backward = plain_lstm(lstm, f"l{layer}_reverse", vectors[::-1])[::-1]
        vectors = [torch.cat(pair) for pair in zip(forward, backward, strict=True)]
    return vectors


def plain_tagger(tagger: Tagger, sentence: TaggedSentence) -> Tensor:
    vectors = []
    for place, word in enumerate(sentence.words):
        vector = tagger.words.weight[word]
        if place in sentence.spellings:
            states = plain_bilstm(tagger.speller, [tagger.characters[c] for c in sentence.spellings[place]])
            half = len(vector) // 2
            vector = torch.cat([states[-1][:half], states[0][half:]])
        vectors.append(vector)
    states = plain_bilstm(tagger.reader, vectors)
    if tagger.middle:
        states = [tagger.middle(state).tanh() for state in states]
    scores = torch.stack([tagger.scores(state) for state in states])
    return F.cross_entropy(scores, torch.tensor(sentence.labels, device=DEVICE), reduction="sum")


def small_tagger(spelled: bool) -> Tagger:
    torch.manual_seed(0)
    sizes = {"word_size": 6, "hidden_size": 4, "layers": 2, "character_size": 5}
    settings = BiLSTMTaggerSettings(middle_size=3 if spelled else 0, characters=spelled, **sizes)
    return Tagger(settings, WORDS, LABELS, CHARACTERS).to(DEVICE, torch.double)


@pytest.mark.parametrize("lengths", first_of([(5, 1, 3, 7), (1,), (4, 4, 4)]))
@pytest.mark.parametrize("spelled", [False, True])
def test_taggers_are_equal(lengths: tuple[int, ...], spelled: bool) -> None:
    tagger, batch = small_tagger(spelled), sentences(lengths, spelled)
    expected = of_torch(torch.stack([plain_tagger(tagger, sentence) for sentence in batch]).sum(), tagger)
    for method, run in {**BY_HAND, **BY_PYTORCH}.items():
        if not (ALL_SIMULATED and method in NOT_SIMULATED):
            assert_same(of_torch(tagger.loss(batch, run), tagger), expected, method)
    assert_graphs_give(expected, tagger, RecordedTagger, batch)


def plain_parser_loss(network: FeatureParser, sentence: FeatureSentence) -> Tensor:
    """The loss, step by step. `Decisions`, which has its own tests, chooses the transitions to compare."""
    vectors = [
        torch.cat([network.words.weight[word], network.tags[tag]])
        for word, tag in zip(sentence.words, sentence.tags, strict=True)
    ]
    read = plain_bilstm(network.reader, vectors)
    decisions = Decisions([sentence], network.labels, network.settings.explore)
    kinds = [0] + [1] * network.labels + [2] * network.labels
    losses = [torch.zeros((), dtype=torch.double, device=DEVICE)]
    for states in decisions:
        features = torch.cat(
            [network.nothing[0] if place == NOTHING else read[place] for place in states.words[0].tolist()]
        )
        of_kinds, of_labelled = network.middle(features).tanh().chunk(2)
        scores = torch.cat([network.kinds(of_kinds), network.labelled(of_labelled)])
        chosen = decisions.take(scores.detach().cpu().numpy()[None])
        for pair in chosen.pairs.tolist():
            right, wrong = (scores[kinds[one]] + scores[3 + one] for one in divmod(pair, len(kinds)))
            losses.append(1 + wrong - right)
    return torch.stack(losses).sum()


class ByBatches(RecordedFeatureParser):
    def losses(self, graph, batch):
        return super().losses(graph, batch, lambda _: nullcontext())


@pytest.mark.parametrize("heads", [[[1, 3, 1], [1], [4, 0, 1, 1]], [[1]]])
def test_feature_parsers_are_equal(heads: list[list[int]]) -> None:
    torch.manual_seed(0)
    draw = np.random.default_rng(3)
    sizes = {"word_size": 5, "tag_size": 3, "hidden_size": 4, "middle_size": 6}
    network = FeatureParser(TransitionParserSettings(**sizes, explore=0.5), WORDS, 4, LABELS)
    network = network.to(DEVICE, torch.double)
    batch = [
        FeatureSentence(
            draw.integers(WORDS, size=len(own) + 1).tolist(),
            draw.integers(4, size=len(own) + 1).tolist(),
            own,
            draw.integers(LABELS, size=len(own)).tolist(),
            draw.random(2 * len(own)),
        )
        for own in heads
    ]
    total = torch.stack([plain_parser_loss(network, sentence) for sentence in batch]).sum()
    expected = of_torch(total, network)
    for by_hand, run in BY_HAND.items():
        assert_same(of_torch(network.loss(batch, run), network), expected, by_hand)
    assert_graphs_give(expected, network, ByBatches, [batch])


def random_tree(leaves: int, draw: random.Random) -> BinaryTree:
    left, right = [], []

    def build(start: int, stop: int) -> int:
        """Add the nodes over these leaves, and return the number of the top one."""
        if stop - start == 1:
            return start
        middle = draw.randrange(start + 1, stop)
        children = build(start, middle), build(middle, stop)
        left.append(children[0])
        right.append(children[1])
        return leaves + len(left) - 1

    build(0, leaves)
    words = [str(draw.randrange(WORDS)) for _ in range(leaves)]
    labels = [draw.randrange(LABELS) for _ in range(2 * leaves - 1)]
    return prepare_tree(LabelledTree(words, labels, left, right), {str(word): word for word in range(WORDS)})


def plain_tree(network: TreeLSTM, tree: BinaryTree) -> Tensor:
    hidden, cell = [], []
    for word in tree.words.tolist():
        into, new, out = network.leaf(network.words.weight[word]).chunk(3)
        cell.append(into.sigmoid() * new.tanh())
        hidden.append(out.sigmoid() * cell[-1].tanh())
    for left, right in zip(tree.left.tolist(), tree.right.tolist(), strict=True):
        new, into, out = network.gates(torch.cat([hidden[left], hidden[right]])).chunk(3)
        forget_left = network.forget_left(hidden[left]).sigmoid()
        forget_right = network.forget_right(hidden[right]).sigmoid()
        cell.append(into.sigmoid() * new.tanh() + forget_left * cell[left] + forget_right * cell[right])
        hidden.append(out.sigmoid() * cell[-1].tanh())
    scores = torch.stack([network.scores(state) for state in hidden])
    return F.cross_entropy(scores, torch.from_numpy(tree.labels).to(DEVICE), reduction="sum")


@examples(20)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_tree_lstms_are_equal(leaves: list[int], draw: random.Random) -> None:
    torch.manual_seed(0)
    network = TreeLSTM(WORDS, LABELS, word_size=7, hidden_size=6).to(DEVICE, torch.double)
    trees = [random_tree(count, draw) for count in leaves]
    expected = of_torch(torch.stack([plain_tree(network, tree) for tree in trees]).sum(), network)
    for loss_of in (loss_by_depth, loss_vmapped):
        assert_same(of_torch(loss_of(network, trees), network), expected, loss_of)
    assert_graphs_give(expected, network, RecordedTreeLSTM, trees)
    for grain in GRAINS:
        computation = StaticComputation(DEVICE, torch.double)
        calls, numbers = RecordedTreeLSTM(network, grain).calls(trees)
        computation.run(computation.schedule(calls))
        loss = computation.rows(numbers, 1).sum().item()
        computation.backward(numbers)
        assert_same(outcome(loss, network), expected, (grain, "levels"))


@pytest.mark.parametrize("lengths", [pytest.param([(5, 1, 3, 7), (1,), (4, 4, 4)], marks=COMPILES)])
def test_compiled_networks_are_equal(lengths: list[tuple[int, ...]]) -> None:
    if reason := missing_compiler():
        pytest.skip(reason)
    tagger, draw = small_tagger(spelled=True), random.Random(2)
    network = TreeLSTM(WORDS, LABELS, word_size=7, hidden_size=6).to(DEVICE, torch.double)
    compiled = compiled_loss(network)
    for own in lengths:
        batch, trees = sentences(own, spelled=True), [random_tree(length, draw) for length in own]
        runs = bilstm_by_levels, bilstm_compiled
        expected, found = (of_torch(tagger.loss(batch, run), tagger) for run in runs)
        assert_same(found, expected, own)
        expected, found = (
            of_torch(loss, network) for loss in (loss_by_depth(network, trees), compiled(trees))
        )
        assert_same(found, expected, own)


def not_compiled(plugin: Any) -> Methods:
    """The methods without compilation, which takes long."""
    return {"train": [method for method in plugin.methods["train"] if method != COMPILED]}


SENTENCES = {"made": MadeSentences(sentences=8, longest=7, vocabulary=9), "word_size": 6, "hidden_size": 5}
TREES = {"made": MadeTrees(trees=8, longest=6, vocabulary=9), "word_size": 6, "hidden_size": 5}
FINE = {"grain": "operation"}
SmallTagger = with_settings(BiLSTMTagger, not_compiled(BiLSTMTagger), **SENTENCES)
DeepTagger = with_settings(SmallTagger, **FINE, layers=2, middle_size=0)
SmallCharTagger = with_settings(BiLSTMCharTagger, not_compiled(BiLSTMTagger), **SENTENCES, rare=3)
SmallTree = with_settings(TreeLSTMPlugin, not_compiled(TreeLSTMPlugin), **TREES)
FineTree = with_settings(SmallTree, **FINE)
CompiledTagger = with_settings(BiLSTMTagger, {"train": ("none", COMPILED)}, **SENTENCES)
CompiledTree = with_settings(TreeLSTMPlugin, {"train": ("none", COMPILED)}, **TREES)


class SmallParser(with_settings(TransitionParser, word_size=6, hidden_size=5, middle_size=4)):
    def prepare(self, setup):
        super().prepare(setup)
        self._sentences = sorted(self._sentences, key=lambda sentence: len(sentence.words))[:4]


PLUGINS = (SmallTagger, DeepTagger, SmallCharTagger, SmallTree, FineTree, SmallParser)
COMPILED_PLUGINS = (CompiledTagger, CompiledTree)
COMPILING = [pytest.param(plugin, marks=COMPILES) for plugin in COMPILED_PLUGINS]


@pytest.mark.extended
@pytest.mark.parametrize("plugin", [*first_of(PLUGINS), *COMPILING])
def test_they_do_all_that_plugins_must(plugin):
    assert faults_of(plugin) == []


@pytest.mark.extended
@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_method_gives_the_cpus_results_on_the_device(plugin, device, request):
    expected = prepared(plugin, "none").check()
    left_out = NOT_SIMULATED if "simulated" in request.node.callspec.id else set()
    for method in [each for each in plugin.methods["train"] if each not in left_out]:
        if plugin().skip(setup_of(plugin, method, device=device)) == NEEDS_CPU:
            continue
        found = prepared(plugin, method, device=device).check().cpu()
        torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.extended
@pytest.mark.parametrize("plugin", [SmallTagger, DeepTagger, SmallTree, FineTree, SmallParser])
@pytest.mark.parametrize("method", ["agenda", "manual"])
def test_training_learns(plugin, method):
    made = prepared(plugin, method, learning_rate=0.03)
    before = made.check()[0]
    for _ in range(80):
        for batch in made.batches():
            made.run(batch)
        if made.check()[0] < before / 2:
            return
    pytest.fail("the loss has not halved in 80 epochs")


@pytest.mark.parametrize("plugin", COMPILED_PLUGINS)
def test_a_missing_compiler_is_a_reason_to_skip(plugin, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "there is no no-such-compiler" in plugin().skip(setup_of(plugin, COMPILED))
    assert plugin().skip(setup_of(plugin, "none")) is None


def test_a_missing_file_is_a_reason_to_skip():
    for plugin in (BiLSTMTagger, TreeLSTMPlugin):
        assert plugin().skip(setup_of(plugin, data="no/such")) == "no file no/such"


@pytest.mark.parametrize("plugin", [SmallTagger, SmallParser])
def test_batches_of_random_sentences_and_of_similar_lengths(plugin):
    def lengths(similar):
        made = prepared(plugin, "agenda", size=2, similar_lengths=similar)
        return [len(one.words) for batch in made.batches() for one in batch]

    assert lengths(True) == sorted(lengths(False), reverse=True) != lengths(False)


def test_words_are_dropped_the_more_often_the_rarer_they_are():
    rates = dropout_rates(np.array([0, 1, 3, 99]), 0.25)
    assert rates[1:].tolist() == [0.2, 0.25 / 3.25, 0.25 / 99.25]
    assert dropout_rates(np.array([0, 1]), 0.0).tolist() == [0, 0]

    def unknown(word_dropout):
        made = prepared(TransitionParser, "none", word_dropout=word_dropout)
        return np.mean([word == UNKNOWN for sentence in made._sentences for word in sentence.words])

    assert unknown(0.0) == 0
    assert 0 < unknown(0.25) < unknown(5.0) < 1


@pytest.mark.parametrize("spelled", [False, True])
def test_the_taggers_operations_are_those_of_its_products(spelled):
    sizes = {"word_size": 6, "hidden_size": 5, "layers": 2, "middle_size": 3, "character_size": 4}
    sentence = TaggedSentence([1, 2, 3, 4], [0, 1, 2, 3], {1: [1, 2, 3], 3: [4]} if spelled else {})
    settings = BiLSTMTaggerSettings(characters=spelled, **sizes)
    tagger = Tagger(settings, 9, 4, 7).double()  # uses torch's own products, which the counter knows
    with FlopCounterMode(display=False) as counter:
        tagger.score([sentence], bilstm_by_levels)
    assert counter.get_total_flops() == pytest.approx(operations_of_sentence(tagger, sentence))


def test_the_parsers_operations_are_those_of_its_products():
    settings = TransitionParserSettings(word_size=5, tag_size=2, hidden_size=6, middle_size=7)
    words = 4
    sentence = FeatureSentence([1] * 5, [1] * 5, [1, 4, 1, 2], [0, 1, 2, 0], np.ones(2 * words))
    network = FeatureParser(settings, 9, 4, 3).double()  # uses torch's own products, which the counter knows
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.loss([sentence], bilstm_by_levels)
    assert counter.get_total_flops() == pytest.approx(operations_of_parse(network, words))


def test_made_trees_are_labelled_by_the_sum_of_their_words():
    for tree in make_trees(MadeTrees(trees=20, longest=9, labels=5), seed=3):
        numbers = [int(word[1:]) for word in tree.words]
        for left, right in zip(tree.left, tree.right, strict=True):
            numbers.append(numbers[left] + numbers[right])
        assert [number % 5 for number in numbers] == tree.labels


@pytest.mark.real_data
def test_the_files_of_the_paper_are_read(treebanks: Path):
    folder = treebanks.parent
    if not (folder / "sst").is_dir() or not (folder / "tags").is_dir():
        pytest.skip(f"no sst/ and tags/ in {folder}")
    for plugin, path, count, tokens in (
        (TreeLSTMPlugin, folder / "sst/dynet-benchmark/train.txt", 8544, 163_563),
        (BiLSTMTagger, folder / "tags/wikiner_train10k.txt", 10_000, 248_038),
    ):
        made = prepared(plugin, "agenda", size=64, data=str(path))
        works = [made.work(batch) for batch in made.batches()]
        assert sum(work.sentences for work in works) == count
        assert sum(work.tokens for work in works) == tokens


def test_words_start_with_their_vectors_or_those_of_their_lowercase_form(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2\nrock 3 4\nRock 5 6\n")
    table = sparse_table(5, 2)
    before = table.weight.detach().clone()
    assert copy_vectors(table, {"Rock": 1, "The": 2, "sock": 4}, str(path)) == 2
    assert table.weight[1:3].tolist() == [[5, 6], [1, 2]]
    assert torch.equal(table.weight[[0, 3, 4]], before[[0, 3, 4]])
    with pytest.raises(ValueError, match="have 2 numbers, and those of the table 3: set word_size to 2"):
        copy_vectors(sparse_table(5, 3), {}, str(path))
