"""Batching of irregular computation, independent of sentences and parsers.

Stacks, StackLSTMs and their replay, forests and levels are found here by their names. Three ways of batching
have packages of their own: `parser.batching.operations`, on the fly; `parser.batching.recurrence`, of
recurrent networks as graphs of layers; and `parser.batching.messages`, asynchronous training. PyTorch is
imported when a name is first used.

>>> from parser.batching import HOLD, PUSH, StackLSTM
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from parser.batching.forest_lstm import SortedForest, StackForest, lstm_over_forest
    from parser.batching.groups import Groups
    from parser.batching.levels import batches, depths, heights
    from parser.batching.ragged import Ragged
    from parser.batching.stack import Stack
    from parser.batching.stack_lstm import StackLSTM
    from parser.batching.stack_operations import HOLD, POP, PUSH, REDUCE_AND_REPLACE, REPLACE, StackOperation

__all__ = [
    "HOLD",
    "POP",
    "PRECISIONS",
    "PUSH",
    "REDUCE_AND_REPLACE",
    "REPLACE",
    "Groups",
    "Precision",
    "Ragged",
    "SortedForest",
    "Stack",
    "StackForest",
    "StackLSTM",
    "StackOperation",
    "batches",
    "depths",
    "heights",
    "lstm_over_forest",
]
_HOMES = {
    "forest_lstm": ("SortedForest", "StackForest", "lstm_over_forest"),
    "groups": ("Groups",),
    "levels": ("batches", "depths", "heights"),
    "ragged": ("Ragged",),
    "stack": ("Stack",),
    "stack_lstm": ("StackLSTM",),
    "stack_operations": ("HOLD", "POP", "PUSH", "REDUCE_AND_REPLACE", "REPLACE", "StackOperation"),
}
Precision: TypeAlias = Literal["float32", "tf32", "bfloat16"]
"""The precision of matrix products. float32: exact. tf32: factors of 10 bits, on CUDA. bfloat16: factors of
7 bits, sums in float32; on a CPU the sums are rounded to bfloat16."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
