"""What a worker knows of the others."""

from __future__ import annotations

import os
from typing import NamedTuple

PLACE = "PARSER_PLACE"
"""Environment variable of a worker, which has its place."""


class WorkerPlace(NamedTuple):
    channel: int
    """The descriptor of the channel."""
    answering: int
    """The one at which it is asked, see `QuestionPairs`."""
    asking: tuple[int, ...]
    """Those at which all are asked."""

    @classmethod
    def of_this_process(cls) -> WorkerPlace | None:
        """None if it is no worker."""
        if PLACE not in os.environ:
            return None
        channel, answering, *asking = map(int, os.environ[PLACE].split())
        return cls(channel, answering, tuple(asking))

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.channel, self.answering, *self.asking)

    def variable(self) -> dict[str, str]:
        """Of the environment of the worker that has this place."""
        return {PLACE: " ".join(map(str, self.descriptors))}
