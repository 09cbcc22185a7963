"""Selected sentences in CoNLL-U, with the arcs that the parser is sure of and the reason in a comment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parser.evaluation.selection import By, Candidate
from parser.system.console import printable
from parser.treebank.conllu_output import (
    with_its_end,
    with_tags,
    with_tree,
    without_enhanced,
    without_marks,
)
from parser.treebank.partial_trees import with_known

REASON = "# selected = "


def lines_of(candidate: Candidate, place: int, by: By, least: float) -> tuple[str, ...]:
    """The lines of a sentence, with the tags that the model predicts where it has none.

    place: position of the sentence in the selection, from 1. Arcs whose confidence is less than `least` are
    left out: HEAD and DEPREL are `_`. Enhanced dependencies, and entries of MISC about an earlier tree, are
    dropped.
    """
    tree, sentence = candidate.tree, with_its_end(candidate.sentence)
    sentence, _ = with_tags(without_marks(sentence), tree.tags, "missing")
    found = replace(sentence, heads=tuple(tree.heads), labels=tuple(tree.labels))
    sure = with_known(found, [confidence >= least for confidence in candidate.confidence])
    lines = with_tree(sentence, sure.heads, sure.labels)
    return _with_comment(
        without_enhanced(lines, sentence.word_lines),
        f"{REASON}{place}, {printable(candidate.file)}:{sentence.line}: {_reason(candidate, by, least)}",
    )


def _reason(candidate: Candidate, by: By, least: float) -> str:
    arcs, left_out = len(candidate.confidence), sum(own < least for own in candidate.confidence)
    doubtful = f"{left_out} left out, with a confidence below {least:g}"
    if by == "random":
        return f"at random; {doubtful}, of {arcs} arcs"
    if by == "disagreement":
        differing = sum(own < 1 for own in candidate.confidence)
        return f"models disagree on {differing} of {arcs} arcs; {doubtful}"
    return f"{candidate.doubts:.1f} of {arcs} arcs are expected to be wrong; {doubtful}"


def _with_comment(lines: Sequence[str], comment: str) -> tuple[str, ...]:
    """The lines with the comment after all others; it replaces the comment of an earlier selection."""
    own = [line for line in lines if not line.startswith(REASON)]
    first = next(number for number, line in enumerate(own) if not line.startswith("#"))
    end = own[first][len(own[first].rstrip("\r\n")) :]
    return (*own[:first], comment + end, *own[first:])
