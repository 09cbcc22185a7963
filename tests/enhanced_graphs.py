"""Treebanks with enhanced dependencies, made from treebanks without, and the official validator."""

from __future__ import annotations

import io
from collections import Counter

from udtools.validator import Validator

from parser.treebank.conllu import Block, blocks
from parser.treebank.sentence import DEPS, HEAD, ID, LABEL, WORD_ID


def with_graphs(text: str) -> str:
    """The treebank, which has no graphs, with its trees in DEPS and an empty node in every third sentence."""
    return "".join(map(_with_graph, blocks(io.StringIO(text, newline="\n"))))


def _with_graph(block: Block) -> str:
    lines, words = list(block.lines), []
    for place, line in enumerate(lines):
        columns = line.split("\t")
        if WORD_ID.fullmatch(columns[ID]):
            words.append(place)
            columns[DEPS] = f"{columns[HEAD]}:{columns[LABEL]}"
            lines[place] = "\t".join(columns)
    if block.ordinal % 3 == 0:
        columns = lines[words[0]].split("\t")
        columns[DEPS] += f"|{len(words)}.1:dep"
        lines[words[0]] = "\t".join(columns)
        node = f"{len(words)}.1\tand\tand\tCCONJ\t_\t_\t_\t_\t1:dep\tCopyOf=1\n"
        lines.insert(words[-1] + 1, node)
    return "".join(lines)


def official_errors(text: str) -> Counter[str]:
    """The number of errors, by check, that the validator of Universal Dependencies finds up to level 2."""
    validator = Validator(level=2, output=None)
    state = validator.validate_file_handle(io.StringIO(text))
    return Counter(error.testid for error in validator.validate_end(state).error_tracker if error.is_error())
