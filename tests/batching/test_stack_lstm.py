"""StackLSTMs as a library: by replay and step by step, compared with lists and torch's own LSTM."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from parser.batching.stack_lstm import StackLSTM
from parser.batching.stack_operations import HOLD, POP, PUSH, REDUCE_AND_REPLACE, StackOperation

from .test_stack import programs

SIZE, HIDDEN = 3, 4
Program = list[list[StackOperation]]


def on_lists(lstm: nn.LSTM, vectors: Tensor, program: Program) -> Tensor:
    """[batch, steps + 1, hidden] outputs, each stack being a list of the states of torch's LSTM."""
    zeros = torch.zeros(lstm.num_layers, HIDDEN, dtype=torch.double)
    shown = []
    for column, row in enumerate(vectors):
        stack, tops = [(zeros, zeros)], [zeros[-1]]
        for vector, operations in zip(row, program, strict=True):
            operation = operations[column]
            if operation == POP:
                stack.pop()
            elif operation != HOLD:
                below = stack[len(stack) - 1 - operation.read]
                del stack[len(stack) - operation.read :]
                stack.append(lstm(vector[None], below)[1])
            tops.append(stack[-1][0][-1])
        shown.append(torch.stack(tops))
    return torch.stack(shown)


def by_steps(model: StackLSTM, vectors: Tensor, read: Tensor, move: Tensor) -> Tensor:
    stacks = model.begin(len(vectors))
    tops = [stacks.top()]
    for step in range(vectors.shape[1]):
        stacks.operate(vectors[:, step], read[:, step], move[:, step])
        tops.append(stacks.top())
    return torch.stack(tops, 1)


@given(program=programs(), layers=st.integers(1, 2))
def test_replay_and_steps_give_what_lists_give_and_the_same_gradients(program: Program, layers: int) -> None:
    torch.manual_seed(0)
    model = StackLSTM(SIZE, HIDDEN, layers).double()
    vectors = torch.randn(len(program[0]), len(program), SIZE, dtype=torch.double, requires_grad=True)
    read, move = torch.tensor(program).permute(2, 1, 0)
    wanted = torch.randn(len(program[0]), len(program) + 1, HIDDEN, dtype=torch.double)
    found = []
    for states in (
        on_lists(model.lstm, vectors, program),
        model(vectors, read, move),
        by_steps(model, vectors, read, move),
    ):
        inputs, loss = [vectors, *model.parameters()], (states * wanted).sum() + 0 * vectors.sum()
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
        found.append((states, gradients))
    for states, gradients in found[1:]:
        torch.testing.assert_close(states, found[0][0])
        torch.testing.assert_close(gradients, found[0][1])


@pytest.mark.parametrize("batch", [0, 2])
def test_stacks_that_hold_nothing(batch: int, device: torch.device) -> None:
    model = StackLSTM(SIZE, HIDDEN).to(device)
    vectors, nothing = torch.ones(batch, 3, SIZE, device=device), torch.zeros(batch, 3, dtype=torch.int16)
    stacks = model.begin(batch)
    stacks.operate(vectors[:, 0], nothing[:, 0], nothing[:, 0])
    assert not model(vectors, nothing, nothing).any()
    assert not stacks.top().any()


def test_errors_say_what_is_wanted() -> None:
    model, vectors = StackLSTM(SIZE, HIDDEN), torch.ones(1, 3, SIZE)
    pushes, numbers = torch.tensor([[PUSH] * 3]).unbind(2), torch.zeros(1, 3, dtype=torch.long)

    def run(*operations: StackOperation) -> None:
        model(vectors, *torch.tensor([operations]).unbind(2))

    run(PUSH, PUSH, REDUCE_AND_REPLACE)
    for call, message in (
        (lambda: run(PUSH, REDUCE_AND_REPLACE, HOLD), "stack 0 has 1 vectors at step 1, too few .* read 2"),
        (lambda: run(PUSH, POP, POP), "stack 0 has 0 vectors at step 2, too few .* move -1"),
        (lambda: run(PUSH, StackOperation(0, 2), HOLD), "stack 0 has 1 vectors at step 1, .* no StackOp"),
        (lambda: run(PUSH, StackOperation(1, 1), HOLD), "no StackOperation"),
        (lambda: run(PUSH, StackOperation(-1, 0), HOLD), "no StackOperation"),
        (lambda: run(PUSH, PUSH), r"not \[1, 3, 3\], \[1, 2\] and \[1, 2\]"),
        (lambda: model(vectors, *torch.zeros(2, 1, 3)), "must be integers, not torch.float32"),
        (lambda: model(vectors.double(), *pushes), r"torch.float64, .* by `vectors.to\(torch.float32\)`, or"),
        (lambda: model(vectors[..., :2], *pushes), r"vectors of shape \[1, 3, 2\], .* takes a width of 3"),
        (lambda: model(vectors[0], *pushes), r"vectors must be \[batch, steps, input\], .* not \[3, 3\]"),
        (
            lambda: model(vectors.tolist(), numbers, numbers),
            r"vectors must be .*: `torch.as_tensor\(vectors\)`",
        ),
        (lambda: model(vectors, numbers.tolist(), numbers), "read must be a tensor, not list"),
        (lambda: model(vectors, numbers, numbers.numpy()), "move must be a tensor, not ndarray"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_errors_of_single_steps_say_what_is_wanted_and_change_nothing() -> None:
    stacks, vectors = StackLSTM(SIZE, HIDDEN).begin(2), torch.ones(2, SIZE)
    stacks.operate(vectors, *torch.tensor([PUSH, HOLD]).unbind(1))
    top = stacks.top()
    for rows, (read, move), message in (
        (vectors, POP, "stack 1 has 0 vectors at step 1, too few for its operation: read 0, move -1"),
        (vectors, torch.tensor([HOLD, POP]).unbind(1), "stack 1 has 0 vectors at step 1"),
        (vectors, torch.tensor([PUSH, HOLD])[:, None].unbind(2), r"\[2\] or one number, not \[2, 1\]"),
        (vectors, REDUCE_AND_REPLACE, "stack 0 has 1 vectors at step 1, .* read 2, move -1"),
        (vectors.double(), PUSH, "vectors of torch.float64, but the LSTM is of torch.float32"),
        (vectors[:, :2], PUSH, r"vectors of shape \[2, 2\], but the LSTM takes a width of 3"),
        (vectors, ([0, 0], [1, 0]), "read must be a tensor, not list"),
        (vectors.tolist(), PUSH, "vectors must be a tensor, not list"),
        (vectors[:1], PUSH, r"vectors must be \[2, input\], not \[1, 3\]"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            stacks.operate(rows, read, move)
    assert stacks.top().equal(top)
