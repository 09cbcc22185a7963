"""Running text, and networks of layers over it as the speed harness measures them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import torch
from extended import first_of
from plugin_setups import prepared, setup_of
from pydantic import ValidationError
from torch.utils._python_dispatch import TorchDispatchMode

from parser.batching import functional
from parser.batching.recurrence.examples import EXAMPLES
from parser.speed.tasks.conformance import faults_of
from parser.speed.tasks.language_model.network import LibraryModel, Text, cross_entropy_and_errors
from parser.speed.tasks.language_model.recurrent_language_model_plugin import (
    END,
    METHODS,
    RecurrentLanguageModel,
    RecurrentLanguageModelSettings,
    generate_words,
    ranks,
    read_words,
    replace_rare,
)

LAYERED_METHODS = METHODS["train"][:-1]
"""All but PyTorch's own layers."""
AS_LIBRARY = [
    {"network": "lstm", "embedding_size": 6},
    {"network": "elman", "embedding_size": 6},
    {"network": "elman", "embedding_size": 0},
]

OWN = {
    "layers": {
        "input": {"size": 50, "kind": "symbols"},
        "hidden": {"size": 8, "activation": "relu"},
        "scores": {"size": 20, "output": True},
    },
    "connections": [
        {"source": "input", "target": "hidden"},
        {"source": "hidden", "target": "hidden", "weight": "diagonal", "delay": 2},
        {"source": "hidden", "target": "scores"},
    ],
}


Model, Settings = RecurrentLanguageModel, RecurrentLanguageModelSettings


@pytest.mark.extended
def test_it_does_all_that_plugins_must():
    assert faults_of(RecurrentLanguageModel) == []


@pytest.mark.extended
@pytest.mark.parametrize("network", EXAMPLES)
@pytest.mark.parametrize("method", LAYERED_METHODS)
def test_every_method_gives_the_cpus_results_on_the_device(network, method, device):
    expected = prepared(Model, "none", size=1, network=network).check()
    found = prepared(Model, method, size=8, device=device, network=network).check().cpu()
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("window", first_of([1, 2]))
@pytest.mark.parametrize("network", AS_LIBRARY)
def test_the_library_gives_the_same(network, window, device):
    expected = prepared(Model, "none", size=1, window=window, **network).check()
    found = prepared(Model, "library", size=8, device=device, window=window, **network).check().cpu()
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize(("network", "embedding_size"), [("lstm", 6), ("elman", 6), ("elman", 0)])
def test_the_library_goes_on_where_the_chunk_before_ended(network, embedding_size, window):
    model = LibraryModel(network, 50, embedding_size, 8, 20, window)
    text = Text(torch.randint(50, (12, 3)), torch.randint(20, (12, 3)))

    def loss(frames):
        model.forget()
        total = 0.0
        for inputs, targets in zip(*(each.split(frames) for each in text), strict=True):
            model.forward(inputs)
            total += model.loss(targets).item()
        return total

    assert loss(4) == pytest.approx(loss(12), rel=1e-5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"network": "peephole-lstm", "embedding_size": 6}, "library needs network: elman or lstm"),
        ({"network": "lstm"}, "library needs embedding_size > 0"),
        ({"graph": OWN}, "library needs network"),
    ],
)
def test_the_library_lacks_other_networks(changed, message):
    assert message in Model().skip(setup_of(Model, "library", **changed))


@pytest.mark.parametrize("network", first_of(AS_LIBRARY))
def test_the_library_learns_the_same(network):
    perplexities = []
    for method in ("both", "library"):
        plugin = prepared(Model, method, learning_rate=0.01, window=1, **network)
        for epoch in range(1, 5):
            plugin.learn(epoch)
        perplexities.append((plugin.score(), plugin.notes()["perplexity"])[1])
    assert perplexities[1] == pytest.approx(perplexities[0], rel=1e-3)


@pytest.mark.extended
def test_all_methods_learn_the_same():
    perplexities = []
    for method in LAYERED_METHODS:
        plugin = prepared(Model, method, network="peephole-lstm", learning_rate=0.01)
        before = plugin.score()
        for epoch in range(1, 5):
            plugin.learn(epoch)
        assert plugin.score() > max(before, 1.0)
        notes = plugin.notes()
        perplexities.append(notes["perplexity"])
        assert notes["perplexity"] < notes["perplexity by frequencies"]
    assert perplexities == pytest.approx([perplexities[0]] * len(LAYERED_METHODS), rel=1e-3)


class ProductCounter(TorchDispatchMode):
    """Counts the operations of all products that are called."""

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_):
            left, right = args[-2:]
            self.operations += 2 * left.shape[0] * right.numel()
        return function(*args, **(kwargs or {}))


