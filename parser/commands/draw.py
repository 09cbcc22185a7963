"""`stack-parser draw`: a page with the trees of a file, or drawings of them in text."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from parser.commands.arguments import PAGE
from parser.pages.gold_trees import with_gold
from parser.pages.tree_text import tree_text
from parser.pages.trees_page import trees_page
from parser.system.console import counted, warn
from parser.system.files import STANDARD, atomic_file, refuse_to_overwrite
from parser.treebank.conllu import NO_SENTENCE, stream_sentences
from parser.treebank.faults import TreebankError
from parser.treebank.sentence import Sentence

Pair = tuple[Sentence, Sentence | None]
"""A sentence, and the gold tree of its words."""


def draw_trees(options: argparse.Namespace) -> None:
    """Raises ValueError for files with faults, and for gold trees of other words."""
    output = options.output or (STANDARD if options.text else PAGE)
    if options.treebank == options.gold == STANDARD:
        raise ValueError("standard input can not be both FILE and --gold; give one of them as a file")
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
    """Write all trees. Returns how many these are."""
    if options.text:
        trees = 0
        for sentence, gold in _pairs(options):
            output.write(tree_text(sentence, gold).encode())
            trees += 1
        return trees
    sentences, golds = zip(*_pairs(options), strict=True)
    title = "standard input" if options.treebank == STANDARD else os.path.basename(options.treebank)
    page = trees_page(f"Trees of {title}", sentences, golds if options.gold else None)
    output.write(page.encode(errors="replace"))
    return len(sentences)


def _pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """The sentences with their gold trees, if there are any. Raises TreebankError for an empty file."""
    sentences = stream_sentences(options.treebank, roots=options.roots)
    empty = True
    for pair in _with_gold(options, sentences):
        empty = False
        yield pair
    if empty:
        raise TreebankError(options.treebank, [NO_SENTENCE])


def _with_gold(options: argparse.Namespace, sentences: Iterator[Sentence]) -> Iterator[Pair]:
    if options.gold is None:
        yield from ((sentence, None) for sentence in sentences)
    else:
        gold = stream_sentences(options.gold, roots=options.roots)
        yield from with_gold(options.treebank, sentences, options.gold, gold)
