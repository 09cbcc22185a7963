"""What a parser may do, and what an oracle would have it do."""

from parser.transitions.arc_eager import ARC_EAGER
from parser.transitions.arc_hybrid import ARC_HYBRID
from parser.transitions.arc_standard import ARC_STANDARD

SYSTEMS = {system.name: system for system in (ARC_HYBRID, ARC_EAGER, ARC_STANDARD)}
