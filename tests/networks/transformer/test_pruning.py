"""A transformer without the pieces of other scripts."""

import json
from dataclasses import replace
from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_transformers import POSITIONS, TEXT, make_transformer, tokenizers, tokens_of

from parser.networks.settings import TransformerSettings
from parser.networks.transformer.encoder import TransformerEncoder
from parser.networks.transformer.pretrained import read_pretrained
from parser.networks.transformer.pruning import pruned
from parser.networks.transformer.tokenizer import PieceTokenizer

GREEK = ["η γάτα κοιμάται στο χαλί", "τέσσερις γάτες κοιμούνται εδώ"] * 3
WORDS = list(dict.fromkeys(" ".join(TEXT).split()))
KNOWN = sorted({*"".join(WORDS).lower(), *"".join(WORDS).upper(), *"0129!?-"})


def strings(content, words):
    """The pieces of each word as strings."""
    library = tokenizers.Tokenizer.from_str(content)
    return [[library.id_to_token(number) for number in own] for own in PieceTokenizer(content).pieces(words)]


@pytest.fixture(scope="module", params=["bert", "xlm-roberta", "modernbert"])
def whole(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return read_pretrained(str(make_transformer(folder, request.param, text=[*TEXT, *GREEK])))


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(st.sampled_from(KNOWN), min_size=1)), min_size=1))
def test_words_of_known_characters_are_divided_as_before(whole, words):
    assert strings(pruned(whole, WORDS).tokenizer, words) == strings(whole.tokenizer, words)


def test_pieces_of_other_characters_are_gone_and_vectors_are_the_same(whole):
    smaller = pruned(whole, WORDS)
    before, after = (tokenizers.Tokenizer.from_str(each.tokenizer).get_vocab() for each in (whole, smaller))
    gone = before.keys() - after.keys()
    assert gone
    assert all(set("".join(GREEK)) & set(piece) for piece in gone)
    assert sorted(after.values()) == list(range(len(after)))
    assert json.loads(smaller.config)["vocab_size"] == len(after)
    sentences = [text.split() for text in TEXT]
    settings = TransformerSettings(model="", layers=2)
    found = []
    for each in (whole, smaller):
        encoder = TransformerEncoder(settings, each).eval()
        assert len(encoder.tokenizer.before) == len(encoder.tokenizer.after) == 1
        with torch.no_grad():
            found.append(encoder(tokens_of(encoder, sentences)))
    torch.testing.assert_close(*found, rtol=0, atol=0)
    assert len(found[0]) == len(list(chain.from_iterable(sentences)))


@pytest.mark.parametrize("end", ["sep", "cls"])
def test_special_pieces_in_other_forms_are_renumbered(tmp_path, end):
    whole = read_pretrained(str(make_transformer(tmp_path, "bert", text=[*GREEK, *TEXT])))
    content = json.loads(whole.tokenizer)
    vocabulary = content["model"]["vocab"]
    # A special piece that follows those that are left out.
    content["added_tokens"].append({**content["added_tokens"][0], "id": len(vocabulary), "content": "[NEW]"})
    ends = {"sep": ["[SEP]", vocabulary["[SEP]"]], "cls": ["[CLS]", vocabulary["[CLS]"]]}
    ends[end] = ["[NEW]", len(vocabulary)]
    of_bert = {"type": "BertProcessing", **ends}
    content["post_processor"] = {"type": "Sequence", "processors": [of_bert]}
    weights = dict(whole.weights)
    name = "embeddings.word_embeddings.weight"
    weights[name] = torch.cat([weights[name], torch.ones(1, weights[name].shape[1])])
    config = {**json.loads(whole.config), "vocab_size": len(vocabulary) + 1}
    more = type(whole)(json.dumps(config), json.dumps(content), weights)
    smaller = pruned(more, WORDS)
    assert len(smaller.weights[name]) < len(weights[name])
    pieces = PieceTokenizer(smaller.tokenizer)
    [special] = {"sep": pieces.after, "cls": pieces.before}[end]
    assert smaller.weights[name][special].tolist() == [1.0] * weights[name].shape[1]


def test_numbers_that_no_piece_has_are_left_out(tmp_path):
    whole = read_pretrained(str(make_transformer(tmp_path, "bert", text=[*TEXT, *GREEK])))
    content = json.loads(whole.tokenizer)
    vocabulary = content["model"]["vocab"]
    for piece in [piece for piece in vocabulary if piece.isalpha() and len(piece) > 1][:2]:
        del vocabulary[piece]
    holed = replace(whole, tokenizer=json.dumps(content))
    smaller = pruned(holed, WORDS)
    assert strings(smaller.tokenizer, WORDS) == strings(holed.tokenizer, WORDS)
    name = "embeddings.word_embeddings.weight"
    for piece, number in json.loads(smaller.tokenizer)["model"]["vocab"].items():
        assert smaller.weights[name][number].equal(whole.weights[name][vocabulary[piece]])


def test_pieces_of_bytes_stay(tmp_path):
    whole = read_pretrained(str(make_transformer(tmp_path, "roberta", POSITIONS)))
    assert pruned(whole, ["a"]) is whole
