"""The interface of tokenizers: the settings of a kind, the tokenizer that they open, and the tokens it finds.

Each kind has a file in this folder, and a line in `tokenizer_kinds.py`. Its settings are the section
`tokenizer` of a config, and are stored in a model's file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from parser.system.settings import Settings
from parser.treebank.conllu_output import sentence_lines
from parser.treebank.sentence import FORM, NO_SPACE, Sentence


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a text. It consists of one syntactic word or, if it is a multiword token, of several."""

    form: str
    start: int
    """Number of characters before the token in the text."""
    end: int
    words: tuple[str, ...]
    """The forms of its syntactic words."""
    space_after: bool
    """Whether white space or the end of the paragraph follows."""

    @property
    def miscellaneous(self) -> str:
        """The column MISC in CoNLL-U."""
        return f"{'' if self.space_after else f'{NO_SPACE}|'}TokenRange={self.start}:{self.end}"


@dataclass(frozen=True, slots=True)
class TokenizedSentence:
    tokens: tuple[Token, ...]
    text: str
    """The sentence in the text, with white space replaced by single spaces."""
    begins_paragraph: bool
    """Set only in raw text, not if each line is a sentence."""

    @classmethod
    def of(cls, paragraph: Paragraph, tokens: Sequence[Token], begins_paragraph: bool) -> TokenizedSentence:
        """tokens: at least one, of the paragraph."""
        text, offset = paragraph
        own = text[tokens[0].start - offset : tokens[-1].end - offset]
        return cls(tuple(tokens), " ".join(own.split()), begins_paragraph)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for token in self.tokens for word in token.words)


def as_sentence(
    tokenized: TokenizedSentence, ordinal: int, told: Callable[[Token], str] = attrgetter("miscellaneous")
) -> Sentence:
    """The sentence without a tree, with its lines in CoNLL-U. ordinal: its number, from 1. told: returns the
    column MISC of a token.
    """
    comments = ["newpar"] if tokenized.begins_paragraph else []
    comments += [f"sent_id = {ordinal}", f"text = {tokenized.text}"]
    tokens = [(token.form, len(token.words), told(token)) for token in tokenized.tokens]
    forms = tokenized.words
    lines, word_lines = sentence_lines({FORM: forms}, tokens, comments)
    return Sentence.without_tree({"forms": forms}, str(ordinal), 1, lines, word_lines)


class Paragraph(NamedTuple):
    """It neither begins nor ends with white space, which consists of blanks and line ends."""

    text: str
    offset: int
    """Number of characters before the paragraph in the text."""


def stripped(text: str, offset: int) -> Iterator[Paragraph]:
    """The paragraph in a text that begins after `offset` characters; nothing if the text is blank."""
    own = text.lstrip()
    if own:
        yield Paragraph(own.rstrip(), offset + len(text) - len(own))


class Tokenizer(Protocol):
    """Finds the sentences and words of texts. Threads may share it."""

    reads_divided_text: bool
    """Whether the tokenizer reads only text in which blanks and lines divide words and sentences."""

    def sentences(self, paragraphs: Iterable[Paragraph], is_sentence: bool) -> Iterator[TokenizedSentence]:
        """The sentences of consecutive paragraphs. is_sentence: whether each paragraph is one sentence."""


class TokenizerKind(Settings):
    """The settings of a kind of tokenizer. A kind that is trained implements all of these methods."""

    is_trained: ClassVar[bool] = False
    """Whether the tokenizer is trained on a treebank."""
    extra: ClassVar[str] = ""
    """The extra of this program with the packages that the kind needs, such as `stack-parser[spacy]`."""

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

    def train(self, train: Path, dev: Path | None) -> bytes:
        """Train the tokenizer and return its content. Runs in a separate process, whose output is logged.

        train, dev: files with tokens, words and spaces in CoNLL-U, see `as_training_text`. Raises ValueError.
        """
        raise NotImplementedError

    def share_done(self, log: str) -> float:
        """The completed share of the training according to its log so far, from 0 to 1."""
        return 0.0

    def dev_scores(self, log: str) -> str:
        """The dev scores in the log, as the end of a message; may be empty."""
        return ""


CUTS = "\n", " "


def in_windows(
    paragraph: str, offset: int, width: int, divide: Callable[[str, int], Iterator[TokenizedSentence]]
) -> Iterator[TokenizedSentence]:
    """Yield the sentences of a paragraph. `divide` reads at most twice `width` characters at a time.

    While a tokenizer written in C runs, no other thread of Python does.
    The last sentence of a window is divided again with what follows it. If it takes half of the window, the
    window is widened once, and then cuts it: so each character is read a few times at most. divide: takes a
    text and the number of characters before it.
    """
    start, begins, window = 0, True, width
    while start < len(paragraph):
        end = start + window
        if end >= len(paragraph):
            end = len(paragraph)
        else:  # at a line end or a blank in the second half of the window, or else anywhere
            ends = (paragraph.rfind(cut, start + window // 2, end) for cut in CUTS)
            end = next((cut for cut in ends if cut > 0), end)
        sentences = list(divide(paragraph[start:end], offset + start))
        last = sentences[-1].tokens[0].start - offset if sentences else end
        if end < len(paragraph) and last - start < width // 2 and window == width:
            window *= 2
            continue
        window = width
        if end < len(paragraph) and last - start >= width // 2 and len(sentences) > 1:
            sentences.pop()
            end = last
        elif sentences and end < len(paragraph) and not paragraph[end].isspace():
            *tokens, token = sentences[-1].tokens
            if token.end >= offset + end:  # the window ends within a word
                tokens.append(replace(token, space_after=False))
                sentences[-1] = replace(sentences[-1], tokens=tuple(tokens))
        for sentence in sentences:
            yield sentence if begins else replace(sentence, begins_paragraph=False)
            begins = False
        start = end


def joined(parts: Iterable[TokenizedSentence]) -> Iterator[TokenizedSentence]:
    """Yield the parts of a sentence as one sentence, if there are any."""
    if of_sentence := list(parts):
        tokens = tuple(token for part in of_sentence for token in part.tokens)
        text = "".join(f"{part.text}{' ' if part.tokens[-1].space_after else ''}" for part in of_sentence)
        yield replace(of_sentence[0], tokens=tokens, text=text.rstrip())
