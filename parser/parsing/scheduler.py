"""The order in which sentences are parsed.

Requests wait in the queues of their sources, such as documents. Sources take turns, so that a small one need
not wait for a large one: the next sentence is from the source that has had the fewest words for its weight
(stride scheduling, Waldspurger & Weihl 1995).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from itertools import count

from parser.parsing.request import Request

WINDOW = 32_768
"""Most words of a source that are sorted by sentence length at a time, or a single longer sentence."""


class RequestSource:
    """The origin of requests that together get as much time as the requests of another source."""

    def __init__(self, weight: float = 1.0):
        """weight: share of the time, relative to other sources. Raises ValueError if it is not above 0."""
        if not weight > 0:
            raise ValueError(f"weight is {weight!r}; it should be above 0")
        self.weight = weight
        self.spent = 0.0
        """Words taken from the source, divided by its weight."""
        self._waiting: deque[Request] = deque()
        self._window: list[Request] = []
        """The next requests, the shortest first."""

    def __len__(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting) + len(self._window)

    def append(self, request: Request) -> None:
        self._waiting.append(request)

    def put_back(self, request: Request) -> None:
        """Make the request the next one."""
        self._window.append(request)

    def next(self) -> Request:
        """The next request: the longest of the window, as a long one at the end would leave rows empty."""
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
    """Chooses the next requests. Not thread-safe."""

    def __init__(self) -> None:
        self.words = 0
        """The number of words of the requests that wait."""
        self._turns: list[tuple[float, int, RequestSource]] = []
        """A heap with one entry for each source that has requests, ordered by `RequestSource.spent`."""
        self._ordinals = count()
        self._spent = 0.0
        """`spent` of the source that had the last turn. A source added later cannot claim earlier time."""

    def __len__(self) -> int:
        """The number of requests that wait."""
        return sum(len(source) for _, _, source in self._turns)

    def add(self, request: Request) -> None:
        self._added(request)
        request.source.append(request)

    def put_back(self, request: Request) -> None:
        """Make the request the next one of its source, which gets back the words that it was charged."""
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
        """The next request of a source with at most `few` requests, as a list; empty if there is none."""
        for turn in sorted(self._turns):
            source = turn[-1]
            if len(source) <= few:
                self._turns.remove(turn)
                heapq.heapify(self._turns)
                return list(filter(None, [self._pop(source)]))
        return []

    def _pop(self, source: RequestSource) -> Request | None:
        """The next request of a source that is not in the heap; None if the request was cancelled."""
        request = source.pop()
        length = len(request.sentence)
        self.words -= length
        runs = request.begin()
        if runs:
            source.spent += length / source.weight
        if len(source):
            self._take_turn(source)
        return request if runs else None

    def take(self, sentences: int, words: float, room: float = math.inf) -> list[Request]:
        """The next requests that have not been cancelled.

        sentences, words: the most of each, except that the first sentence can have more words. room: a limit
        on the words without exception.
        """
        taken: list[Request] = []
        while self._turns and len(taken) < sentences:
            source = self._turns[0][-1]
            length = len(source.next().sentence)
            if length > room or (taken and length > words):
                break
            heapq.heappop(self._turns)
            spent = source.spent
            if request := self._pop(source):
                self._spent = spent
                taken.append(request)
                words, room = words - length, room - length
        return taken
