"""A parsed text as one sequence of characters, whatever its sentences and words are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from parser.enhanced.graph import collapsed_edges
from parser.evaluation.scores import FUNCTIONAL_LABELS, ScoredWord, scored_words
from parser.parsing.parsed_tree import ParsedTree
from parser.text.reading import BLANKS
from parser.text.treebank_text import surface_tokens
from parser.treebank.sentence import Sentence

Span = tuple[int, int]
"""The first character and the one after the last, as indices into the text without white space."""
ROOT = -1


class SegmentedWord(NamedTuple):
    form: str
    span: Span
    """The span of the word's token."""
    is_part: bool
    """Whether the word is a part of a multiword token."""


class SentenceOrigin(NamedTuple):
    identifier: str
    line: int
    """Line number of the sentence in its file."""


@dataclass
class ParsedText:
    """Sentences with their trees, as one sequence of characters, tokens and words."""

    characters: list[str] = field(default_factory=list)
    """The forms of the tokens, without white space."""
    tokens: list[Span] = field(default_factory=list)
    sentences: list[Span] = field(default_factory=list)
    segments: list[SegmentedWord] = field(default_factory=list)
    words: list[ScoredWord] = field(default_factory=list)
    """The words; the head is an index into this list, or ROOT."""
    edges: list[set[tuple[int, str]]] = field(default_factory=list)
    """The enhanced dependencies of each word; the heads are indices into the words, or ROOT."""
    function_words: dict[int, list[int]] = field(default_factory=dict)
    """The function words that depend on each word, as indices."""
    origins: list[SentenceOrigin] = field(default_factory=list)
    """Where each sentence is from."""
    length: int = 0
    """The length of the text in characters."""

    def add(self, sentence: Sentence, tree: ParsedTree) -> None:
        """Append a sentence. tree: with tags to compare; the sentence's tags are used where it has none."""
        start, first, number = self.length, len(self.words), 0
        for token in surface_tokens(sentence):
            # A token can contain spaces in one of the segmentations, and be several tokens in the other.
            form = "".join(token.form.translate(BLANKS).split())
            span = self.length, self.length + len(form)
            self.characters.append(form)
            self.tokens.append(span)
            for word_form in sentence.forms[number : number + token.words]:
                self.segments.append(SegmentedWord(word_form, span, token.words > 1))
            number += token.words
            self.length = span[1]
        self.sentences.append((start, self.length))
        self.origins.append(SentenceOrigin(sentence.identifier, sentence.line))
        graph = collapsed_edges(sentence) if tree.graph is None else tree.graph
        self.edges += [
            {(first + head - 1 if head else ROOT, label) for head, label in of_word} for of_word in graph
        ]
        for index, word in enumerate(scored_words(sentence, tree.heads, tree.labels, tree.tags), first):
            head = first + word.head - 1 if word.head else ROOT
            self.words.append(word._replace(head=head))
            if word.head and word.label in FUNCTIONAL_LABELS:
                self.function_words.setdefault(head, []).append(index)


def parsed_text(sentences: Iterable[tuple[Sentence, ParsedTree]]) -> ParsedText:
    text = ParsedText()
    for sentence, tree in sentences:
        text.add(sentence, tree)
    return text


def gold_text(sentences: Iterable[Sentence]) -> ParsedText:
    return parsed_text((one, ParsedTree(one.heads, one.labels)) for one in sentences)
