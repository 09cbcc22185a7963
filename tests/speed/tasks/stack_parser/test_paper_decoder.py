"""The StackLSTMs of the paper's decoder, against an LSTM that reads Python lists from bottom to top."""

import pytest
import torch

from parser.batching.stack_operations import HOLD, POP, PUSH, REDUCE_AND_REPLACE, REPLACE
from parser.speed.tasks.stack_parser.baselines import FilledStackLSTM, PaperStackLSTM

INPUT, HIDDEN = 3, 4


def lstm_of(layers):
    torch.manual_seed(layers)
    return torch.nn.LSTM(INPUT, HIDDEN, layers).double()


def reading(lstm, vectors):
    """[hidden] The output after the last vector."""
    outputs, _ = lstm(torch.stack(vectors))
    return outputs[-1]


def gradients_of(lstm, outputs):
    weighted = torch.stack(outputs)  # [steps, batch, hidden]
    weights = torch.arange(weighted.numel(), dtype=torch.double).view_as(weighted).cos()
    return torch.autograd.grad((weighted * weights).sum(), list(lstm.parameters()))


def assert_same(lstm, found, expected):
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=1e-9, atol=1e-9)
    both = gradients_of(lstm, found), gradients_of(lstm, expected)
    for ours, plain in zip(*both, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


PROGRAMS = [
    [PUSH, PUSH, POP, PUSH, HOLD, REDUCE_AND_REPLACE, PUSH],
    [HOLD, PUSH, HOLD, POP, PUSH, PUSH, REPLACE],
    [PUSH, PUSH, PUSH, POP, POP, POP, HOLD],
]
"""The operations of each stack of a batch. Each stack has a vector at its bottom, which stays."""


@pytest.mark.parametrize("layers", [1, 2])
def test_stacks_are_those_of_lists(layers):
    lstm, first = lstm_of(layers), torch.randn(len(PROGRAMS), INPUT, dtype=torch.double)
    stacks, lists = PaperStackLSTM(lstm, first, depth=4), [[vector] for vector in first]
    found, expected = [], []
    for operations in zip(*PROGRAMS, strict=True):
        vectors = torch.randn(len(PROGRAMS), INPUT, dtype=torch.double)
        read, move = torch.tensor(operations).unbind(1)
        stacks.operate(read, move, vectors)
        for own, operation, vector in zip(lists, operations, vectors, strict=True):
            if operation in (PUSH, REPLACE, REDUCE_AND_REPLACE):
                own[len(own) - operation.read :] = [vector]
            elif operation == POP:
                own.pop()
        found.append(stacks.output)
        expected.append(torch.stack([reading(lstm, own) for own in lists]))
    assert_same(lstm, found, expected)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_filled_stack_gives_up_its_vectors_from_the_top(layers):
    """The first is shorter than the padded frames, the second is never popped, the third down to one."""
    lstm, heights = lstm_of(layers), torch.tensor([3, 2, 5])
    vectors = torch.randn(5, 3, INPUT, dtype=torch.double)
    buffer, left = FilledStackLSTM(lstm, vectors, heights), heights.tolist()
    found, expected = [], []
    for popped in ([1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1]):
        buffer.pop_or_hold(torch.tensor(popped))
        left = [height - number for height, number in zip(left, popped, strict=True)]
        found.append(buffer.output)
        rows = enumerate(left)
        expected.append(torch.stack([reading(lstm, [*vectors[:height, row]]) for row, height in rows]))
    assert_same(lstm, found, expected)
