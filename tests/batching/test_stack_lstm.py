"""StackLSTMs as a library: by replay and step by step, compared with lists and torch's own LSTM."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from parser.batching.stack import HOLD, POP, PUSH, REDUCE_AND_REPLACE, StackOperation
from parser.batching.stack_lstm import StackLSTM

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
    model = StackLSTM(SIZE, HIDDEN)
    vectors = torch.ones(1, 3, SIZE)

    def run(*operations: StackOperation) -> None:
        model(vectors, *torch.tensor([operations]).unbind(2))

    run(PUSH, PUSH, REDUCE_AND_REPLACE)
    with pytest.raises(
        ValueError, match="stack 0 has 1 vectors at step 1, too few for its operation: read 2"
    ):
        run(PUSH, REDUCE_AND_REPLACE, HOLD)
    for operation in (StackOperation(0, 2), StackOperation(1, 1), StackOperation(-1, 0)):
        with pytest.raises(
            ValueError, match=r"stack 0 has 1 vectors at step 1, and is to read .* no StackOp"
        ):
            run(PUSH, operation, HOLD)
    with pytest.raises(ValueError, match=r"read and move must be integers, not torch.float32"):
        model(vectors, torch.zeros(1, 3), torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"stack 0 has 0 vectors at step 2, too few .* move -1"):
        run(PUSH, POP, POP)
    with pytest.raises(ValueError, match=r"\[batch, steps\], not \[1, 3, 3\], \[1, 2\] and \[1, 2\]"):
        run(PUSH, PUSH)
    with pytest.raises(
        ValueError, match=r"vectors of torch.float64, .* by `vectors.to\(torch.float32\)`, or"
    ):
        model(vectors.double(), *torch.tensor([[PUSH] * 3]).unbind(2))
    with pytest.raises(ValueError, match=r"vectors of shape \[1, 3, 2\], .* takes a width of 3"):
        model(vectors[..., :2], *torch.tensor([[PUSH] * 3]).unbind(2))
    with pytest.raises(ValueError, match=r"vectors must be \[batch, steps, input\], .* not \[3, 3\]"):
        model(vectors[0], *torch.tensor([PUSH] * 3).unbind(1))
    numbers = torch.zeros(1, 3, dtype=torch.long)
    for wrong, name in (
        ((vectors.tolist(), numbers, numbers), "vectors"),
        ((vectors, numbers.tolist(), numbers), "read"),
        ((vectors, numbers, numbers.numpy()), "move"),
    ):
        with pytest.raises(TypeError, match=rf"{name} must be a tensor, not .*: `torch.as_tensor\({name}\)`"):
            model(*wrong)


def test_errors_of_single_steps_say_what_is_wanted_and_change_nothing() -> None:
    stacks = StackLSTM(SIZE, HIDDEN).begin(2)
    vectors = torch.ones(2, SIZE)
    stacks.operate(vectors, *torch.tensor([PUSH, HOLD]).unbind(1))
    top = stacks.top()
    message = "stack 1 has 0 vectors at step 1, too few for its operation: read 0, move -1"
    for operation in (POP, StackOperation(*torch.tensor([HOLD, POP]).unbind(1))):
        with pytest.raises(ValueError, match=message):
            stacks.operate(vectors, *operation)
    with pytest.raises(ValueError, match=r"must be \[2\] or one number, not \[2, 1\]"):
        stacks.operate(vectors, *torch.tensor([PUSH, HOLD])[:, None].unbind(2))
    with pytest.raises(ValueError, match=r"stack 0 has 1 vectors at step 1, .* read 2, move -1"):
        stacks.operate(vectors, *REDUCE_AND_REPLACE)
    with pytest.raises(ValueError, match=r"vectors of torch.float64, but the LSTM is of torch.float32"):
        stacks.operate(vectors.double(), *PUSH)
    with pytest.raises(ValueError, match=r"vectors of shape \[2, 2\], but the LSTM takes a width of 3"):
        stacks.operate(vectors[:, :2], *PUSH)
    with pytest.raises(TypeError, match="read must be a tensor, not list"):
        stacks.operate(vectors, [0, 0], [1, 0])
    with pytest.raises(TypeError, match="vectors must be a tensor, not list"):
        stacks.operate(vectors.tolist(), *PUSH)
    with pytest.raises(ValueError, match=r"vectors must be \[2, input\], not \[1, 3\]"):
        stacks.operate(vectors[:1], *PUSH)
    assert stacks.top().equal(top)
