"""Keeps a process responsive while it parses: its threads share one lock, which each keeps for a while."""

from __future__ import annotations

import gc
import sys

SWITCH_SECONDS = 0.001
"""Time after which a thread has to pass the lock to another one; Python's default is five times as long. An
answer takes several turns."""
OLD_GARBAGE = 1_000
"""Collections of young objects before one of all objects, which stops all threads for up to 0.1 s. Python's
default is ten. Waiting sentences are many objects, and no garbage."""


def keep_pauses_short() -> None:
    """Shorten the pauses of this process. To be called when models and other lasting objects are loaded."""
    gc.collect()
    gc.freeze()  # objects that exist now are not visited again
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, OLD_GARBAGE)
    sys.setswitchinterval(SWITCH_SECONDS)
