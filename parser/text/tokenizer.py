"""What a tokenizer is: the settings of a kind, and what they open.

Each kind has a file in this folder, and a line in `tokenizer_kinds.py`. Its settings are the section
`tokenizer` of a config, and stand in the file of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

from parser.system.settings import Settings
from parser.text.sentences import TokenizedSentence


class Tokenizer(Protocol):
    """Finds the sentences and words of texts. Threads may share it."""

    reads_divided_text: bool
    """Whether it finds nothing itself: blanks and lines of its texts divide words and sentences."""

    def sentences(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        """The sentences of a paragraph, whose white space is blanks and line ends.

        offset: characters of the text before the paragraph. is_sentence: whether it is one sentence.
        """


class TokenizerKind(Settings):
    """The settings of a kind of tokenizers. One that is trained has all of these methods."""

    is_trained: ClassVar[bool] = False
    """Whether it is trained on a treebank."""
    extra: ClassVar[str] = ""
    """That of this program which has the packages that the kind needs, as in `stack-parser[text]`."""

    kind: str
    """A literal, by which the kind is known."""

    def refuse_missing(self) -> None:
        """Raises ValueError, which says what to install, if a package that the kind needs is not there."""

    def refuse_unsound(self, content: bytes) -> None:
        """Raises ValueError for a content that is not what `train` gives, before another process opens it."""

    def opened(self, content: bytes) -> Tokenizer:
        """content: what `train` gave, here or to a stranger; empty for kinds that are not trained.

        Raises ValueError for another content, whatever it is, and what `refuse_missing` raises.
        """
        raise NotImplementedError

    def train(self, train: str, dev: str) -> bytes:
        """Runs in a process of its own, whose output is kept as a log.

        train, dev: tokens, words and spaces in CoNLL-U, see `as_training_text`; dev is empty if there is
        none. Raises ValueError.
        """
        raise NotImplementedError

    def share_done(self, log: str) -> float:
        """How much of the training is done by its log so far, from 0 to 1."""
        return 0.0

    def dev_scores(self, log: str) -> str:
        """What the log says of the tokenizer on the dev set, as the end of a message; may be empty."""
        return ""
