"""A request to parse a sentence, and its state."""

from __future__ import annotations

from concurrent.futures import CancelledError
from threading import Lock
from typing import TYPE_CHECKING, Literal

from parser.batching.device import TooLongError
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.system.machine import is_of_memory
from parser.treebank.sentence import Sentence

if TYPE_CHECKING:
    from parser.parsing.scheduler import RequestSource


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
