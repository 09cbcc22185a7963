"""Keeps a process responsive while it parses: its threads share one lock, which each keeps for a while."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from time import monotonic, sleep
from typing import TypeVar

SWITCH_SECONDS = 0.001
"""Time after which a thread has to pass the lock to another one; Python's default is five times as long. An
answer takes several turns."""
OLD_GARBAGE = 1_000
"""Collections of young objects before one of all objects, which stops all threads for up to 0.1 s. Python's
default is ten. Waiting sentences are many objects, and no garbage."""
TURN, BREAK = 0.005, 0.004
"""Seconds of work in C after which a thread sleeps, and for how long. Without it, the event loop, which gives
up Python's lock several times in each answer, would wait for one call after the other."""
Item = TypeVar("Item")


def keep_pauses_short() -> None:
    """Shorten the pauses of this process. To be called when models and other lasting objects are loaded."""
    gc.collect()
    gc.freeze()  # objects that exist now are not visited again
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, OLD_GARBAGE)
    sys.setswitchinterval(SWITCH_SECONDS)


def with_breaks(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, made by a library in C, and let other threads run in between."""
    began = monotonic()
    for item in items:
        if monotonic() - began > TURN:
            sleep(BREAK)
            began = monotonic()
        yield item
