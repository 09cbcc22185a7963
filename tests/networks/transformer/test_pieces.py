from itertools import chain

import pytest
from small_transformers import KINDS, make_transformer, transformers

from parser.networks.transformer.pieces import PieceTokenizer
from parser.networks.transformer.pretrained import read_pretrained

WORDS = ["the", "cats", "unbelievable", "12 000", "naïve", "Don't", "!", "mat"]


@pytest.fixture(params=KINDS)
def folder(request, tmp_path):
    return make_transformer(tmp_path / request.param, request.param)


def tokenizer_of(folder):
    return PieceTokenizer(read_pretrained(str(folder)).tokenizer)


def test_pieces_are_those_that_the_library_gives_to_the_words_of_a_sentence(folder):
    """The library gets the words with `is_split_into_words`."""
    library = transformers.AutoTokenizer.from_pretrained(folder)
    # RoBERTa's tokenizer takes a word without a preceding blank for the rest of a word.
    blank = " " if folder.name == "roberta" else ""
    found = library([blank + word for word in WORDS], is_split_into_words=True)
    wanted = [
        [piece for piece, own in zip(found["input_ids"], found.word_ids(), strict=True) if own == word]
        for word in range(len(WORDS))
    ]
    tokenizer = tokenizer_of(folder)
    assert tokenizer.pieces(WORDS) == wanted
    pieces = list(chain.from_iterable(wanted))
    assert [*tokenizer.before, *pieces, *tokenizer.after] == found["input_ids"]


def test_every_word_has_a_piece(folder):
    tokenizer = tokenizer_of(folder)
    words = ["\u200b", " ", "\ud800", "€", "\U0001f469\u200d\U0001f680", "x" * 3000]
    found = tokenizer.pieces(words)
    assert all(found)
    assert all(0 <= piece <= tokenizer.largest for own in found for piece in own)


def test_special_pieces_are_found_although_the_library_has_lost_them(tmp_path):
    """The tokenizer has no post-processor, like some that the library writes."""
    folder = make_transformer(tmp_path)
    library = transformers.AutoTokenizer.from_pretrained(folder)
    library.backend_tokenizer.post_processor = None
    library.save_pretrained(folder)
    tokenizer = tokenizer_of(folder)
    assert (tokenizer.before, tokenizer.after) == ([2], [3])


def test_words_after_a_blank_are_divided_as_in_running_text(tmp_path):
    folder = make_transformer(tmp_path, "roberta")
    library = transformers.AutoTokenizer.from_pretrained(folder)
    words = ["the", "cat", "sat", "on"]
    in_text = library(" " + " ".join(words), add_special_tokens=False)["input_ids"]
    assert list(chain.from_iterable(tokenizer_of(folder).pieces(words))) == in_text


def test_a_word_that_looks_like_a_special_piece_is_text(folder):
    tokenizer = tokenizer_of(folder)
    special = {*tokenizer.before, *tokenizer.after, 0}
    for pieces in tokenizer.pieces(["[SEP]", "a[CLS]b", "<s>", "</s>", "[PAD]", "<pad>"]):
        assert special.isdisjoint(pieces)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": "1.0", "model": {"type": "None"}}'])
def test_a_broken_tokenizer_is_refused(content):
    with pytest.raises(ValueError, match="the transformer's tokenizer is broken"):
        PieceTokenizer(content)
