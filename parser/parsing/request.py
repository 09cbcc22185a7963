"""A sentence that is to be parsed, and what becomes of it."""

from __future__ import annotations

from concurrent.futures import CancelledError
from threading import Lock
from typing import TYPE_CHECKING, Literal

from parser.batching.device import TooLongError
from parser.parsing.parse_options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.system.machine import is_of_memory
from parser.treebank.sentence import Sentence

if TYPE_CHECKING:
    from parser.parsing.scheduler import RequestSource


class Request:
    """Without a lock of its own, unlike `concurrent.futures.Future`: there may be many thousands."""

    __slots__ = ("_error", "_lock", "_tree", "options", "sentence", "source", "state")

    def __init__(self, sentence: Sentence, options: ParseOptions, source: RequestSource, lock: Lock):
        """lock: for changes of the state."""
        self.sentence, self.options, self.source = sentence, options, source
        self.state: Literal["waiting", "running", "done", "cancelled"] = "waiting"
        self._lock = lock
        self._tree: ParsedTree | None = None
        self._error: Exception | None = None

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
        """As `finish`. That there is too little memory becomes a ValueError with the name of the sentence."""
        if is_of_memory(error) and not error.__cause__:  # with one, it is the engine that failed
            too_long = TooLongError(0, len(self.sentence))
            error = ValueError(f"sentence {self.sentence.identifier}: {too_long}")
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

    def _end(
        self,
        state: Literal["done", "cancelled"],
        tree: ParsedTree | None = None,
        error: Exception | None = None,
    ) -> None:
        """Without effect on one that has ended."""
        with self._lock:
            if not self.has_ended:
                self._tree, self._error, self.state = tree, error, state
                self._note_end()

    def _note_end(self) -> None:
        """Called with the lock, once."""
