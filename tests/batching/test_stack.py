"""Stacks in a batch, compared with Python lists, and their gradients."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.stack import Stack
from parser.batching.stack_operations import HOLD, POP, PUSH, REDUCE_AND_REPLACE, REPLACE

OPERATIONS = [PUSH, POP, HOLD, REPLACE, REDUCE_AND_REPLACE]
LEAST_DEPTH = {PUSH: 0, POP: 1, HOLD: 0, REPLACE: 1, REDUCE_AND_REPLACE: 2}


@st.composite
def programs(draw):
    """Operations [steps][batch] for which every stack is high enough."""
    batch, steps = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    depths, program = [0] * batch, []
    for _ in range(steps):
        row = []
        for column in range(batch):
            allowed = [operation for operation in OPERATIONS if depths[column] >= LEAST_DEPTH[operation]]
            row.append(draw(st.sampled_from(allowed)))
            depths[column] += row[-1].move
        program.append(row)
    return program


def on_lists(program, inputs, weight):
    """What is on top of every stack after each step, with Python lists and without batches."""
    shown = []
    stacks = [[torch.zeros_like(inputs[0, 0])] for _ in program[0]]
    for step, row in enumerate(program):
        for column, operation in enumerate(row):
            stack = stacks[column]
            if operation == POP:
                stack.pop()
            elif operation != HOLD:
                below = stack[len(stack) - 1 - operation.read]
                del stack[len(stack) - operation.read :]
                stack.append(torch.tanh(inputs[step, column] + below @ weight))
        shown.append(torch.stack([stack[-1] for stack in stacks]))
    return torch.stack(shown)


def in_batch(program, inputs, weight):
    stack = Stack(len(program[0]), inputs.shape[2], like=inputs, capacity=3)
    shown = []
    for step, row in enumerate(program):
        read, move = torch.tensor(row, device=inputs.device).unbind(1)
        stack.reserve(step + 1)
        stack.write(read, move, torch.tanh(inputs[step] + stack.previous(read) @ weight))
        shown.append(stack.top())
    return torch.stack(shown)


@given(program=programs())
def test_every_program_gives_what_lists_give_and_the_same_gradients(program):
    torch.manual_seed(0)
    results = []
    for run in (on_lists, in_batch):
        generator = torch.Generator().manual_seed(0)
        shape = (len(program), len(program[0]), 3)
        inputs = torch.randn(shape, generator=generator, dtype=torch.double).requires_grad_()
        weight = torch.randn(3, 3, generator=generator, dtype=torch.double).requires_grad_()
        shown = run(program, inputs, weight)
        mixture = torch.randn(shape, generator=generator, dtype=torch.double)
        nothing = 0 * (inputs.sum() + weight.sum())  # a program of holds only shows neither
        ((shown * mixture).sum() + nothing).backward()
        results.append((shown.detach(), inputs.grad, weight.grad))
    for plain, batched in zip(*results, strict=True):
        torch.testing.assert_close(batched, plain, rtol=0, atol=1e-12)


def test_grows_without_losing_what_it_holds(device):
    stack = Stack(2, 4, like=torch.zeros((), device=device), capacity=2)
    rows = torch.arange(100 * 8, device=device, dtype=torch.float).view(100, 2, 4)
    for depth, row in enumerate(rows, 1):
        stack.reserve(depth)
        stack.write(*PUSH, row)
    for row in rows.flip(0):
        assert torch.equal(stack.top(), row)
        stack.write(*POP, torch.zeros(2, 4, device=device))
    assert not stack.top().any()


def pushed(*vectors):
    """A stack of these vectors, and what was on top after each push."""
    stack, tops = Stack(1, 2, like=vectors[0]), []
    for vector in vectors:
        stack.write(*PUSH, vector)
        tops.append(stack.top())
    return stack, tops


def test_what_is_read_or_written_without_gradients_cuts_no_others():
    first, second, last = (torch.full((1, 2), value, requires_grad=True) for value in (1.0, 2.0, 3.0))
    stack, _ = pushed(first)
    with torch.no_grad():
        assert not stack.top().requires_grad
        stack.write(*PUSH, second)
    stack.write(*PUSH, last + stack.previous(1))  # reads the first vector below the second
    (stack.top() + stack.previous(2)).sum().backward()
    assert (first.grad.tolist(), last.grad.tolist()) == ([[2.0, 2.0]], [[1.0, 1.0]])
    assert second.grad is None


def test_gradients_of_one_input_after_the_other_are_those_of_both():
    first, second = (torch.full((1, 2), value, requires_grad=True) for value in (1.0, 2.0))
    stack, (_, top) = pushed(first, second)
    stack.write(*POP, torch.zeros(1, 2))
    loss = (top + 3 * stack.top()).sum()
    [of_second] = torch.autograd.grad(loss, [second], retain_graph=True)
    [of_first] = torch.autograd.grad(loss, [first])
    assert (of_first.tolist(), of_second.tolist()) == ([[3.0, 3.0]], [[1.0, 1.0]])
