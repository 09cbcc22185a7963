"""Asynchronous model-parallel training (AMPNet, Gaunt et al. 2017): a static graph of nodes with messages.

Messages carry states that determine the control flow: a loop is a back edge, a branch is a node that routes
by the state. Many instances are in flight at the same time. Nothing here depends on the application. More
nodes are in `control_flow`, and `processes` runs a graph in several processes.
"""

from parser.batching.messages.asynchronous_updates import Updates, update_all
from parser.batching.messages.message_graph import (
    CONTROLLER,
    Loss,
    Losses,
    MessageGraph,
    Transform,
    losses_of,
)
from parser.batching.messages.workers import Controller, Entry, Instance, Report, run

__all__ = [
    "CONTROLLER",
    "Controller",
    "Entry",
    "Instance",
    "Loss",
    "Losses",
    "MessageGraph",
    "Report",
    "Transform",
    "Updates",
    "losses_of",
    "run",
    "update_all",
]
