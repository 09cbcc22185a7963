"""Writing CoNLL-U: the lines of new sentences, and trees, tags and probabilities in the lines of others.

`arc_probabilities` reads written probabilities.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from parser.treebank.sentence import (
    BLANK,
    DEPS,
    FORM,
    HEAD,
    LABEL,
    LEMMA,
    MISC,
    NO_HEAD,
    TITLES,
    UPOS,
    WORD_COLUMNS,
    Sentence,
    is_missing,
)

ARC_PROBABILITY = "ArcProbability"
VIOLATION = "Violation"
"""Key in MISC: the constraints that a word violates."""
ALTERNATIVES = "Alternatives"
"""Key in MISC: heads that a word may have."""
TAG_PROBABILITIES = {name: f"{name.title()}Probability" for name in ("upos", "xpos", "feats", "lemma")}
"""Keys in MISC by predicted column: how probable the value of the column is."""
MARKS = ARC_PROBABILITY, *TAG_PROBABILITIES.values(), VIOLATION, ALTERNATIVES
BLANK_COLUMNS = "\t".join([BLANK] * (MISC - LEMMA))
"""The columns between FORM and MISC if nothing but the form is known."""
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
NUMBERED = re.compile(rb"(?m)^# sent_id = (\d+)(?=$|%b)" % TREE_SUFFIX.encode())
"""The comment of a sentence of a text, whose `sent_id` is its number."""
Deps = Literal["predict", "drop", "drop-changed", "keep"]
"""What to do with enhanced dependencies: write what the model predicts, if it does, and drop the others; drop
all; drop them in sentences whose trees change; or keep all."""
TagsToWrite = Literal["missing", "all", "none"]
"""Which predicted tags, features and lemmas are written: those that are missing (see `is_missing`), all, or
none."""


def sentence_lines(
    columns: Mapping[int, Sequence[str]],
    tokens: Iterable[tuple[str, int, str]] = (),
    comments: Iterable[str] = (),
) -> tuple[list[str], list[int]]:
    """The lines of a new sentence, with the blank line after it, and the indices of the lines of its words.

    columns: the values of the words by column; `_` in columns that are absent. tokens: for each token of the
    text its form, its number of words, and MISC, which is put before the word's MISC or, for a multiword
    token, into the line of the token. comments: such as "text = It rains."
    """
    blank = [BLANK] * len(columns[FORM])
    others: Iterable[str] = [BLANK_COLUMNS] * len(blank)
    if not columns.keys() <= {FORM, MISC}:
        others = map("\t".join, zip(*(columns.get(each, blank) for each in range(LEMMA, MISC)), strict=True))
    miscellaneous = list(columns.get(MISC, blank))
    multiword: dict[int, str] = {}  # lines by the number of the first word
    first = 1
    for form, words, value in tokens:
        if words > 1:
            multiword[first] = f"{first}-{first + words - 1}\t{form}\t{BLANK_COLUMNS}\t{value}\n"
        elif value != BLANK:
            of_word = miscellaneous[first - 1]
            miscellaneous[first - 1] = value if of_word == BLANK else f"{value}|{of_word}"
        first += words
    lines = [f"# {comment}\n" for comment in comments]
    word_lines = []
    rows = zip(columns[FORM], others, miscellaneous, strict=True)
    for number, (form, between, value) in enumerate(rows, 1):
        if number in multiword:
            lines.append(multiword[number])
        word_lines.append(len(lines))
        lines.append(f"{number}\t{form}\t{between}\t{value}\n")
    lines.append("\n")
    return lines, word_lines


def with_its_end(sentence: Sentence) -> Sentence:
    """The sentence with one blank line after it and none before it, so that sentences can be joined."""
    lines = sentence.lines
    filled = [index for index, line in enumerate(lines) if line.strip()]
    first, last = filled[0], filled[-1]
    line_end = "\r\n" if lines[first].endswith("\r\n") else "\n"
    ended = (*lines[first:last], lines[last].rstrip("\r\n") + line_end, line_end)
    if ended == lines:
        return sentence
    word_lines = tuple(index - first for index in sentence.word_lines)
    return replace(sentence, lines=ended, word_lines=word_lines, line=sentence.line + first)


def as_conllu(sentences: Iterable[Sentence]) -> bytes:
    """The content of a file with these sentences, each followed by a blank line."""
    text = "".join(line for sentence in sentences for line in with_its_end(sentence).lines)
    return text.encode("utf-8", "surrogateescape")


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
    predicted = [WORD_COLUMNS[name].index for name in tags]
    for index, *values in zip(sentence.word_lines, *tags.values(), strict=True):
        columns, line_end = _columns(lines[index])
        upos = columns[UPOS]
        for column, value in zip(predicted, values, strict=True):
            if is_missing(column, columns[column], upos):
                missing[TITLES[column]] += value != BLANK
            elif wanted == "missing":
                continue
            columns[column] = value
        lines[index] = "\t".join(columns) + line_end
    return replace(sentence, lines=tuple(lines)), missing


def with_probabilities(sentence: Sentence, probabilities: Sequence[float]) -> Sentence:
    """The sentence with `ArcProbability=...` in MISC. Raises ValueError like `with_miscellaneous`."""
    return with_miscellaneous(sentence, ARC_PROBABILITY, [f"{each:.4f}" for each in probabilities])


def with_tag_probabilities(
    sentence: Sentence,
    tags: Mapping[str, Sequence[str]],
    probabilities: Mapping[str, Sequence[float]],
    below: float = math.inf,
) -> Sentence:
    """The sentence with `UposProbability=...` and the like in MISC, for values that are in its lines: 1 for
    those that are not predicted.

    tags, probabilities: of predicted values, by column. below: higher probabilities are left out. Raises
    ValueError like `with_miscellaneous`.
    """
    for column, key in TAG_PROBABILITIES.items():
        if column not in probabilities:
            continue
        index, values = WORD_COLUMNS[column].index, []
        for line, tag, of_word in zip(sentence.word_lines, tags[column], probabilities[column], strict=True):
            columns, _ = _columns(sentence.lines[line])
            probability = of_word if columns[index] == tag else 1.0
            is_written = columns[index] == tag or not is_missing(index, columns[index], columns[UPOS])
            values.append(f"{probability:.4f}" if is_written and probability < below else "")
        sentence = with_miscellaneous(sentence, key, values)
    return sentence


def with_miscellaneous(sentence: Sentence, key: str, values: Sequence[str]) -> Sentence:
    """The sentence with `key=value` in MISC, replacing earlier values; empty values only remove these.

    Raises ValueError if MISC contains the PDEPREL of CoNLL-X.
    """
    lines = list(sentence.lines)
    for index, value in zip(sentence.word_lines, values, strict=True):
        columns, line_end = _columns(lines[index])
        if PROJECTIVE_HEAD.fullmatch(columns[DEPS]):
            message = (
                f"has the PHEAD and PDEPREL of CoNLL-X, so there is no column for {key}; leave out the "
                "option that writes it, or make CoNLL-U of the file"
            )
            raise ValueError(f"line {sentence.line + index}: sentence {sentence.identifier} {message}")
        parts = [
            part for part in columns[MISC].split("|") if part != BLANK and not part.startswith(f"{key}=")
        ]
        columns[MISC] = "|".join([*parts, *([f"{key}={value}"] if value else [])]) or BLANK
        lines[index] = "\t".join(columns) + line_end
    return replace(sentence, lines=tuple(lines))


def without_marks(sentence: Sentence) -> Sentence:
    """The sentence without `MARKS` in MISC, which describe an earlier tree."""
    if not any(f"{key}=" in line for line in sentence.lines for key in MARKS):
        return sentence
    lines = list(sentence.lines)
    for index in sentence.word_lines:
        columns, line_end = _columns(lines[index])
        if not PROJECTIVE_HEAD.fullmatch(columns[DEPS]):  # else it is the PDEPREL of CoNLL-X
            parts = [part for part in columns[MISC].split("|") if part.partition("=")[0] not in MARKS]
            columns[MISC] = "|".join(parts) or BLANK
            lines[index] = "\t".join(columns) + line_end
    return replace(sentence, lines=tuple(lines))


def arc_probabilities(sentence: Sentence) -> list[float]:
    """The probabilities written by `with_probabilities`; words without one are skipped."""
    miscellaneous = (_columns(sentence.lines[index])[0][MISC] for index in sentence.word_lines)
    parts = (part for values in miscellaneous for part in values.split("|"))
    return [float(match[1]) for part in parts if (match := PROBABILITY.fullmatch(part))]


def with_tree(sentence: Sentence, heads: Sequence[int], labels: Sequence[str]) -> tuple[str, ...]:
    """The lines of the sentence with the tree in HEAD and DEPREL; `_` for `NO_HEAD`."""
    lines = list(sentence.lines)
    for index, head, label in zip(sentence.word_lines, heads, labels, strict=True):
        columns = lines[index].split("\t")  # the last one with the line end
        columns[HEAD : LABEL + 1] = BLANK if head == NO_HEAD else str(head), label
        lines[index] = "\t".join(columns)
    return tuple(lines)


def as_one_of(lines: Sequence[str], number: int, count: int, score: float) -> list[str]:
    """The lines of a sentence, with comments that give the number and the score of this tree.

    From the second tree on, `sent_id` contains its number, too, and no document or paragraph begins.
    """
    first = next(index for index, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    line_end = _columns(lines[first])[1] or "\n"
    comments = [line for line in lines[:first] if not ONE_OF_SEVERAL.match(line)]
    if number > 1:
        comments = [
            f"{line.rstrip()}{TREE_SUFFIX}{number}{line_end}" if SENTENCE_ID.match(line) else line
            for line in comments
            if line.strip() and not BEGINNING.match(line)
        ]
    comments += f"# tree = {number} of {count}{line_end}", f"# tree_score = {score:.6f}{line_end}"
    words = list(lines[first:])
    if number < count and words[-1].strip():  # the file ends without a blank line, or without a line end
        words[-1:] = words[-1].rstrip("\r\n") + line_end, line_end
    return [*comments, *words]


def without_enhanced(lines: Sequence[str], word_lines: Sequence[int]) -> tuple[str, ...]:
    """The lines of a sentence without enhanced dependencies: with _ in DEPS, and without empty nodes.

    word_lines: the indices of the lines of words. The PHEAD of CoNLL-X, in the column of DEPS, is kept.
    """
    bare = list(lines)
    for index in word_lines:
        before, deps, misc = bare[index].rsplit("\t", 2)
        if deps != BLANK and ENHANCED_ARC.match(deps):
            bare[index] = f"{before}\t_\t{misc}"
    return tuple(line for line in bare if not EMPTY_NODE.match(line))


def with_enhanced(lines: Sequence[str], word_lines: Sequence[int], deps: Iterable[str]) -> tuple[str, ...]:
    """The lines of a sentence with these values in DEPS, and without empty nodes. A PHEAD is kept."""
    written = list(lines)
    for index, of_word in zip(word_lines, deps, strict=True):
        before, earlier, misc = written[index].rsplit("\t", 2)
        if not PROJECTIVE_HEAD.fullmatch(earlier):
            written[index] = f"{before}\t{of_word}\t{misc}"
    return tuple(line for line in written if not EMPTY_NODE.match(line))


def numbered_from(before: int, content: bytes) -> bytes:
    """Renumber the sentences of a text, whose numbers start at 1. before: the number of earlier sentences."""
    return NUMBERED.sub(lambda match: b"# sent_id = %d" % (before + int(match[1])), content)


def _columns(line: str) -> tuple[list[str], str]:
    """The columns of a line, and its line end."""
    content = line.rstrip("\r\n")
    return content.split("\t"), line[len(content) :]
