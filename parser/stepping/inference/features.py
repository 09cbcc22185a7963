"""What stack rows, buffer fronts and the history add to the input of the scores, see `StackParser.score`.

What a row or a front adds is computed when it is made, not at each step in which it is read.
"""

from __future__ import annotations

from torch import Tensor

from parser.batching.product import add_product, times_transposed
from parser.networks.stack_parser import FEATURE_WORDS, StackParser
from parser.stepping.inference.stack_rows import ROOT, StackRows

AS_TOP, AS_BELOW, AS_FRONT = range(FEATURE_WORDS)
"""The places of words whose vectors are features: S0, S1 and B0."""


def of_words(network: StackParser, vectors: Tensor, place: int) -> Tensor:
    """[rows, hidden] What words at a place add; [rows, 0] without word features. vectors: [rows, token]"""
    if network.from_words is None:
        return vectors.new_empty(len(vectors), 0)
    return times_transposed(vectors, network.from_words.weight.chunk(FEATURE_WORDS)[place])


def of_stack(network: StackParser, hidden: Tensor, of_word: Tensor) -> Tensor:
    """[rows, hidden] What rows add as S0. hidden: [rows, hidden]; of_word: as from `of_words`."""
    return _with(times_transposed(hidden, network.from_stack.weight, network.from_stack.bias), of_word)


def of_buffer(network: StackParser, hidden: Tensor, of_word: Tensor) -> Tensor:
    """[rows, hidden] What fronts add. hidden: [rows, hidden]; of_word: as from `of_words`."""
    return _with(times_transposed(hidden, network.from_buffer.weight), of_word)


def _with(of_state: Tensor, of_word: Tensor) -> Tensor:
    return of_state.add_(of_word) if of_word.shape[1] else of_state


def scores(network: StackParser, stack: StackRows, of_fronts: Tensor, history: Tensor) -> Tensor:
    """[batch, transitions] of_fronts, history: [batch, hidden], the latter the output of its LSTM."""
    joined = stack.rows.as_top.index_select(0, stack.index(stack.top))  # [batch, hidden]
    joined += of_fronts
    if stack.rows.as_below.shape[1]:
        below = (stack.top - 1).clamp(min=ROOT)  # ROOT if it is alone
        joined += stack.rows.as_below.index_select(0, stack.index(below))
    add_product(joined, history, network.from_history.weight)
    return times_transposed(joined.relu_(), network.scores.weight, network.scores.bias)
