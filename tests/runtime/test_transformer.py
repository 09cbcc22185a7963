"""The vectors of transformers in arrays, compared with the library in PyTorch and with other company."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from extended import examples, first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import sentence
from small_transformers import VARIANTS, make_transformer, tokens_of

from parser.networks.settings import TransformerSettings
from parser.networks.transformer.architecture import (
    PREFIX,
    Disentangled,
    NeedsPyTorchError,
    architecture_of,
)
from parser.networks.transformer.encoder import TransformerEncoder
from parser.networks.transformer.pretrained import read_pretrained
from parser.networks.transformer.tokenizer import PieceTokenizer
from parser.runtime.kernels import instruction_sets, kernels
from parser.runtime.reference import NumPyKernels
from parser.runtime.transformer import TransformerVectors
from parser.runtime.transformer_layers import deberta_buckets, mpnet_buckets

WORDS = ["the", "cats", "unbelievable", "12 000", "naïve", "Don't", "!", "mat", "\u200b", "\ud800"]
FORMS = [
    ["the", "cats", "slept", "!"],
    ["Don't", "\u200b", "12 000", "unbelievable", "mats", "wake"],
    ["sleep"],
    ["the", "cat", "sat", "on"] * 20,
    ["x" * 3000, "the", "cat"],
]
DISTANCES = np.arange(-3000, 3001)


def sentences_of(forms):
    return [sentence((0, *range(1, len(words))), forms=words) for words in forms]


def encoder_of(folder, **settings):
    """An encoder with random weights everywhere, also where the library begins with zeros or ones."""
    torch.manual_seed(1)
    pretrained = read_pretrained(str(folder))
    weights = {name: torch.randn(weight.shape) / 2 for name, weight in pretrained.weights.items()}
    encoder = TransformerEncoder(
        TransformerSettings.model_validate({"model": str(folder), "layers": 2, **settings}),
        replace(pretrained, weights=weights),
    )
    for name, weight in encoder.named_parameters():
        if settings.get("train") == "all" or "lora_" in name or name in ("mix", "scale"):
            torch.nn.init.normal_(weight, std=0.5)
    return encoder.eval()


def parts_of(encoder):
    """What the files of a model contain."""
    frozen, weights = (
        {name: weight.detach().numpy() for name, weight in of_file.items()}
        for of_file in (encoder.frozen_weights(), encoder.state_dict())
    )
    architecture = architecture_of(json.loads(encoder.pretrained.config))
    tokenizer = PieceTokenizer(encoder.pretrained.tokenizer)
    named = {f"{PREFIX}{name}": weight for name, weight in weights.items()}
    return encoder.settings, architecture, tokenizer, frozen, named


def in_arrays(encoder, name=None, is_int8=False):
    return TransformerVectors(*parts_of(encoder), kernels(name), is_int8)


def by_pytorch(encoder, forms):
    with torch.inference_mode():
        return encoder(tokens_of(encoder, forms)).numpy()


def assert_near(found, expected, is_frozen=False):
    """Layers of a frozen transformer are rounded to half precision: rarely, that differs by a place."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-3 if is_frozen else 2e-4)
    assert np.mean(abs(found - expected)) < 2e-5


@pytest.mark.parametrize("pooling", first_of(["mean", "first", "last"]))
@pytest.mark.parametrize("train", first_of(["lora", "all", "frozen"]))
@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_and_shapes_are_those_of_the_library(variant, train, pooling, tmp_path):
    encoder = encoder_of(make_transformer(tmp_path, variant), train=train, pooling=pooling)
    found = in_arrays(encoder)(sentences_of(FORMS))
    assert found.dtype == np.float32
    assert_near(found, by_pytorch(encoder, FORMS), train == "frozen")
    settings, architecture, _, frozen, weights = parts_of(encoder)
    for wanted, held in (
        (architecture.frozen_shapes(settings), frozen),
        (architecture.trained_shapes(settings), weights),
    ):
        assert wanted == {name: weight.shape for name, weight in held.items()}


@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("name", [*instruction_sets(), NumPyKernels.name])
@pytest.mark.parametrize("variant", first_of(["bert", "deberta-v2", "modernbert", "mpnet"]))
def test_vectors_do_not_depend_on_other_sentences(variant, name, is_int8, tmp_path):
    vectors = in_arrays(encoder_of(make_transformer(tmp_path, variant), train="all"), name, is_int8)

    @examples(10)
    @given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), min_size=1, max_size=40))
    def check(forms):
        sentences = sentences_of(forms)
        alone = [vectors([each]) for each in sentences]
        np.testing.assert_array_equal(vectors(sentences), np.concatenate(alone))

    check()


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=60), st.integers(3, 20))
@examples(20)
def test_long_sentences_are_read_in_the_same_windows(tmp_path_factory, words, most):
    encoder = encoder_of(
        make_transformer(tmp_path_factory.mktemp("transformer")), train="all", max_pieces=most
    )
    assert_near(in_arrays(encoder)(sentences_of([words])), by_pytorch(encoder, [words]))


