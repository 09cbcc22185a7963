"""Loops over messages whose state has the position (step, steps), or begins with it."""

from __future__ import annotations

from collections.abc import Sequence

from parser.batching.messages.graph import MessageGraph
from parser.batching.messages.message import MessageState
from parser.batching.messages.routing import ChangeState, Condition, Join


def each_step(state: MessageState) -> Sequence[MessageState]:
    """The states of all steps, for a state with the position (steps,)."""
    (steps,) = state.position
    return [state.at(step, steps) for step in range(steps)]


def add_loop(graph: MessageGraph, before: str, first: str, last: str) -> tuple[str, int]:
    """Add a loop from `before` through `first` to `last`.

    Returns the output that is taken after all steps.
    """
    graph.add("again", Join())
    graph.add("count", ChangeState(_next_step, _step_before))
    graph.add("all steps", Condition(lambda state: int(state.position[0] == state.position[1])))
    graph.chain(before, "again", first)
    graph.chain(last, "count", "all steps")
    graph.connect("all steps", ("again", 1))
    return "all steps", 1


def _next_step(state: MessageState) -> MessageState:
    step, *others = state.position
    return state.at(step + 1, *others)


def _step_before(state: MessageState) -> MessageState:
    step, *others = state.position
    return state.at(step - 1, *others)
