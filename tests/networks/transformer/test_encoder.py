from itertools import chain

import pytest
import torch
from extended import first_of
from simulated_cuda.device import SimulatedCuda
from small_transformers import KINDS, make_transformer, tokens_of
from torch.nn.attention import SDPBackend, sdpa_kernel

from parser.networks.settings import TransformerSettings
from parser.networks.transformer.encoder import TransformerEncoder
from parser.networks.transformer.pretrained import read_pretrained
from parser.networks.transformer.weights import layers_above, weights_without_adapters
from parser.treebank.tokens import Tokens

SENTENCES = [
    ["the", "cats", "slept", "!"],
    ["Don't", "\u200b", "12 000", "unbelievable", "mats", "wake"],
    ["sleep"],
    ["the", "cat", "sat", "on"] * 20,
]


def encoder_of(folder, **settings):
    torch.manual_seed(1)
    encoder = TransformerEncoder(
        TransformerSettings.model_validate({"model": str(folder), "layers": 2, **settings}),
        read_pretrained(str(folder)),
    )
    with torch.no_grad():
        encoder.mix.copy_(torch.tensor([0.3, -0.4]))
        encoder.scale.fill_(1.5)
        for name, weight in encoder.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    return encoder.double()


def plain_vectors(encoder, sentence):
    """[words, size] vectors of one sentence that fits: without padding, windows and batches."""
    tokenizer, settings = encoder.tokenizer, encoder.settings
    divided = tokenizer.pieces(sentence)
    ids = torch.tensor([[*tokenizer.before, *chain.from_iterable(divided), *tokenizer.after]])
    states = encoder.model(input_ids=ids, output_hidden_states=True).hidden_states[-settings.layers :]
    weights = encoder.mix.exp() / encoder.mix.exp().sum()
    mixed = encoder.scale * sum(weight * state[0] for weight, state in zip(weights, states, strict=True))
    vectors, place = [], len(tokenizer.before)
    for own in divided:
        of_word = mixed[place : place + len(own)]
        pooled = {"mean": of_word.mean(0), "first": of_word[0], "last": of_word[-1]}
        vectors.append(pooled[settings.pooling])
        place += len(own)
    return torch.stack(vectors)


@pytest.mark.parametrize("train", first_of(["lora", "all"]))
@pytest.mark.parametrize("pooling", first_of(["mean", "first", "last"]))
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_and_gradients_are_those_of_a_loop_over_sentences(kind, pooling, train, tmp_path):
    encoder = encoder_of(make_transformer(tmp_path, kind), pooling=pooling, train=train).eval()
    sentences = SENTENCES[:3]
    results = []
    for vectors in (
        encoder(tokens_of(encoder, sentences)),
        torch.cat([plain_vectors(encoder, sentence) for sentence in sentences]),
    ):
        encoder.zero_grad()
        (vectors * torch.arange(vectors.numel()).view(vectors.shape).cos()).sum().backward()
        gradients = [weight.grad for weight in encoder.parameters() if weight.grad is not None]
        results.append([vectors.detach(), *gradients])
    assert len(results[0]) == len(results[1]) > 10
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", first_of(KINDS))
def test_a_gpu_reads_padded_windows_and_a_cpu_packed_ones(kind, tmp_path):
    """They give the same vectors and gradients."""
    folder, results = make_transformer(tmp_path, kind), []
    with SimulatedCuda() as cuda, sdpa_kernel(SDPBackend.MATH):  # which a GPU has, too
        for device in ("cpu", cuda.name):
            encoder = encoder_of(folder, train="all").eval().to(device)
            vectors = encoder(tokens_of(encoder, SENTENCES).to(torch.device(device)))
            vectors.sin().sum().backward()
            gradients = [weight.grad for weight in encoder.parameters() if weight.grad is not None]
            results.append([each.detach().cpu() for each in (vectors, *gradients)])
    assert len(results[0]) > 10
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-9)


