"""Writing trees, tags and probabilities into the lines of sentences, and reading probabilities from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from parser.treebank.columns import BLANK, DEPS, HEAD, LABEL, MISC, TITLES, UPOS, WORD_COLUMNS, is_missing
from parser.treebank.sentence import NO_HEAD, Sentence

ARC_PROBABILITY = "ArcProbability"
VIOLATION = "Violation"
"""Key in MISC: the constraints that a word violates."""
ALTERNATIVES = "Alternatives"
"""Key in MISC: heads that a word may have."""
MARKS = ARC_PROBABILITY, VIOLATION, ALTERNATIVES
PROBABILITY = re.compile(rf"{ARC_PROBABILITY}=([01]\.[0-9]+)")
ENHANCED_ARC = re.compile(r"[0-9.]+:")
EMPTY_NODE = re.compile(r"[0-9]+\.")
"""The beginning of the line of an empty node."""
PROJECTIVE_HEAD = re.compile(r"[0-9]+")
"""The value of PHEAD. In CoNLL-X, PHEAD and PDEPREL are in the columns of DEPS and MISC."""
ONE_OF_SEVERAL = re.compile(r"# tree(_score)? = ")
"""Comments of a sentence with several trees."""
SENTENCE_ID, BEGINNING = re.compile(r"#\s*sent_id\s*="), re.compile(r"#\s*new(doc|par)\b")
TREE_SUFFIX = "-tree-"
"""Precedes the number of a tree in `sent_id`, except for the first tree."""
Deps = Literal["drop", "drop-changed", "keep"]
"""What to do with enhanced dependencies: drop all, drop them in sentences whose trees change, or keep all."""


def with_its_end(sentence: Sentence) -> Sentence:
    """The sentence with one blank line after it and none before it, so that sentences can be joined."""
    lines = sentence.lines
    filled = [place for place, line in enumerate(lines) if line.strip()]
    first, last = filled[0], filled[-1]
    line_end = "\r\n" if lines[first].endswith("\r\n") else "\n"
    ended = (*lines[first:last], lines[last].rstrip("\r\n") + line_end, line_end)
    if ended == lines:
        return sentence
    places = tuple(place - first for place in sentence.word_lines)
    return replace(sentence, lines=ended, word_lines=places, line=sentence.line + first)


def as_conllu(sentences: Iterable[Sentence]) -> bytes:
    """The content of a file with these sentences, each followed by a blank line."""
    text = "".join(line for sentence in sentences for line in with_its_end(sentence).lines)
    return text.encode("utf-8", "surrogateescape")


TagsToWrite = Literal["missing", "all", "none"]
"""Which predicted tags, features and lemmas are written: those that are missing (see `is_missing`), all, or
none."""


def with_tags(
    sentence: Sentence, tags: Mapping[str, Sequence[str]], wanted: TagsToWrite
) -> tuple[Sentence, Counter[str]]:
    """The sentence with predicted tags, features and lemmas, and the number of values that were missing, by
    column.

    tags: values by column, see `WORD_COLUMNS`. Only the lines change.
    """
    missing: Counter[str] = Counter()
    if wanted == "none" or not tags:
        return sentence, missing
    lines = list(sentence.lines)
    places = [WORD_COLUMNS[name].place for name in tags]
    for line, *values in zip(sentence.word_lines, *tags.values(), strict=True):
        columns, line_end = _columns(lines[line])
        upos = columns[UPOS]
        for place, value in zip(places, values, strict=True):
            if is_missing(place, columns[place], upos):
                missing[TITLES[place]] += value != BLANK
            elif wanted == "missing":
                continue
            columns[place] = value
        lines[line] = "\t".join(columns) + line_end
    return replace(sentence, lines=tuple(lines)), missing


def with_probabilities(sentence: Sentence, probabilities: Sequence[float]) -> Sentence:
    """The sentence with `ArcProbability=...` in MISC. Raises ValueError like `with_miscellaneous`."""
    return with_miscellaneous(sentence, ARC_PROBABILITY, [f"{each:.4f}" for each in probabilities])


def with_miscellaneous(sentence: Sentence, key: str, values: Sequence[str]) -> Sentence:
    """The sentence with `key=value` in MISC, replacing earlier values; empty values only remove these.

    Raises ValueError if MISC contains the PDEPREL of CoNLL-X.
    """
    lines = list(sentence.lines)
    for place, value in zip(sentence.word_lines, values, strict=True):
        columns, line_end = _columns(lines[place])
        if PROJECTIVE_HEAD.fullmatch(columns[DEPS]):
            message = (
                f"has the PHEAD and PDEPREL of CoNLL-X, so there is no column for {key}; leave out the "
                "option that writes it, or make CoNLL-U of the file"
            )
            raise ValueError(f"line {sentence.line + place}: sentence {sentence.identifier} {message}")
        parts = [
            part for part in columns[MISC].split("|") if part != BLANK and not part.startswith(f"{key}=")
        ]
        columns[MISC] = "|".join([*parts, *([f"{key}={value}"] if value else [])]) or BLANK
        lines[place] = "\t".join(columns) + line_end
    return replace(sentence, lines=tuple(lines))


def without_marks(sentence: Sentence) -> Sentence:
    """The sentence without `MARKS` in MISC, which describe an earlier tree."""
    if not any(f"{key}=" in line for line in sentence.lines for key in MARKS):
        return sentence
    lines = list(sentence.lines)
    for place in sentence.word_lines:
        columns, line_end = _columns(lines[place])
        if not PROJECTIVE_HEAD.fullmatch(columns[DEPS]):  # else it is the PDEPREL of CoNLL-X
            parts = [part for part in columns[MISC].split("|") if part.partition("=")[0] not in MARKS]
            columns[MISC] = "|".join(parts) or BLANK
            lines[place] = "\t".join(columns) + line_end
    return replace(sentence, lines=tuple(lines))


def arc_probabilities(sentence: Sentence) -> list[float]:
    """The probabilities written by `with_probabilities`; words without one are skipped."""
    parts = (
        part for place in sentence.word_lines for part in _columns(sentence.lines[place])[0][MISC].split("|")
    )
    return [float(found[1]) for part in parts if (found := PROBABILITY.fullmatch(part))]


def with_tree(sentence: Sentence, heads: Sequence[int], labels: Sequence[str]) -> tuple[str, ...]:
    """The lines of the sentence with the tree in HEAD and DEPREL; `_` for `NO_HEAD`."""
    lines = list(sentence.lines)
    for place, head, label in zip(sentence.word_lines, heads, labels, strict=True):
        columns = lines[place].split("\t")  # the last one with the line end
        columns[HEAD : LABEL + 1] = BLANK if head == NO_HEAD else str(head), label
        lines[place] = "\t".join(columns)
    return tuple(lines)


def as_one_of(lines: Sequence[str], number: int, count: int, score: float) -> list[str]:
    """The lines of a sentence, with comments that give the number and the score of this tree.

    From the second tree on, `sent_id` contains its number, too, and no document or paragraph begins.
    """
    first = next(place for place, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    line_end = _columns(lines[first])[1] or "\n"
    comments = [line for line in lines[:first] if not ONE_OF_SEVERAL.match(line)]
    if number > 1:
        comments = [
            f"{line.rstrip()}{TREE_SUFFIX}{number}{line_end}" if SENTENCE_ID.match(line) else line
            for line in comments
            if line.strip() and not BEGINNING.match(line)
        ]
    own = f"# tree = {number} of {count}{line_end}", f"# tree_score = {score:.6f}{line_end}"
    words = list(lines[first:])
    if number < count and words[-1].strip():  # the file ends without a blank line, or without a line end
        words[-1:] = words[-1].rstrip("\r\n") + line_end, line_end
    return [*comments, *own, *words]


def without_enhanced(lines: Sequence[str], word_lines: Sequence[int]) -> tuple[str, ...]:
    """The lines of a sentence without enhanced dependencies: with _ in DEPS, and without empty nodes.

    word_lines: the indices of the lines of words. The PHEAD of CoNLL-X, in the column of DEPS, is kept.
    """
    found = list(lines)
    for place in word_lines:
        before, deps, misc = found[place].rsplit("\t", 2)
        if deps != BLANK and ENHANCED_ARC.match(deps):
            found[place] = f"{before}\t_\t{misc}"
    return tuple(line for line in found if not EMPTY_NODE.match(line))


def _columns(line: str) -> tuple[list[str], str]:
    """The columns of a line, and its line end."""
    content = line.rstrip("\r\n")
    return content.split("\t"), line[len(content) :]
