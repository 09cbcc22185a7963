"""The vectors of words: columns, characters and sentence encoders."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from parser.batching.ragged import Ragged
from parser.networks import bilstm as module
from parser.networks.bilstm import bilstm, bilstm_by_levels, bilstm_packed, bilstm_padded, run_bilstm
from parser.networks.character_encoder import CharacterEncoder, segment_max
from parser.networks.character_lstm import CharacterLSTM
from parser.networks.settings import CharacterLSTMSettings, ConvolutionSettings, NetworkSettings
from parser.networks.token_encoder import TokenEncoder, dropout_of_embeddings
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import PRETRAINED


def tokens(rows):
    """The tokens of one sentence."""
    return Tokens(Ragged(torch.tensor(rows), torch.tensor([len(rows)])))


@pytest.mark.parametrize("is_trained", [False, True])
def test_pretrained_vectors_are_trained_if_asked(is_trained):
    vectors, settings = torch.randn(3, 5), NetworkSettings(train_pretrained=is_trained)
    encoder = TokenEncoder(settings, {"form": 7, "upos": 4, PRETRAINED: 4}, vectors)
    weight = encoder.embeddings[PRETRAINED].weight
    assert torch.equal(weight[1:].detach(), vectors)
    assert is_trained or not weight[0].any()
    encoder(tokens([[1, 2, 3]])).sum().backward()
    assert (weight.requires_grad, weight.grad is not None) == (is_trained, is_trained)
    assert not is_trained or weight.grad[3].any()


def test_root_and_end_come_after_the_words():
    encoder = TokenEncoder(NetworkSettings(token_size=9), {"form": 7, "upos": 4})
    table = encoder.table(encoder(tokens([[1, 2], [3, 1], [0, 0]])))
    assert table.shape == (5, 9)
    assert torch.equal(table[3], encoder.root)
    assert torch.equal(table[4], encoder.end)


def test_embeddings_are_dropped_in_training_alone():
    settings = NetworkSettings(embedding_dropout=0.5)
    encoder, words = TokenEncoder(settings, {"form": 7, "upos": 4}), tokens([[1, 2]] * 200)
    assert len(encoder(words).unique(dim=0)) == 4  # both embeddings, one of them, none
    assert len(encoder.eval()(words).unique(dim=0)) == 1


@pytest.mark.parametrize("rows", [[[3, 1, 2]], [[5], [1, 1, 4], [5]], [[2]] * 3])
def test_segment_max_and_its_gradient(rows):
    """Equal maxima share the gradient, as in `torch.amax`."""
    ragged = Ragged.of([torch.tensor(row) for row in rows])
    values = ragged.values.double()[:, None].repeat(1, 2).requires_grad_()
    maxima = segment_max(values, ragged)
    expected = torch.stack([own.amax(0) for own in values.split(ragged.lengths.tolist())])
    assert torch.equal(maxima, expected)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad((out * weights).sum(), values)[0] for out in (maxima, expected)]
    torch.testing.assert_close(*gradients)


CONVOLUTION = ConvolutionSettings(size=4, filters=5, widths=(2, 3, 5))
LSTM = CharacterLSTMSettings(kind="lstm", size=4, hidden_size=3)


def on(device, strings):
    return Ragged.of(strings).map(lambda tensor: tensor.to(device))


@pytest.mark.parametrize(("kind", "settings"), [(CharacterEncoder, CONVOLUTION), (CharacterLSTM, LSTM)])
@pytest.mark.parametrize("strings", [[1, 7, 2, 1], range(1, 100)])
def test_characters_of_other_words_do_not_matter(kind, settings, strings, device):
    encoder = kind(settings, 9).double().to(device)
    strings = [torch.randint(9, (length,)) for length in strings]
    together = encoder(on(device, strings))
    alone = torch.cat([encoder(on(device, [string])) for string in strings])
    assert together.shape == (len(strings), settings.vector_size)
    torch.testing.assert_close(together, alone)


def test_the_last_states_of_both_directions_and_their_gradients_are_those_of_single_strings(device):
    encoder = CharacterLSTM(LSTM, 9).double().to(device)
    strings = [torch.randint(9, (length,)) for length in (3, 1, 8, 3, 2)]
    expected = []
    for string in strings:
        vectors = encoder.embedding.weight[string.to(device)]
        forwards, _ = encoder.lstm(vectors)
        expected.append(torch.cat([forwards[-1, :3], forwards[0, 3:]]))
    found, expected = encoder(on(device, strings)), torch.stack(expected)
    torch.testing.assert_close(found, expected)
    weights = [weight for weight in encoder.parameters() if weight.requires_grad]
    mixture = torch.randn_like(expected)
    torch.testing.assert_close(
        *(torch.autograd.grad((vectors * mixture).sum(), weights) for vectors in (found, expected))
    )


def test_the_same_characters_lose_the_same_values_in_a_batch():
    encoder = CharacterLSTM(LSTM.model_copy(update={"dropout": 0.5}), 9)
    string = torch.tensor([1, 2, 3])
    one, other = encoder(Ragged.of([string, string]))
    torch.testing.assert_close(one, other)
    assert not torch.allclose(one, encoder.eval()(Ragged.of([string]))[0])


def packed(frames):
    def run(*given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MAX_PADDED_FRAMES", frames)
            return bilstm_packed(*given)

    return run


RUNS = {
    **{f"packed, {frames} frames": packed(frames) for frames in (1, 10, 1000)},
    **{"by levels": bilstm_by_levels, "padded": bilstm_padded},
    **{"padded in pairs": partial(bilstm_padded, together=2), "by the faster way": run_bilstm},
}


@pytest.mark.parametrize("lengths", [[3, 1, 5, 5, 2, 1], [4], [12, 9]])
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_batched_sequences_give_the_results_of_single_ones(run, lengths, device):
    """States and gradients of a batch equal those of each sequence alone, by `torch.nn.LSTM`."""
    lstm = bilstm(4, 3, layers=2).double().to(device)
    inputs = torch.randn(sum(lengths), 4, dtype=torch.double, device=device, requires_grad=True)
    mixture = torch.randn(sum(lengths), 6, dtype=torch.double, device=device)
    weights = [inputs, *(weight for weight in lstm.parameters() if weight.requires_grad)]
    alone = torch.cat([lstm(own)[0] for own in inputs.split(lengths)])
    expected = torch.autograd.grad((alone * mixture).sum(), weights)
    states = run(lstm, inputs, lengths)
    torch.testing.assert_close(states, alone, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(torch.autograd.grad((states * mixture).sum(), weights), expected)


@pytest.mark.parametrize(
    ("lengths", "precision", "way"),
    [
        ([9, 8, 8, 9], "float32", "bilstm_padded"),
        ([8, 2, 1], "float32", "bilstm_padded"),
        ([7, 7], "float32", "bilstm_by_levels"),
        ([9, *[1] * 400], "float32", "bilstm_by_levels"),
        ([9, 8, 8, 9], "bfloat16", "bilstm_by_levels"),
    ],
)
def test_training_on_a_cpu_pads_long_sequences_of_similar_lengths(lengths, precision, way, monkeypatch):
    monkeypatch.setattr(module, "present_precision", lambda: precision)
    taken = []
    for name in ("bilstm_padded", "bilstm_by_levels"):
        monkeypatch.setattr(module, name, lambda *_, name=name: taken.append(name))
    run_bilstm(bilstm(4, 3, layers=1), torch.randn(sum(lengths), 4), lengths)
    assert taken == [way]


def test_dropout_is_between_the_layers_only():
    """The padded layers drop the same values as layers by levels, and a single layer drops nothing."""
    inputs, found = torch.randn(18, 4), []
    single, double = (bilstm(4, 3, layers) for layers in (1, 2))
    single.dropout = double.dropout = 0.5
    for run in (bilstm_padded, bilstm_by_levels):
        torch.manual_seed(0)
        found.append(run(double, inputs, [9, 9]))
        torch.testing.assert_close(run(single, inputs, [9, 9]), run(single.eval(), inputs, [9, 9]))
        single.train()
    torch.testing.assert_close(*found)
    assert not torch.allclose(found[0], bilstm_padded(double.eval(), inputs, [9, 9]))


def test_whole_embeddings_are_dropped_and_the_others_scaled_up(device):
    parts = [torch.ones(20_000, size, device=device) for size in (2, 5, 3)]
    found = dropout_of_embeddings(parts, 0.25, training=True)
    firsts = torch.stack([part[:, 0] for part in found])  # [columns, words]
    for part, first in zip(found, firsts, strict=True):
        assert torch.equal(part, first[:, None].expand_as(part))
    assert (firsts == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    sums = firsts.sum(0)
    assert set(sums.round(decimals=4).tolist()) == {0.0, 3.0}  # 0 if all are dropped
    assert (sums == 0).float().mean().item() == pytest.approx(0.25**3, abs=0.005)
    assert dropout_of_embeddings(parts, 0.25, training=False) is parts
    assert dropout_of_embeddings(parts[:1], 0.25, training=True) == parts[:1]