def test_checkpointing_changes_no_gradient(tmp_path):
    folder, gradients = make_transformer(tmp_path), []
    for checkpointing in (False, True):
        encoder = encoder_of(folder, train="all", gradient_checkpointing=checkpointing)
        runs = []
        encoder.model.encoder.layer[0].attention.register_forward_hook(lambda *_, runs=runs: runs.append(1))
        torch.manual_seed(3)
        tokens = tokens_of(encoder, SENTENCES)
        encoder.train()(tokens).square().sum().backward()
        assert len(runs) == (2 if checkpointing else 1)
        gradients.append({name: weight.grad for name, weight in encoder.named_parameters()})
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", first_of(KINDS))
def test_a_long_sentence_is_read_in_windows_that_change_nothing_of_short_ones(kind, tmp_path):
    encoder = encoder_of(make_transformer(tmp_path, kind), train="lora").eval()
    with torch.no_grad():
        together = encoder(tokens_of(encoder, SENTENCES))
        alone = torch.cat([encoder(tokens_of(encoder, [sentence])) for sentence in SENTENCES])
        many = encoder(tokens_of(encoder, [["cat"] * 1000]))
    torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-9)
    assert many.shape == (1000, encoder.size)
    # Far from the ends, all words are in the middle of windows of equal words.
    assert len(many[100:900].round(decimals=6).unique(dim=0)) < 100


def test_vectors_of_a_frozen_transformer_are_the_same_from_a_table(tmp_path):
    encoder = encoder_of(make_transformer(tmp_path), dropout=0.5).eval()
    tokens = tokens_of(encoder, SENTENCES)
    table = encoder.train().layers_of(tokens)  # without dropout
    assert table.dtype == torch.float16
    kept = Tokens(tokens.numbers, vectors=table)
    assert torch.equal(encoder.eval()(tokens), encoder(kept))
    rows = torch.tensor([2, 0])
    torch.testing.assert_close(encoder(tokens.select(rows)), encoder(kept.select(rows)), rtol=0, atol=1e-3)


def test_only_trained_weights_are_in_the_state(tmp_path):
    folder = make_transformer(tmp_path)
    counts = {}
    for train in ("frozen", "lora", "all"):
        encoder = encoder_of(folder, train=train)
        names = set(encoder.state_dict())
        trained = {name for name, weight in encoder.named_parameters() if weight.requires_grad}
        assert names == trained
        counts[train] = len(names)
        other = encoder_of(folder, train=train)
        other.load_state_dict(encoder.state_dict())
        library = read_pretrained(str(folder)).weights
        assert encoder.frozen_weights().keys() == (set() if train == "all" else library.keys())
    assert counts["frozen"] == 2 < counts["lora"] < counts["all"]


def test_layers_learn_the_slower_the_lower_they_are(tmp_path):
    encoder = encoder_of(make_transformer(tmp_path), train="all", learning_rate=1e-3, layer_decay=0.5)
    rates = {}
    for name, weight in encoder.model.named_parameters():
        rates.setdefault(round(encoder.learning_rates()[weight], 9), []).append(name)
    layers = {
        rate: {name.split(".")[2] if "layer." in name else "" for name in own} for rate, own in rates.items()
    }
    assert layers == {1e-3: {"2"}, 5e-4: {"1"}, 2.5e-4: {"0"}, 1.25e-4: {""}}


LAYERS = {
    **{"layers.2.mlp.weight": 0, "layers.0.norm.weight": 2, "final_norm.weight": 0},
    **{"encoder.LayerNorm.bias": 0, "embeddings.norm.weight": 3, "embeddings.tok_embeddings.weight": 3},
}


def test_weights_without_a_layer_stand_below_or_above_all_layers():
    assert {name: layers_above(name, 3) for name in LAYERS} == LAYERS


@pytest.mark.parametrize(("mode", "shared"), [("frozen", True), ("lora", True), ("all", False)])
def test_weights_that_are_not_trained_are_in_memory_once(mode, shared, tmp_path):
    pretrained = read_pretrained(str(make_transformer(tmp_path)))
    settings = TransformerSettings.model_validate({"model": str(tmp_path), "layers": 2, "train": mode})
    own = weights_without_adapters(TransformerEncoder(settings, pretrained).model)
    for name, weight in pretrained.weights.items():
        assert (own[name].data_ptr() == weight.data_ptr()) is shared


def test_what_half_precision_can_not_hold_is_its_largest_number(tmp_path):
    """This holds for text that is parsed; in training it is an error."""
    encoder = encoder_of(make_transformer(tmp_path), train="frozen")
    with torch.no_grad():
        encoder.model.encoder.layer[2].output.LayerNorm.weight.mul_(1e6)
    vectors = encoder(tokens_of(encoder, SENTENCES))
    assert vectors.isfinite().all()
    assert vectors.abs().max() > 1e4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 4}, "layers: 4, and the transformer has 3"),
        ({"max_pieces": 2}, "max_pieces: at least 3 are needed"),
    ],
)
def test_settings_that_do_not_suit_the_transformer_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        encoder_of(make_transformer(tmp_path), **settings)
