"""`stack-parser draw`: draw the trees of a file as a page or as text."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from parser.enhanced.graph import Edge, beside_tree, given_edges
from parser.pages.drawing import as_text
from parser.pages.trees_page import differences, scores_of, text_of, trees_page, with_gold
from parser.system.console import counted, shortened, warn
from parser.system.files import STANDARD, atomic_file, refuse_to_overwrite
from parser.treebank.conllu import NO_SENTENCE, stream_sentences
from parser.treebank.conllu_faults import TreebankError
from parser.treebank.sentence import Sentence

CONTROLS = dict.fromkeys([*range(32), *range(127, 160)], "�")
"""Characters that could control the terminal, and their replacements."""
Pair = tuple[Sentence, Sentence | None]
"""A sentence, and its gold tree."""


def draw_trees(options: argparse.Namespace) -> None:
    """Draw trees. Raises ValueError for files with faults, and for gold trees of other words."""
    if options.output is None and not options.text:
        raise ValueError("a page needs a name, such as -o trees.html; --text draws in the terminal")
    output = options.output or STANDARD
    if options.treebank == options.gold == STANDARD:
        raise ValueError("standard input cannot be both FILE and --gold; give one of them as a file")
    refuse_to_overwrite(output, filter(None, (options.treebank, options.gold)))
    if output != STANDARD:
        with atomic_file(output) as file:
            trees = _draw(options, file)
        warn(f"{output}: {counted(trees, 'tree')}")
    elif sys.stdout is None:
        raise ValueError("standard output is closed; name a file with -o")
    else:
        _draw(options, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _draw(options: argparse.Namespace, output: BinaryIO) -> int:
    """Write all trees, and return their number."""
    if options.text:
        trees = 0
        for sentence, gold in _pairs(options):
            output.write(_tree_text(sentence, gold).encode())
            trees += 1
        return trees
    sentences, golds = zip(*_pairs(options), strict=True)
    title = "standard input" if options.treebank == STANDARD else os.path.basename(options.treebank)
    page = trees_page(f"Trees of {title}", sentences, golds if options.gold else None)
    output.write(page.encode(errors="replace"))
    return len(sentences)


def _tree_text(sentence: Sentence, gold: Sentence | None = None) -> str:
    """Return the identifier, the text and the tree of a sentence, followed by an empty line.

    With gold, a line of scores is included, and each wrong word is followed by its gold arc. Enhanced
    dependencies from other heads than in the tree follow their words, too.
    """
    lines = [f"# sent_id = {sentence.identifier}", f"# text = {text_of(sentence)}"]
    notes = [""] * len(sentence)
    named = ("ROOT", *map(shortened, sentence.forms))
    if gold is not None:
        scores = scores_of([sentence], [gold])
        lines.append(f"# UAS {scores['uas']:.2f}, LAS {scores['las']:.2f}")
        for word, (head, label, error) in differences(sentence, gold).items():
            if error:
                notes[word - 1] = f"✗ gold: {label} of {named[head]}".translate(CONTROLS)
    for word, head, label in beside_tree(_edges_of(sentence), sentence.heads):
        notes[word - 1] += f"{'  ' if notes[word - 1] else ''}+ {label} of {named[head]}".translate(CONTROLS)
    words = [form.translate(CONTROLS) for form in sentence.forms]
    labels = [label.translate(CONTROLS) for label in sentence.labels]
    drawing = as_text(words, sentence.heads, labels, notes)
    return "\n".join([*(line.translate(CONTROLS) for line in lines), drawing, "", ""])


def _edges_of(sentence: Sentence) -> list[list[Edge]]:
    """The enhanced dependencies of each word; none if DEPS cannot be read."""
    try:
        return given_edges(sentence)
    except ValueError:
        return [[]] * len(sentence)


def _pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Yield the sentences with their gold trees, if given. Raises TreebankError for an empty file."""
    sentences = stream_sentences(options.treebank, roots=options.roots)
    pairs: Iterator[Pair] = ((sentence, None) for sentence in sentences)
    if options.gold is not None:
        gold = stream_sentences(options.gold, roots=options.roots)
        pairs = with_gold(options.treebank, sentences, options.gold, gold)
    is_empty = True
    for pair in pairs:
        is_empty = False
        yield pair
    if is_empty:
        raise TreebankError(options.treebank, [NO_SENTENCE])
