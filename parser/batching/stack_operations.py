"""What a step does to a stack: push, pop, hold and two ways to replace, see `parser.batching.stack`."""

from __future__ import annotations

from typing import NamedTuple


class StackOperation(NamedTuple):
    """The offset of the previous row below the top, and the change of the top.

    >>> PUSH, REDUCE_AND_REPLACE
    (StackOperation(read=0, move=1), StackOperation(read=2, move=-1))
    """

    read: int
    move: int


PUSH = StackOperation(0, 1)
POP = StackOperation(0, -1)
HOLD = StackOperation(0, 0)
REPLACE = StackOperation(1, 0)
REDUCE_AND_REPLACE = StackOperation(2, -1)
