"""Conditions that block transitions of a parser if some arcs are given, see `given_arcs`."""

from __future__ import annotations

from enum import IntFlag, auto


class Obstacle(IntFlag):
    """Conditions that can be true of a state. Heads and dependents are given ones."""

    S0_NOT_BELOW_B0 = auto()
    """S0 has another head than B0."""
    S0_NOT_BELOW_S1 = auto()
    """S0 has another head than S1."""
    S0_AWAITS = auto()
    """A dependent of S0 is in the buffer."""
    B0_NOT_BELOW_S0 = auto()
    """B0 has another head than S0."""
    B0_BELOW_STACK = auto()
    """The head of B0 is on the stack, or ROOT."""
    B0_BELOW_DEEPER = auto()
    """The head of B0 is on the stack below S0."""
    B0_AWAITS = auto()
    """A dependent of B0 is on the stack and has no head yet."""
    NO_ROOT_IN_BUFFER = auto()
    """S0 is alone on ROOT, and no word of the buffer may be the root."""
    NO_ROOT_AFTER_B0 = auto()
    """There is no root yet, and no word after B0 may be the root."""
    NO_ROOT_AT_BOTTOM = auto()
    """Neither a word after B0 nor the lowest word on the stack (B0 if there is none) may be the root."""
    B0_NO_ROOT = auto()
    """B0 may not be the root."""
    B0_ABOVE_LAST = auto()
    """The last word is B0 or below B0 in the tree: words without a head by then cannot get one later."""
    B0_LEAVES_HEADLESS = auto()
    """Like `B0_ABOVE_LAST`, and some words on the stack have no head."""


OF_WHOLE_TREE = (
    Obstacle.NO_ROOT_IN_BUFFER,
    Obstacle.NO_ROOT_AFTER_B0,
    Obstacle.NO_ROOT_AT_BOTTOM,
    Obstacle.B0_NO_ROOT,
    Obstacle.B0_ABOVE_LAST,
    Obstacle.B0_LEAVES_HEADLESS,
)
"""Obstacles that costs do not cover: each arc could still be made, but not a tree with a single root."""
