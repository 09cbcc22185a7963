"""The parser as the speed harness measures it."""

import math
from dataclasses import fields, replace

import plugin_setups
import pytest
import torch
from extended import first_of
from plugin_setups import with_settings
from torch.utils.flop_counter import FlopCounterMode

from parser.models.settings import ParserSettings
from parser.networks.loss import transition_loss
from parser.networks.settings import (
    ConvolutionSettings,
    NetworkSettings,
    SentenceEncoderSettings,
    TagSettings,
)
from parser.speed.tasks.conformance import faults_of
from parser.speed.tasks.stack_parser.stack_parser_plugin import (
    StackParserPlugin,
    replay_operations,
)

NETWORK = NetworkSettings(
    word_size=5, tag_sizes={"upos": 3}, token_size=6, hidden_size=8, layers=2, transition_size=4
)


Small = with_settings(
    StackParserPlugin, treebank="data/quickstart/dev.conllu", parser=ParserSettings(network=NETWORK)
)


RICH = NETWORK.model_copy(
    update={
        "composition": True,
        "word_features": True,
        "characters": ConvolutionSettings(size=4, filters=3),
        "sentence_encoder": SentenceEncoderSettings(hidden_size=5, layers=2),
    }
)


TAGGED = RICH.model_copy(
    update={"tag_sizes": {}, "tags": TagSettings(predict=("upos", "lemma"), layers_above=1, embedding_size=3)}
)


def setup_of(method="replay", mode="train", device="cpu", network=NETWORK):
    parser = ParserSettings(network=network)
    return plugin_setups.setup_of(Small, method, mode, 8, device, parser=parser)


def prepared(*args, **kwargs):
    plugin, setup = Small(), setup_of(*args, **kwargs)
    assert plugin.skip(setup) is None
    plugin.prepare(setup)
    return plugin


class Short(Small):
    """The same with a fiftieth of the sentences."""

    def prepare(self, setup):
        super().prepare(setup)
        parts = self.parts
        parts.examples = chosen(parts.examples, torch.arange(0, len(parts.examples), 50))
        self._operations = replay_operations(parts.examples, parts.model.network)


def chosen(examples, rows):
    parts = {field.name: getattr(examples, field.name) for field in fields(examples)}
    none = ("inventory", "soft_targets", "soft_heads", "facts")  # no teacher, and complete trees
    return replace(examples, **{name: part.select(rows) for name, part in parts.items() if name not in none})


