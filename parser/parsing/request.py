"""A sentence that is to be parsed, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from threading import Lock
from typing import TYPE_CHECKING, Literal

from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence

if TYPE_CHECKING:
    from parser.parsing.scheduler import RequestSource


class Request:
    """Without a lock of its own, unlike `concurrent.futures.Future`: there may be many thousands."""

    __slots__ = ("_callbacks", "_error", "_lock", "_tree", "probabilities", "sentence", "source", "state")

    def __init__(self, sentence: Sentence, probabilities: bool, source: RequestSource, lock: Lock):
        """probabilities: whether the tree is to have those of its arcs. lock: for changes of the state."""
        self.sentence, self.probabilities, self.source = sentence, probabilities, source
        self.state: Literal["waiting", "running", "done", "cancelled"] = "waiting"
        self._lock = lock
        self._tree: ParsedTree | None = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Request], object]] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is done or cancelled."""
        return self.state in ("done", "cancelled")

    def tree(self) -> ParsedTree:
        """Of a request that has ended. Raises what went wrong with the sentence, and CancelledError."""
        if self._error:
            raise self._error
        if not self._tree:
            raise CancelledError
        return self._tree

    def cancel(self) -> bool:
        """Returns whether it is cancelled: not if it was done. A running one leaves the batch soon."""
        self._end("cancelled")
        return self.state == "cancelled"

    def finish(self, tree: ParsedTree) -> None:
        """By the engine; without effect on one that was cancelled."""
        self._end("done", tree)

    def fail(self, error: Exception) -> None:
        """As `finish`."""
        self._end("done", error=error)

    def begin(self) -> bool:
        """By the engine: whether it is running now; not if it has ended."""
        with self._lock:
            if not self.has_ended:
                self.state = "running"
        return not self.has_ended

    def wait_again(self) -> bool:
        """As `begin`: whether it is waiting now."""
        with self._lock:
            if not self.has_ended:
                self.state = "waiting"
        return not self.has_ended

    def when_ended(self, call: Callable[[Request], object]) -> None:
        """Call a function with the request when it ends, in the thread that ends it; now if it has ended."""
        with self._lock:
            if not self.has_ended:
                self._callbacks = [*(self._callbacks or []), call]
                return
        call(self)

    def _end(
        self,
        state: Literal["done", "cancelled"],
        tree: ParsedTree | None = None,
        error: Exception | None = None,
    ) -> None:
        with self._lock:
            if self.has_ended:
                return
            self._tree, self._error, self.state = tree, error, state
            callbacks = self._callbacks or ()
        for call in callbacks:
            call(self)
