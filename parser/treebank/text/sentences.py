"""Sentences found in a text, and their lines in CoNLL-U."""

from __future__ import annotations

import re
from dataclasses import dataclass

from parser.treebank.columns import BLANK, BLANK_COLUMNS, NO_SPACE
from parser.treebank.conllu_output import TREE_SUFFIX
from parser.treebank.sentence import Sentence

SENTENCE_ID_LINE = re.compile(rb"(?m)^# sent_id = (\d+)(?=$|%b)" % TREE_SUFFIX.encode())


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

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for token in self.tokens for word in token.words)


def as_sentence(found: TokenizedSentence, ordinal: int) -> Sentence:
    """Return the sentence without a tree, with its lines in CoNLL-U. ordinal: its number, from 1."""
    lines = ["# newpar\n"] if found.begins_paragraph else []
    lines += [f"# sent_id = {ordinal}\n", f"# text = {found.text}\n"]
    word_lines: list[int] = []
    for token in found.tokens:
        first = len(word_lines) + 1
        miscellaneous = token.miscellaneous
        if len(token.words) > 1:
            numbers = f"{first}-{first + len(token.words) - 1}"
            lines.append(f"{numbers}\t{token.form}\t{BLANK_COLUMNS}\t{miscellaneous}\n")
            miscellaneous = BLANK
        for number, word in enumerate(token.words, first):
            word_lines.append(len(lines))
            lines.append(f"{number}\t{word}\t{BLANK_COLUMNS}\t{miscellaneous}\n")
    lines.append("\n")
    return Sentence.without_tree({"forms": found.words}, str(ordinal), 1, lines, word_lines)


def numbered_from(before: int, content: bytes) -> bytes:
    """Renumber lines of `as_sentence`, whose numbers start at 1. before: the number of earlier sentences."""
    return SENTENCE_ID_LINE.sub(lambda line: b"# sent_id = %d" % (before + int(line[1])), content)
