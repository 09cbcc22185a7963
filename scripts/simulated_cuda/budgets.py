"""What training and parsing may ask of a GPU."""

from __future__ import annotations

from typing import NamedTuple


class Launches(NamedTuple):
    """Of kernels in a training step of Ding & Koehn's network; a call of cuDNN counts as one."""

    once: int
    repeated: int
    """For each level of the stacks' forest (replay), or for each step."""

    def of(self, repetitions: int) -> int:
        return self.once + self.repeated * repetitions


LAUNCHES = {"replay": Launches(100, 20), "step": Launches(100, 70)}
UPLOADS = 1
"""Of a batch."""
WAITS_OF_A_TRAINING_STEP = 0
"""The losses are read after every twentieth."""
