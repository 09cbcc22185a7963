from itertools import chain

import pytest
from small_transformers import KINDS, make_transformer, transformers

from parser.transformer.pieces import PieceTokenizer
from parser.transformer.pretrained import read_pretrained

WORDS = ["the", "cats", "unbelievable", "12 000", "naïve", "Don't", "!", "mat"]


@pytest.fixture(params=KINDS)
def folder(request, tmp_path):
    return make_transformer(tmp_path / request.param, request.param)


def test_pieces_are_those_that_the_library_gives_to_the_words_of_a_sentence(folder):
    """Which the library divides as `is_split_into_words`."""
    library = transformers.AutoTokenizer.from_pretrained(folder)
    found = library(WORDS, is_split_into_words=True)
    wanted = [
        [piece for piece, own in zip(found["input_ids"], found.word_ids(), strict=True) if own == word]
        for word in range(len(WORDS))
    ]
    tokenizer = PieceTokenizer(read_pretrained(str(folder)).tokenizer)
    assert tokenizer.pieces(WORDS) == wanted
    pieces = list(chain.from_iterable(wanted))
    assert [*tokenizer.before, *pieces, *tokenizer.after] == found["input_ids"]


def test_every_word_has_a_piece(folder):
    tokenizer = PieceTokenizer(read_pretrained(str(folder)).tokenizer)
    words = ["\u200b", " ", "\ud800", "€", "\U0001f469\u200d\U0001f680", "x" * 3000]
    found = tokenizer.pieces(words)
    assert all(found)
    assert all(0 <= piece < tokenizer.size for own in found for piece in own)


def test_special_pieces_are_found_although_the_library_has_lost_them(tmp_path):
    """A tokenizer without post-processor, as the library writes some."""
    folder = make_transformer(tmp_path)
    library = transformers.AutoTokenizer.from_pretrained(folder)
    library.backend_tokenizer.post_processor = None
    library.save_pretrained(folder)
    tokenizer = PieceTokenizer(read_pretrained(str(folder)).tokenizer)
    assert (tokenizer.before, tokenizer.after) == ([2], [3])


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": "1.0", "model": {"type": "None"}}'])
def test_a_broken_tokenizer_is_refused(content):
    with pytest.raises(ValueError, match="the transformer's tokenizer is broken"):
        PieceTokenizer(content)
