"""How far a stream of sentences is read before those that were read are parsed."""

from __future__ import annotations

from parser.parsing.scheduler import WINDOW

READ_AHEAD = 2 * WINDOW
"""Words, so that the next ones are there when the last of a window end."""


class ReadAhead:
    """Few words before the first tree, so that it comes early, and later enough to fill batches."""

    def __init__(self, begin_with: int, most: int = READ_AHEAD):
        """Words that are read and not yielded, before the first tree, and later."""
        self._most = most
        self._most_now = min(begin_with, most)
        self._words = 0

    @property
    def room(self) -> int:
        """Words that may be read. A sentence of more words may be, too, if this is above 0."""
        return self._most_now - self._words

    def read(self, words: int) -> None:
        self._words += words

    def yielded(self, words: int) -> None:
        """The trees of so many words."""
        self._words -= words
        self._most_now = self._most