@pytest.mark.extended
@pytest.mark.parametrize("network", EXAMPLES)
@pytest.mark.parametrize("method", LAYERED_METHODS)
def test_operations_are_those_of_the_products(network, method, monkeypatch):
    """Except for the products of errors from beyond the last frame."""
    monkeypatch.setattr(functional, "mkl_leaves_units_idle", lambda _: False)  # oneDNN's are not counted
    plugin = prepared(Model, method, network=network, embedding_size=6)
    first, second = plugin.batches()[:2]
    plugin.run(first)
    with ProductCounter() as counter:
        plugin.run(second)
    missing = 1 / (2 * second.inputs.shape[0])
    expected = plugin.work(second).operations
    assert (1 - missing) * expected <= counter.operations <= expected


def test_the_loss_is_the_cross_entropy_and_the_errors_its_gradient():
    scores = torch.randn(3, 2, 7, requires_grad=True)
    targets = torch.randint(7, (3, 2))
    expected = torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")
    expected.backward()
    errors = torch.empty(3, 2, 7)
    found = cross_entropy_and_errors(scores.detach(), targets, errors)
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(errors, scores.grad)


def test_streams_hold_the_text_in_its_order():
    plugin = prepared(Model, "both", frames=20, made={"words": 900, "vocabulary": 50}, held_out=520)
    chunks = plugin.batches()
    assert all(chunk.inputs.shape == (5, 4) for chunk in chunks)
    inputs, targets = (
        torch.cat([getattr(chunk, name) for chunk in chunks]) for name in ("inputs", "targets")
    )
    assert inputs[1:].equal(targets[:-1])  # inputs and targets distinguish equally many words
    assert inputs[0, 1:].equal(targets[-1, :-1])  # a stream continues where the previous one ends


def test_a_network_of_ones_own():
    expected = prepared(Model, size=1, graph=OWN).check()
    torch.testing.assert_close(prepared(Model, "both", graph=OWN).check(), expected, rtol=2e-4, atol=2e-4)
    hidden = {**OWN["layers"]["hidden"], "output": True}
    graph = {**OWN, "layers": {**OWN["layers"], "hidden": hidden}}
    with pytest.raises(ValidationError, match=r"only input .* only output"):
        Settings(graph=graph)


def test_unequal_streams_are_refused():
    assert "96 frames" in Model().skip(setup_of(Model, "both", size=5))


def test_too_little_text_is_told():
    with pytest.raises(ValueError, match="none is left"):
        prepared(Model, made={"words": 600, "vocabulary": 50}, held_out=600)
    with pytest.raises(ValueError, match=r"20 words .* 24 frames of 4 streams"):
        prepared(Model, "both", words=20).batches()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"network": "elmann"}, "there is no 'elmann', but elman, peephole-lstm"),
        ({"held_out": 512}, "held_out: must be more than 512 words"),
        ({"graph": OWN, "hidden_size": 3}, "hidden_size: must not be combined with graph"),
    ],
)
def test_settings_that_can_not_be_are_refused(changed, message):
    with pytest.raises(ValidationError, match=message):
        Settings(**changed)


TREE = "1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def test_words_come_from_treebanks_and_from_tagged_text(tmp_path):
    treebank, tagged = tmp_path / "a.conllu", tmp_path / "b.txt"
    treebank.write_text(TREE, encoding="utf-8")
    tagged.write_text("A|D cat|N\nIt|P\n", encoding="utf-8")
    words = read_words([str(treebank), str(tagged)])
    assert words == ["the", "dog", END, "a", "cat", END, "it", END]
    tagged.write_text("A|D cat|N\nIt\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"b\.txt:2: 'It'"):
        read_words([str(tagged)])


def test_the_most_frequent_words_keep_their_numbers():
    found = ranks(["a", "b", "b", "c", "b", "c", "d"])
    assert found == {"b": 1, "c": 2, "a": 3, "d": 4}
    assert replace_rare([3, 1, 1, 2], 3) == [0, 1, 1, 2]


def test_made_words_are_frequent_as_zipf_found_and_depend_on_the_one_before():
    words = generate_words(30_000, 500, seed=3)
    assert words == generate_words(30_000, 500, seed=3)
    counts = [count for _, count in Counter(words).most_common()]
    assert counts[0] > 3 * counts[9] > 6 * counts[99]
    pairs = Counter(pairwise(words))
    often = Counter(words)
    usual = sum(max(count for (first, _), count in pairs.items() if first == word) for word in often)
    assert usual > 0.5 * len(words)
