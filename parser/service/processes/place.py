"""The file descriptors through which a worker reaches the other processes."""

from __future__ import annotations

import os
from typing import NamedTuple

PLACE = "PARSER_PLACE"
"""The environment variable that holds the place of a worker."""


class WorkerPlace(NamedTuple):
    channel: int
    """The descriptor of the channel to the supervisor."""
    answering: int
    """The descriptor at which this worker receives questions, see `QuestionPairs`."""
    asking: tuple[int, ...]
    """The descriptors for sending questions to all workers."""

    @classmethod
    def of_this_process(cls) -> WorkerPlace | None:
        """Return the place of this process, or None if it is not a worker."""
        if PLACE not in os.environ:
            return None
        channel, answering, *asking = map(int, os.environ[PLACE].split())
        return cls(channel, answering, tuple(asking))

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.channel, self.answering, *self.asking)

    def variable(self) -> dict[str, str]:
        """Return the environment variable for the worker that has this place."""
        return {PLACE: " ".join(map(str, self.descriptors))}
