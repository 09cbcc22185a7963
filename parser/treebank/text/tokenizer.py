"""The interface of tokenizers: the settings of a kind, and the tokenizer that they open.

Each kind has a file in this folder, and a line in `tokenizer_kinds.py`. Its settings are the section
`tokenizer` of a config, and are stored in a model's file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

from parser.system.settings import Settings
from parser.treebank.text.sentences import TokenizedSentence


class Tokenizer(Protocol):
    """Finds the sentences and words of texts. Threads may share it."""

    reads_divided_text: bool
    """Whether the tokenizer reads only text in which blanks and lines divide words and sentences."""

    def sentences(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        """The sentences of a paragraph, whose white space consists of blanks and line ends.

        offset: number of characters before the paragraph in the text. is_sentence: whether the paragraph is
        one sentence.
        """


class TokenizerKind(Settings):
    """The settings of a kind of tokenizer. A kind that is trained implements all of these methods."""

    is_trained: ClassVar[bool] = False
    """Whether the tokenizer is trained on a treebank."""
    extra: ClassVar[str] = ""
    """The extra of this program with the packages that the kind needs, such as `stack-parser[text]`."""

    kind: str
    """A literal that identifies the kind."""

    def refuse_missing(self) -> None:
        """Raises ValueError, which says what to install, if a package that the kind needs is missing."""

    def refuse_unsound(self, content: bytes) -> None:
        """Raises ValueError for content that is not from `train`, before another process opens it."""

    def opened(self, content: bytes) -> Tokenizer:
        """Open a tokenizer. content: the result of `train`, perhaps from a stranger; empty if not trained.

        Raises ValueError for any other content, and if `refuse_missing` does.
        """
        raise NotImplementedError

    def train(self, train: str, dev: str) -> bytes:
        """Train the tokenizer and return its content. Runs in a separate process, whose output is logged.

        train, dev: tokens, words and spaces in CoNLL-U, see `as_training_text`; dev is empty if there is
        none. Raises ValueError.
        """
        raise NotImplementedError

    def share_done(self, log: str) -> float:
        """The completed share of the training according to its log so far, from 0 to 1."""
        return 0.0

    def dev_scores(self, log: str) -> str:
        """The dev scores in the log, as the end of a message; may be empty."""
        return ""
