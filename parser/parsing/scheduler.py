"""Requests to parse sentences, and the order in which they are served.

Requests wait in the queues of their sources, such as documents. Sources take turns, so that a small one need
not wait for a large one: the next sentence is from the source that has had the fewest words for its weight
(stride scheduling, Waldspurger & Weihl 1995).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from concurrent.futures import CancelledError
from itertools import count
from threading import Lock
from typing import Literal

from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.system.machine import TooLongError, is_of_memory
from parser.treebank.sentence import Sentence

WINDOW = 32_768
"""Most words of a source that are sorted by sentence length at a time, or a single longer sentence."""
READ_AHEAD = 2 * WINDOW
"""Words of a stream that are read ahead of its trees. The next are there when a window is done."""


class Request:
    """A sentence to parse, and then its tree or error.

    Unlike `concurrent.futures.Future`, it has no lock of its own, because there may be many thousands.
    """

    __slots__ = ("_error", "_lock", "_tree", "options", "sentence", "source", "state")

    def __init__(self, sentence: Sentence, options: ParseOptions, source: RequestSource, lock: Lock):
        """lock: held while the state changes."""
        self.sentence, self.options, self.source = sentence, options, source
        self.state: Literal["waiting", "running", "done", "cancelled"] = "waiting"
        self._lock = lock
        self._tree: ParsedTree | None = None
        self._error: Exception | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the request is done or cancelled."""
        return self.state in ("done", "cancelled")

    def tree(self) -> ParsedTree:
        """The tree, once the request has ended. Raises the error of the sentence, or CancelledError."""
        if self._error:
            raise self._error
        if not self._tree:
            raise CancelledError
        return self._tree

    def cancel(self) -> bool:
        """Cancel the request unless it is done. A running one leaves the batch soon.

        Returns whether it is cancelled.
        """
        self._end("cancelled")
        return self.state == "cancelled"

    def finish(self, tree: ParsedTree) -> None:
        """Set the tree. Called by the engine; has no effect on a cancelled request."""
        self._end("done", tree)

    def fail(self, error: Exception) -> None:
        """Set the error, like `finish`. Lack of memory becomes a ValueError that names the sentence."""
        if is_of_memory(error) and not error.__cause__:  # with a cause, the engine itself has failed
            error = TooLongError(0, len(self.sentence), f"sentence {self.sentence.identifier}: ")
        self._end("done", error=error)

    def begin(self) -> bool:
        """Start the request unless it has ended; called by the engine. Returns whether it is running now."""
        with self._lock:
            if not self.has_ended:
                self.state = "running"
        return not self.has_ended

    def wait_again(self) -> bool:
        """Let the request wait again unless it has ended. Returns whether it is waiting now."""
        with self._lock:
            if not self.has_ended:
                self.state = "waiting"
        return not self.has_ended

    def _end(
        self,
        state: Literal["done", "cancelled"],
        tree: ParsedTree | None = None,
        error: Exception | None = None,
    ) -> None:
        """Set the final state. Has no effect on a request that has ended."""
        with self._lock:
            if not self.has_ended:
                self._tree, self._error, self.state = tree, error, state
                self._note_end()

    def _note_end(self) -> None:
        """Called once, while the lock is held."""


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

    def take(
        self, sentences: int, words: float, room: float = math.inf, shared: int | None = None
    ) -> list[Request]:
        """The next requests that have not been cancelled.

        sentences, words: the most of each, except that the first sentence can have more words. room: a limit
        on the words without exception. shared: if several sources wait, the most sentences of those that have
        more of them.
        """
        taken: list[Request] = []
        left = sentences if shared is None or len(self._turns) == 1 else shared
        while self._turns and len(taken) < sentences and left > 0:
            source = self._turns[0][-1]
            length = len(source.next().sentence)
            if length > room or (taken and length > words):
                break
            heapq.heappop(self._turns)
            spent = source.spent
            if request := self._pop(source):
                left -= len(source) > 0
                self._spent = spent
                taken.append(request)
                words, room = words - length, room - length
        return taken


class ReadAhead:
    """How far a stream is read ahead of its trees: first a little, so that a tree comes early, then more."""

    def __init__(self, begin_with: int, most: int = READ_AHEAD):
        """begin_with, most: words that are read and not yet yielded, before the first tree and later."""
        self._most = most
        self._most_now = min(begin_with, most)
        self._words = 0

    @property
    def room(self) -> int:
        """Words that can be read. If this is above 0, a longer sentence can be read, too."""
        return self._most_now - self._words

    def read(self, words: int) -> None:
        self._words += words

    def yielded(self, words: int) -> None:
        """Note that the trees of so many words were yielded."""
        self._words -= words
        self._most_now = self._most
