"""Loops of messages whose state's position is (step, steps)."""

from __future__ import annotations

from collections.abc import Sequence

from parser.batching.messages.graph import MessageGraph
from parser.batching.messages.message import MessageState
from parser.batching.messages.routing import ChangeState, Condition, Join


def each_step(state: MessageState) -> Sequence[MessageState]:
    """Of a state whose position is (steps,)."""
    (steps,) = state.position
    return [state.at(step, steps) for step in range(steps)]


def add_loop(graph: MessageGraph, before: str, first: str, last: str) -> tuple[str, int]:
    """From `before`, with step 0, through `first` to `last`, until all steps are done; the output then."""
    graph.add("again", Join())
    graph.add("count", ChangeState(_next_step, _step_before))
    graph.add("all steps", Condition(lambda state: int(state.position[0] == state.position[1])))
    graph.chain(before, "again", first)
    graph.chain(last, "count", "all steps")
    graph.connect("all steps", ("again", 1))
    return "all steps", 1


def _next_step(state: MessageState) -> MessageState:
    step, steps = state.position
    return state.at(step + 1, steps)


def _step_before(state: MessageState) -> MessageState:
    step, steps = state.position
    return state.at(step - 1, steps)
