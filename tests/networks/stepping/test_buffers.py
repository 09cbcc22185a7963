"""Buffers in groups of sentences, compared with the library's LSTM over each sentence."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import make_inventory
from small_parsers import examples, network

from parser.networks.stepping import buffers
from parser.networks.stepping.buffers import Buffers, FrontOutputs

INVENTORY = make_inventory("arc-hybrid")


def chains(lengths):
    return [tuple(range(length)) for length in lengths]


@pytest.mark.parametrize("kind", [Buffers, FrontOutputs])
@given(st.lists(st.integers(1, 7), min_size=1, max_size=9), st.integers(1, 4), st.integers(1, 2))
def test_states_are_those_of_the_library(kind, lengths, group, layers):
    parser, tokens = network(INVENTORY, layers).eval(), examples(INVENTORY, chains(lengths)).tokens
    with pytest.MonkeyPatch.context() as patched, torch.inference_mode():
        patched.setattr(buffers, "GROUP_ON_CPU", group)
        found = kind.of(parser, parser.encode_distinct(tokens)[0], tokens.lengths)
        table, start = parser.word_table(tokens), 0
        rows = found.row_of_front.split((tokens.lengths + 1).tolist())
        for length, own in zip(lengths, rows, strict=True):
            inputs = torch.cat([table[-1:], table[start : start + length].flip(0)])
            torch.testing.assert_close(found.output[own].flip(0), parser.buffer(inputs)[0])
            start += length
    assert len(found.output) == 1 + sum(lengths)  # neither frames nor ends are padded
