"""Which sentences are parsed next.

Requests wait in the queues of their sources, such as documents. Sources take turns, so that a small one is
not behind a large one: the next sentence is of the source that has had the fewest words for its weight
(stride scheduling, Waldspurger & Weihl 1995).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from itertools import count

from parser.parsing.request import Request

WINDOW = 32_768
"""Words of a source that are sorted by sentence length at a time, or a single longer sentence."""


class RequestSource:
    """Where requests come from that are to get as much of the time together as those of another source."""

    def __init__(self, weight: float = 1.0):
        """weight: how much of the time its requests get, compared with others. Raises ValueError."""
        if not weight > 0:
            raise ValueError(f"weight is {weight!r}; it should be above 0")
        self.weight = weight
        self.spent = 0.0
        """Words that it has had, divided by its weight."""
        self._waiting: deque[Request] = deque()
        self._window: list[Request] = []
        """The next ones, the shortest first."""

    def __len__(self) -> int:
        """Requests that wait."""
        return len(self._waiting) + len(self._window)

    def append(self, request: Request) -> None:
        self._waiting.append(request)

    def put_back(self, request: Request) -> None:
        """It is the next one."""
        self._window.append(request)

    def next(self) -> Request:
        """The longest first, so that no long sentence remains at the end, when rows of a batch are empty."""
        if not self._window:
            words = 0
            while self._waiting and (not words or words + len(self._waiting[0].sentence) <= WINDOW):
                request = self._waiting.popleft()
                words += len(request.sentence)
                self._window.append(request)
            self._window.sort(key=lambda request: len(request.sentence))
        return self._window[-1]

    def pop(self) -> Request:
        request = self.next()
        self._window.pop()
        return request


class Scheduler:
    """Not safe for several threads."""

    def __init__(self) -> None:
        self.words = 0
        """Of the requests that wait."""
        self._turns: list[tuple[float, int, RequestSource]] = []
        """A heap of the sources that have requests, each once: with the words for their weight."""
        self._ordinals = count()
        self._spent = 0.0
        """Of the source that had the last turn. One that comes later has no claim to time before."""

    def __len__(self) -> int:
        """Requests that wait."""
        return sum(len(source) for _, _, source in self._turns)

    def add(self, request: Request) -> None:
        self._added(request)
        request.source.append(request)

    def put_back(self, request: Request) -> None:
        """It is the next one of its source; the words that it was charged for are given back."""
        request.source.spent -= len(request.sentence) / request.source.weight
        self._added(request)
        request.source.put_back(request)

    def _added(self, request: Request) -> None:
        source = request.source
        self.words += len(request.sentence)
        if not len(source):
            source.spent = max(source.spent, self._spent)
            self._take_turn(source)

    def _take_turn(self, source: RequestSource) -> None:
        heapq.heappush(self._turns, (source.spent, next(self._ordinals), source))

    def take_of_small(self, few: int) -> list[Request]:
        """The next request, if it is there, of a source of which at most so many wait."""
        for turn in sorted(self._turns):
            source = turn[-1]
            if len(source) <= few:
                self._turns.remove(turn)
                heapq.heapify(self._turns)
                return list(filter(None, [self._pop(source)]))
        return []

    def _pop(self, source: RequestSource) -> Request | None:
        """The next request of a source that is not in the heap; None if that was cancelled."""
        request = source.pop()
        length = len(request.sentence)
        self.words -= length
        runs = request.begin()
        if runs:
            self._spent = source.spent
            source.spent += length / source.weight
        if len(source):
            self._take_turn(source)
        return request if runs else None

    def take(self, sentences: int, words: float, room: float = math.inf) -> list[Request]:
        """The next requests that have not been cancelled, at most so many sentences and words, or one longer.

        room: words that are never exceeded.
        """
        taken: list[Request] = []
        while self._turns and len(taken) < sentences:
            source = self._turns[0][-1]
            length = len(source.next().sentence)
            if length > room or (taken and length > words):
                break
            heapq.heappop(self._turns)
            if request := self._pop(source):
                taken.append(request)
                words, room = words - length, room - length
        return taken
