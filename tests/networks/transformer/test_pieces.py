"""Pieces of words, and the windows over long sentences that cover each word once."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_transformers import KINDS, make_transformer, transformers

from parser.batching.ragged import Ragged
from parser.networks.transformer.pieces import Windows
from parser.networks.transformer.pretrained import read_pretrained
from parser.networks.transformer.tokenizer import PieceTokenizer
from parser.treebank.tokens import Tokens

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


pytest.importorskip("tokenizers")


def tokens_of(sentences):
    """The tokens of sentences, given as numbers of pieces per word. Pieces are numbered consecutively."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    counts = torch.tensor(list(chain.from_iterable(sentences)))
    pieces = Ragged(torch.arange(int(counts.sum())), counts)
    return Tokens(Ragged(torch.zeros(int(lengths.sum()), 1, dtype=torch.long), lengths), pieces=pieces)


def read(windows):
    """The window from which each word is read and its pieces there, as found by a plain reader."""
    found = []
    for group in windows.together:
        rows = [list(range(first, first + count)) for first, count in zip(*map(list, group[:2]), strict=True)]
        for places in group.words.unflatten():
            row = int(places[0]) // group.length
            assert all(int(place) // group.length == row for place in places)
            found.append((rows[row], [rows[row][int(place) % group.length] for place in places]))
    return [found[place] for place in windows.place_of_word.tolist()]


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=30), min_size=1, max_size=5),
    st.integers(1, 20),
    st.integers(1, 60),
)
def test_every_word_is_read_by_its_own_pieces_within_a_window_of_its_sentence(sentences, most, together):
    tokens = tokens_of(sentences)
    found = read(Windows.of(tokens, most, pieces_together=together))
    ends = torch.tensor([sum(sentence) for sentence in sentences]).cumsum(0).tolist()
    words = tokens.pieces.unflatten()
    for (window, pieces), own, sentence in zip(
        found, words, tokens.numbers.row_of_element().tolist(), strict=True
    ):
        assert pieces == own.tolist()[:most]
        assert len(window) <= most
        begin = ends[sentence] - sum(sentences[sentence])
        assert begin <= window[0] <= window[-1] < ends[sentence]


@given(st.lists(st.integers(1, 90), min_size=1, max_size=90), st.integers(0, 1000))
def test_windows_of_other_lengths_are_read_apart(lengths, most):
    """No group has too much padding, but with one more window it would have."""
    groups = Windows.of(tokens_of([[1] * length for length in lengths]), 90, most).together
    assert [count for group in groups for count in group.counts.tolist()] == sorted(lengths)
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        assert padding(group.counts) <= most
        if following:
            assert padding(torch.cat([group.counts, following.counts[:1]])) > most


def padding(counts):
    return int(counts.max()) * len(counts) - int(counts.sum())


def test_a_sentence_that_fits_is_one_window():
    [(first, _), (second, _)] = read(Windows.of(tokens_of([[3, 4]]), 7))
    assert first == second == list(map(int, range(7)))


def test_a_word_of_a_long_sentence_has_pieces_on_both_sides():
    sentence = [1] * 1000
    for word, (window, [piece]) in enumerate(read(Windows.of(tokens_of([sentence]), 40))):
        assert piece == word
        before, after = piece - window[0], window[-1] - piece
        assert before >= 9 or window[0] == 0
        assert after >= 9 or window[-1] == 999


def test_windows_that_are_read_together_are_of_similar_length_and_not_too_many():
    sentences = [[1] * length for length in (2, 50, 3, 49, 2, 51)]
    windows = Windows.of(tokens_of(sentences), 100, pieces_together=160)
    assert [group.counts.tolist() for group in windows.together] == [[2, 2, 3], [49, 50, 51]]