def test_long_windows_are_read_in_parts(tmp_path, monkeypatch):
    for variant in ("deberta-v2", "modernbert"):
        encoder = encoder_of(make_transformer(tmp_path / variant, variant), train="all")
        vectors, sentences = in_arrays(encoder), sentences_of(FORMS)
        whole = vectors(sentences)
        with monkeypatch.context() as patch:
            patch.setattr("parser.runtime.transformer_layers.MOST_SCORES", 100)
            assert_near(vectors(sentences), whole)


def test_rounded_products_are_near_exact_ones(tmp_path):
    encoder = encoder_of(make_transformer(tmp_path, hidden_size=64, intermediate_size=128), train="all")
    sentences = sentences_of(FORMS)
    rounded, exact = (in_arrays(encoder, is_int8=is_int8)(sentences) for is_int8 in (True, False))
    assert 0 < np.linalg.norm(rounded - exact) < 0.1 * np.linalg.norm(exact)


def test_what_half_precision_can_not_hold_is_its_largest_number(tmp_path):
    encoder = encoder_of(make_transformer(tmp_path), train="frozen")
    with torch.no_grad():
        encoder.model.encoder.layer[2].output.LayerNorm.weight.mul_(1e6)
    found, expected = in_arrays(encoder)(sentences_of(FORMS)), by_pytorch(encoder, FORMS)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_distances_are_in_the_buckets_of_the_library():
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    expected = MPNetEncoder.relative_position_bucket(torch.tensor(-DISTANCES))
    np.testing.assert_array_equal(mpnet_buckets(DISTANCES), expected)
    for buckets, furthest in ((256, 512), (6, 44), (32, 512), (4, 5)):
        expected = make_log_bucket_position(torch.tensor(DISTANCES), buckets, furthest).long()
        settings = Disentangled(buckets, buckets, furthest, "", "", is_normalized=False)
        np.testing.assert_array_equal(deberta_buckets(DISTANCES, settings), expected)


BROKEN = {
    "no keys and values": [],
    "code of its own": {"auto_map": {}},
    "model_type is 'gpt2'": {"model_type": "gpt2"},
    "hidden_size is None": {"hidden_size": None},
    "hidden_size is 9999999999": {"hidden_size": 9999999999},
    "vocab_size is True": {"vocab_size": True},
    "201 layers": {"num_hidden_layers": 201},
    "no multiple of the number of its heads, 3": {"num_attention_heads": 3},
    "layer_norm_eps is nan": {"layer_norm_eps": float("nan")},
    "layer_norm_eps is 'x'": {"layer_norm_eps": "x"},
    "max_position_embeddings is -1": {"max_position_embeddings": -1},
}
ROTATION = {"rope_type": "default", "rope_theta": float("inf")}
OF_OTHERS = {
    "modernbert": {
        "local_attention is '1'": {"local_attention": "1"},
        "layer_types of 3 layers": {"layer_types": ["full_attention"]},
        "rope_theta is inf": {"rope_parameters": {"full_attention": ROTATION}},
    },
    "deberta-v2": {
        "position_buckets": {"position_buckets": 2},
        "max_relative_positions": {"max_relative_positions": 10**9},
    },
    "albert": {
        "3 layers in 9 groups": {"num_hidden_groups": 9},
        "groups of 100": {"inner_group_num": 100},
    },
}


@pytest.mark.parametrize(
    ("variant", "message", "change"),
    [
        (variant, message, change)
        for variant, broken in {"bert": BROKEN, **OF_OTHERS}.items()
        for message, change in broken.items()
    ],
)
def test_broken_configs_are_refused(variant, message, change, tmp_path):
    config = json.loads(read_pretrained(str(make_transformer(tmp_path, variant))).config)
    with pytest.raises(ValueError, match=message):
        architecture_of(config | change if isinstance(change, dict) else change)


@pytest.mark.parametrize(
    ("variant", "change"),
    [
        ("bert", {"hidden_act": "mish"}),
        ("bert", {"hidden_act": ["gelu"]}),
        ("deberta-v2", {"conv_kernel_size": 3}),
        ("deberta-v2", {"attention_head_size": 3}),
        ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}),
    ],
)
def test_what_only_pytorch_computes_is_told(variant, change, tmp_path):
    config = json.loads(read_pretrained(str(make_transformer(tmp_path, variant))).config)
    with pytest.raises(NeedsPyTorchError, match=next(iter(change)).removesuffix("_parameters")):
        architecture_of(config | change)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 4}, "layers: 4, and the transformer has 3"),
        ({"max_pieces": 2}, "max_pieces: at least 3 are needed"),
    ],
)
def test_settings_that_do_not_suit_the_transformer_are_refused(settings, message, tmp_path):
    parts = parts_of(encoder_of(make_transformer(tmp_path)))
    other = parts[0].model_copy(update=settings)
    with pytest.raises(ValueError, match=message):
        TransformerVectors(other, *parts[1:], kernels(), is_int8=False)


def test_a_tokenizer_of_another_transformer_is_refused(tmp_path):
    parts = list(parts_of(encoder_of(make_transformer(tmp_path / "one"))))
    parts[2] = parts_of(encoder_of(make_transformer(tmp_path / "other", "roberta")))[2]
    with pytest.raises(ValueError, match="they are not of one model"):
        TransformerVectors(*parts, kernels(), is_int8=False)
