"""Words, tags, arcs and trees in arrays, compared with the networks in PyTorch and with other company."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from extended import first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import sentence
from random_parsers import numbered_sentence

from parser.models.network_model import NetworkModel
from parser.models.settings import ParserSettings
from parser.networks.settings import NetworkSettings
from parser.runtime.kernels import instruction_sets, kernels
from parser.runtime.parser import RuntimeModel, RuntimeParser
from parser.treebank.tokens import encode_tokens
from parser.treebank.vocabulary import Vocabulary

FORMS = ["the", "The", "cat", "cats", "sleeps", "š", "überall", "a-very-long-word"]
FEATS = ["_", "Case=Nom|Number=Sing", "Number=Plur", "Case=Nom"]
NETWORKS = {
    "form": {"tag_sizes": {}},
    "columns": {"tag_sizes": {"upos": 3, "feats": 4, "lemma": 2}, "fold_case": True, "treebank_size": 3},
    "characters": {"tag_sizes": {}, "characters": {"size": 3, "filters": 4, "widths": [1, 2, 3, 4]}},
    "character LSTM": {"tag_sizes": {}, "characters": {"kind": "lstm", "size": 3, "hidden_size": 4}},
    "LSTM": {"tag_sizes": {}, "sentence_encoder": {"hidden_size": 4, "layers": 2}},
    "tags": {
        "tag_sizes": {},
        "sentence_encoder": {"hidden_size": 4},
        "tags": {"predict": ["upos", "feats", "lemma"], "layers_above": 2, "embedding_size": 3},
        "arcs": {"size": 4, "bonus": 1.0},
        "word_features": True,
    },
    "composition": {"tag_sizes": {}, "composition": True, "layers": 2},
}


def made(number, length):
    """A sentence that differs from those of other numbers."""
    random = np.random.default_rng(number)
    forms = random.choice(FORMS, length).tolist()
    one = sentence((0, *range(1, length)), forms=forms)
    return replace(one, feats=tuple(random.choice(FEATS, length).tolist()), treebank=f"bank{number % 2}")


TRAIN = [made(number, 1 + number % 7) for number in range(40)]


def model_with(name):
    network = NetworkSettings(word_size=5, token_size=6, hidden_size=7, transition_size=4, **NETWORKS[name])
    settings = ParserSettings(network=network)
    predicted = network.tags.predict
    vocabulary = Vocabulary.build(TRAIN, network.columns, (), network.fold_case, predicted)
    torch.manual_seed(0)
    built = NetworkModel.build(settings, vocabulary, torch.device("cpu"))
    for weight in built.network.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    built.network.eval()
    return built


def in_arrays(model, name=None, is_int8=False):
    weights = {name: weight.detach().numpy() for name, weight in model.network.state_dict().items()}
    labelled = model.transitions
    parts = (model.settings, model.vocabulary, labelled, weights, kernels(name))
    return RuntimeParser([RuntimeModel.of(*parts, is_int8)], labelled)


@pytest.mark.parametrize("name", NETWORKS)
def test_words_and_tags_are_those_of_the_network(name):
    """Also of words that are read again, and of words that training never saw."""
    model = model_with(name)
    parser = in_arrays(model)
    for start in (0, 5, 0):
        sentences = [
            *(made(number, 1 + number % 9) for number in range(start, start + 12)),
            numbered_sentence(1, 3),
        ]
        [words] = parser.encode(sentences)
        tokens = encode_tokens(model.vocabulary, sentences)
        with torch.inference_mode():
            encoded = model.network.encode(tokens)
        torch.testing.assert_close(torch.from_numpy(words.vectors), encoded.table[:-2], rtol=1e-4, atol=1e-5)
        for of_column, scores in zip(words.tag_scores.values(), encoded.tag_scores, strict=True):
            torch.testing.assert_close(torch.tensor(of_column), scores, rtol=1e-4, atol=1e-4)


def test_words_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr("parser.runtime.words.MAX_KEPT", 3)
    parser, fresh = in_arrays(model_with("characters")), in_arrays(model_with("characters"))
    for number in range(10):
        sentences = [made(number, 9)]
        np.testing.assert_array_equal(parser.encode(sentences)[0].vectors, fresh.encode(sentences)[0].vectors)


class NoRestrictions:
    """With them, sentences are parsed a step at a time."""

    def blocked(self, stack, front, heads, headless):
        return 0

    def choose(self, legal, words):
        return None

    def count(self, head, label):
        pass


@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_transitions_are_the_same_in_c_and_a_step_at_a_time(name, is_int8):
    sentences = [made(number, 1 + number % 9) for number in range(30)]
    parser = in_arrays(model_with(name), is_int8=is_int8)
    encoded = parser.encode(sentences)
    together, alone = (
        parser.parse(encoded, [each] * len(sentences), with_scores=True) for each in (None, NoRestrictions())
    )
    for one, other in zip(together, alone, strict=True):
        assert [*one[:2], [*one.transitions]] == [*other[:2], [*other.transitions]]
        np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize("name", ["characters", "character LSTM"])
def test_a_word_without_characters_is_read(name):
    parser, one = in_arrays(model_with(name)), sentence((0, 1, 1), forms=["a", "b", ""])
    [words] = parser.encode([one])
    [alone] = parser.encode([sentence((0,), forms=["b"])])
    np.testing.assert_array_equal(words.vectors[1], alone.vectors[0])


@pytest.mark.parametrize("kernel", [*instruction_sets(), "numpy"])
def test_an_lstm_reads_no_characters_as_an_unknown_one_and_strings_the_same_in_any_company(kernel):
    parser = in_arrays(model_with("character LSTM"), kernel)
    read = parser.models[0].encode._characters
    strings = [(), (0,), (3, 1, 2), (2,), tuple(range(8)) * 9, (1, 1)] * 7
    together = read(strings)
    np.testing.assert_array_equal(together[0], together[1])
    for string, vector in zip(strings, together, strict=True):
        np.testing.assert_array_equal(vector, read([string])[0])


def test_long_words_are_not_kept():
    parser = in_arrays(model_with("characters"))
    one = sentence((0, 1), forms=["x" * 2_000, "y"])
    np.testing.assert_array_equal(*(parser.encode([one])[0].vectors for _ in range(2)))
    assert not parser.models[0].encode._rows


MODELS = {name: model_with(name) for name in ("columns", "character LSTM", "tags", "composition")}
LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=60)


@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("kernel", first_of([*instruction_sets(), "numpy"]))
@pytest.mark.parametrize("name", MODELS)
@given(lengths=LENGTHS, seed=st.integers(0, 1000), together=st.integers(1, 60))
def test_a_sentence_gets_the_same_in_any_company(name, kernel, is_int8, lengths, seed, together):
    """Also if other sentences are parsed a step at a time, because something restricts them."""
    parser = in_arrays(MODELS[name], kernel, is_int8)
    sentences = [made(seed + number, length) for number, length in enumerate(lengths)]
    alone = [everything(parser, [one])[0] for one in sentences]
    order = np.random.default_rng(seed).permutation(len(sentences))
    for start in range(0, len(order), together):
        numbers = order[start : start + together]
        restrictions = [NoRestrictions() if number % 3 == 0 else None for number in numbers]
        found = everything(parser, [sentences[number] for number in numbers], restrictions)
        assert found == [alone[number] for number in numbers]


def everything(parser, sentences, restrictions=None):
    """What is computed of each sentence: vectors, tags, arcs, heads, labels and scores, as bytes."""
    encoded = parser.encode(sentences)
    [words] = encoded
    starts = np.cumsum([0, *words.lengths])
    steps = parser.parse(encoded, restrictions or [None] * len(sentences), with_scores=True)
    scorer = parser.models[0].arcs
    arcs = scorer(words.vectors, words.lengths, 10) if scorer else [None] * len(sentences)
    return [
        (
            words.vectors[start:end].tobytes(),
            [scores[start:end].tobytes() for scores in words.tag_scores.values()],
            [each.tobytes() for each in of_arcs] if of_arcs else None,
            (*taken[:2], list(taken.transitions), taken.scores.tobytes()),
        )
        for start, end, of_arcs, taken in zip(starts, starts[1:], arcs, steps, strict=False)
    ]


@pytest.mark.parametrize("name", MODELS)
def test_all_instructions_give_the_same_bits_of_rounded_products(name):
    sentences = [made(number, 1 + number % 11) for number in range(30)]
    first, *others = (
        everything(in_arrays(MODELS[name], kernel, is_int8=True), sentences)
        for kernel in [*instruction_sets(), "numpy"]
    )
    for other in others:
        for one, another in zip(first, other, strict=True):
            assert one[3][:3] == another[3][:3]
