"""A sentence as the parser sees it."""

from __future__ import annotations

from dataclasses import dataclass

NO_HEAD = -1


@dataclass(frozen=True, slots=True)
class Sentence:
    """The syntactic words of a sentence, and the lines of the file that they come from.

    Words count from 1, ROOT is 0; all the tuples begin with word 1. `heads` holds `NO_HEAD` and
    `labels` holds "_" where the tree was not read.
    """

    forms: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    lemmas: tuple[str, ...]
    feats: tuple[str, ...]
    """Morphological features as they stand: "Case=Nom|Number=Sing"."""
    heads: tuple[int, ...]
    labels: tuple[str, ...]
    identifier: str
    """The `sent_id` comment, or "#n" for the n-th sentence of a file without one."""
    line: int
    """Number of the sentence's first line in its file, from 1."""
    lines: tuple[str, ...]
    """Every line as it stood, its line end and the blank lines that follow among them."""
    word_lines: tuple[int, ...]
    """Which of `lines` hold the words: not comments, multiword tokens or empty nodes."""

    def __len__(self) -> int:
        return len(self.forms)
