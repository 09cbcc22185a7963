"""How far a stream of sentences is read ahead of the trees."""

from __future__ import annotations

from parser.parsing.scheduler import WINDOW

READ_AHEAD = 2 * WINDOW
"""In words. The next words are there when the last of a window are done."""


class ReadAhead:
    """Limits the words: few before the first tree, so that it comes early; later enough to fill batches."""

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
