"""A batch of stacks in which push, pop and hold are the same operation (Ding & Koehn 2019, section 3).

Every step of every stack is

    previous = rows[p - read];  row = f(x, previous);  rows[p - read + 1] = row;  p = p + move

where p points to the top. The row of a pop or a hold is written above the new top and overwritten before it
can be read (the paper's Observation 2), so a batch needs neither branches nor masks. The paper has push, pop
and hold. The two replace operations extend it to transition systems with reduce operations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class Stack:
    """Differentiable stacks of vectors, read and written in place.

    With plain indexing, autograd would save or zero a whole stack at each step. Here the backward pass of a
    read adds to a shared gradient buffer, and the backward pass of a write takes its row out of the buffer.
    This is correct only if backward calls run in exactly the reverse order of the forward calls. A token that
    is passed from each call to the next makes autograd keep that order. Reads without gradients take no part.

    >>> stacks = Stack(batch=2, size=3, like=torch.empty(0))
    >>> read, move = torch.tensor([PUSH, HOLD]).unbind(1)
    >>> stacks.write(read, move, torch.ones(2, 3))
    >>> stacks.top().tolist()
    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, batch: int, size: int, like: Tensor, capacity: int = 16):
        """Create empty stacks of vectors [batch, size], of the dtype and device of `like`. Row 0 is zeros."""
        self._batch, self._capacity = batch, capacity
        self._rows = _Rows(like.new_zeros(capacity * batch, size))
        # [batch] Rows of equal height are adjacent, so that indices stay valid when the capacity grows.
        self._top = torch.arange(batch, device=like.device)
        self._token = like.new_zeros((), requires_grad=torch.is_grad_enabled())

    @property
    def capacity(self) -> int:
        """The number of rows. The lowest represents the empty stack, the highest absorbs unread writes."""
        return self._capacity

    @property
    def height(self) -> Tensor:
        """[batch] The number of vectors on each stack."""
        return self._top // max(1, self._batch)

    def reserve(self, depth: int) -> None:
        """Reserve memory for stacks of `depth` vectors."""
        if depth + 2 > self._capacity:
            self._capacity = max(depth + 2, 2 * self._capacity)
            old = self._rows.values
            new = old.new_zeros(self._capacity * self._batch, old.shape[1])
            new[: len(old)] = old
            self._rows.values = new

    def top(self) -> Tensor:
        """[batch, size] The vector on top of each stack; zeros for an empty stack."""
        return self._read(self._top)

    def previous(self, read: Tensor | int) -> Tensor:
        """[batch, size] The vectors below those to write next. read: [batch], see `StackOperation`."""
        return self._read(self._below(read))

    def write(self, read: Tensor | int, move: Tensor | int, vectors: Tensor) -> None:
        """Write vectors [batch, size] above the previous rows, and move the pointers. read, move: [batch]."""
        index = self._below(read) + self._batch
        if not torch.is_grad_enabled():  # they get no gradient, but the vectors below keep theirs
            vectors = vectors.detach()
        with torch.enable_grad():
            self._token = _WriteFunction.apply(self._token, vectors, self._rows, index)
        self._top = torch.add(self._top, move, alpha=self._batch)

    def _below(self, read: Tensor | int) -> Tensor:
        """[batch] The indices of the rows `read` below the top."""
        return torch.sub(self._top, read, alpha=self._batch)

    def _read(self, index: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self._rows.values.index_select(0, index)
        vectors, self._token = _ReadFunction.apply(self._token, self._rows, index)
        return vectors


class _Rows:
    """The vectors of all stacks, [capacity * batch, size], and their gradients in the backward pass."""

    def __init__(self, values: Tensor):
        self.values = values
        self._gradients: Tensor | None = None

    @property
    def gradients(self) -> Tensor:
        """The gradients: zeros at the start of each backward pass, which may cover only some of the calls."""
        if self._gradients is None:
            self._gradients = torch.zeros_like(self.values)
            torch.autograd.Variable._execution_engine.queue_callback(self._forget)
        return self._gradients

    def _forget(self) -> None:
        self._gradients = None


class _ReadFunction(Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, rows: _Rows, index: Tensor) -> tuple[Tensor, Tensor]:
        ctx.rows, ctx.index = rows, index
        return rows.values.index_select(0, index), token.view_as(token)

    @staticmethod
    def backward(ctx: Any, vectors: Tensor, token: Tensor) -> tuple[Tensor | None, ...]:
        ctx.rows.gradients.index_add_(0, ctx.index, vectors)
        return token, None, None


class _WriteFunction(Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, vectors: Tensor, rows: _Rows, index: Tensor) -> Tensor:
        ctx.rows, ctx.index = rows, index
        rows.values.index_copy_(0, index, vectors)
        return token.view_as(token)

    @staticmethod
    def backward(ctx: Any, token: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.rows.gradients
        vectors = gradients.index_select(0, ctx.index)
        gradients.index_fill_(0, ctx.index, 0)
        return token, vectors, None, None
