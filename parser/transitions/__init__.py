"""What a parser may do, and what an oracle would have it do."""

from parser.transitions.arc_eager import ARC_EAGER
from parser.transitions.arc_hybrid import ARC_HYBRID
from parser.transitions.arc_standard import ARC_STANDARD
from parser.transitions.system import TransitionSystem

SYSTEMS = {system.name: system for system in (ARC_HYBRID, ARC_EAGER, ARC_STANDARD)}


def transition_system(name: str, composition: bool) -> TransitionSystem:
    """By its name; for a parser that composes, or not."""
    return SYSTEMS[name].composing() if composition else SYSTEMS[name]