@pytest.mark.extended
@pytest.mark.parametrize("method", ["none", "step-naive", "step"])
def test_every_method_learns_tags(method):
    network = NETWORK.model_copy(update={"tag_sizes": {}, "tags": TagSettings(predict=("upos",))})
    expected = prepared("replay", network=network).check()
    plugin, encoded = prepared(method, network=network), []
    plugin.parts.model.network.tokens.register_forward_hook(lambda *_: encoded.append(1))
    torch.testing.assert_close(plugin.check(), expected, rtol=2e-4, atol=2e-4)
    checked = setup_of().checked
    assert len(encoded) == (checked if method == "none" else -(-checked // 8))  # once for each microbatch


@pytest.mark.extended
def test_it_does_all_that_a_plugin_must():
    assert faults_of(Short) == []


def set_doubles(network, weights):
    network.load_state_dict(weights)
    network.double()


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_every_method_gives_the_cpus_results_on_the_device(mode, device, monkeypatch):
    if mode == "infer" and device.type == "cuda":
        # Rounding could change a tree, so all parse with the weights trained on the CPU, in doubles.
        weights = prepared("none", mode).parts.model.network.state_dict()
        monkeypatch.setattr(Small, "_train", lambda plugin: set_doubles(plugin.parts.model.network, weights))
    expected = prepared("none", mode).check()
    methods = [each for each in Small.methods[mode] if not Small().skip(setup_of(each, mode, device=device))]
    assert len(methods) >= 3
    for method in methods:
        found = prepared(method, mode, device=device).check().cpu()
        torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_training_step_clips_the_gradients_of_the_mean_loss(scale):
    plugin = prepared()
    network, inventory = plugin.parts.model.network, plugin.parts.model.inventory
    with torch.no_grad():
        network.scores.weight *= scale  # so that some gradients are above the limit
    rows = plugin.batches()[0]
    batch = plugin.parts.examples.batch(rows)
    loss = transition_loss(network.replay(batch), batch, inventory) / len(batch.transitions)
    expected = torch.autograd.grad(loss, list(network.parameters()))
    norm = torch.cat([gradient.flatten() for gradient in expected]).norm()
    assert (norm > 5) == (scale > 1)
    before = [weight.detach().clone() for weight in network.parameters()]
    plugin.run(rows)
    for weight, gradient, was in zip(network.parameters(), expected, before, strict=True):
        clipped = gradient * min(1.0, 5 / float(norm))
        torch.testing.assert_close(weight.grad, clipped, rtol=1e-3, atol=1e-6)
        decayed = clipped + 1e-6 * was
        first_step = 1e-3 * decayed / (decayed.abs() + 1e-8)
        moved = decayed.abs() > 1e-5
        torch.testing.assert_close((was - weight.detach())[moved], first_step[moved], rtol=1e-2, atol=1e-6)


def test_what_can_not_be_measured_is_skipped():
    absent = plugin_setups.setup_of(Small, "step", treebank="no/such")
    assert Small().skip(absent) == "no treebank no/such"
    assert "composition" in Small().skip(setup_of("step-naive", network=RICH))


@pytest.mark.parametrize(
    "kind", first_of([("train", "replay"), ("train", "step"), ("infer", "step")]), ids=" ".join
)
def test_methods_agree_also_on_rich_networks(kind):
    mode, method = kind
    alone, together = (prepared(name, mode, network=RICH).check() for name in ("none", method))
    torch.testing.assert_close(together, alone, rtol=2e-4, atol=2e-4)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("network", "by_library"), [(NETWORK, 2), (RICH, 1), (TAGGED, 1)], ids=["plain", "rich", "tagged"]
)
def test_the_operations_are_those_that_replay_calls(network, by_library, monkeypatch):
    """torch counts while one sentence is replayed in double precision, in which products are torch's own.

    The BiLSTMs run by levels: PyTorch's would multiply zeros before the first word.
    """
    monkeypatch.setattr("parser.networks.bilstm.LEAST_PADDED_STEPS", math.inf)
    plugin = prepared(network=network)
    network, examples = plugin.parts.model.network.double(), plugin.parts.examples
    counted = replay_operations(examples, network)
    layers, hidden = NETWORK.layers, NETWORK.hidden_size
    # The library multiplies the zeros before the first frame, in its LSTMs.
    zeros = by_library * layers * 2 * 4 * hidden * hidden
    if "characters" in network.tokens.embeddings:
        encoder = network.tokens.embeddings["characters"]
        zeros += 2 * sum(filters.weight.numel() for filters in encoder.filters) * (encoder.outside + 1)
    for row in range(0, len(examples), 40):
        batch = examples.batch(torch.tensor([row]))
        with FlopCounterMode(display=False) as forward:
            loss = transition_loss(network.replay(batch), batch, plugin.parts.model.inventory)
        assert forward.get_total_flops() == int(counted[row]) + zeros
        with FlopCounterMode(display=False) as backward:
            loss.backward()
        assert 2 * int(counted[row]) <= backward.get_total_flops()
        assert backward.get_total_flops() <= 2 * (int(counted[row]) + zeros)


def test_work_counts_the_batch():
    plugin = prepared()
    batch = plugin.batches()[0]
    work = plugin.work(batch)
    assert work.sentences == len(batch)
    assert work.tokens == int(plugin.parts.examples.tokens.lengths[batch].sum())
    assert work.operations == 3 * float(plugin._operations[batch].sum())
    assert prepared("step", mode="infer").work(batch).operations == float(plugin._operations[batch].sum())


def test_padding_is_what_the_lstms_compute_for_nobody():
    plugin = prepared("step")
    lengths = plugin.parts.examples.tokens.lengths
    short, long = int(lengths.argmin()), int(lengths.argmax())
    pair = torch.tensor([short, long])
    few, many = int(lengths[short]), int(lengths[long])
    # Arc-hybrid: n + 1 stack nodes, n + 1 buffer frames and 2 n transitions.
    needed = sum(2 * (n + 1) + 2 * n for n in (few, many))
    assert plugin.work(pair).padding == pytest.approx(1 - needed / (2 * (2 * many + (many + 1) + 2 * many)))
    replayed = prepared("replay").work(pair).padding
    assert replayed == pytest.approx(1 - needed / (few + many + 2 + 2 * (many + 1) + 2 * 2 * many))
    assert prepared("none").work(pair).padding == 0
    assert prepared("step", "infer").work(pair).padding is None
