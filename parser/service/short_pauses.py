"""A process that answers soon while it parses: its threads have one lock, and Python keeps it for a while."""

from __future__ import annotations

import gc
import sys

SWITCH_SECONDS = 0.001
"""After which a thread has to give the lock to another one; usually five times as much. An answer takes
several turns."""
OLD_GARBAGE = 100
"""Collections of young objects before one of all objects, which stops all threads for tens of milliseconds;
usually ten. Sentences that wait are many objects, and no garbage."""


def keep_pauses_short() -> None:
    """To be called when models and all else that stays are loaded. For the whole process."""
    gc.collect()
    gc.freeze()  # what is there now is not looked through again and again
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, OLD_GARBAGE)
    sys.setswitchinterval(SWITCH_SECONDS)
