"""What arc-hybrid and arc-standard share: a word is reduced as it gets its head, and ROOT takes one last."""

from __future__ import annotations

from torch import Tensor

from parser.batching.stack import POP, PUSH
from parser.transitions.state import State
from parser.transitions.system import Place, Transition

RIGHT_ARC = Transition("Right-Arc", POP, top=Place.S1, head=Place.S1, dependent=Place.S0, composes=Place.S0)
# The last transition: nothing is left that would look at what it composes.
ROOT_ARC = Transition("Root-Arc", POP, top=Place.S1, head=Place.S1, dependent=Place.S0, from_root=True)
SHIFT = Transition("Shift", PUSH, top=Place.B0, takes_front=True)


def finished(state: State) -> Tensor:
    """[batch] When the buffer is empty and ROOT alone on the stack."""
    return (state.front > state.length) & (state.depth == 1)
