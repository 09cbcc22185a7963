"""Transition systems, the states of parsers, oracles, and trajectories."""

from parser.transitions.arc_eager import ARC_EAGER
from parser.transitions.arc_hybrid import ARC_HYBRID
from parser.transitions.arc_standard import ARC_STANDARD
from parser.transitions.system import TransitionSystem

SYSTEMS = {system.name: system for system in (ARC_HYBRID, ARC_EAGER, ARC_STANDARD)}


def transition_system(name: str, composition: bool) -> TransitionSystem:
    """The transition system of this name, for parsers with or without composition."""
    return SYSTEMS[name].composing() if composition else SYSTEMS[name]
