"""Counts of treebanks as text: a table with a column for each file, and lists of values with frequencies."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from parser.system.console import as_name
from parser.treebank.counts import (
    FEATURES,
    LABELS,
    UPOS,
    XPOS,
    Repetitions,
    SentenceStart,
    TreebankCounts,
    total,
)

WIDTH = 100
MAX_COLUMNS = 6
"""Maximum files in one table; more files are divided into several tables."""
MAX_LISTED, MAX_RAREST = 60, 20
"""Maximum tags, features or labels that are listed, and how many of the rarest are listed if there are more:
misspelt ones are among these."""
MAX_LACKING, MAX_REPETITIONS = 10, 5
MAX_VALUE = 30
"""Maximum characters of a tag, feature or label."""
KINDS = UPOS, XPOS, FEATURES, LABELS
Cells = list[tuple[str, list[str]]]
"""Rows of a title and a cell for each file."""


def counts_as_text(
    files: Mapping[str, TreebankCounts], train: Sequence[str], repetitions: Repetitions
) -> list[str]:
    """Return the counts as lines of text.

    files: counts by title of the file. train: titles of the files with which the other ones are compared; may
    be empty.
    """
    lines: list[str] = []
    known = total([files[title] for title in train]) if train else None
    titles = list(files)
    for first in range(0, len(titles), MAX_COLUMNS):
        shown = titles[first : first + MAX_COLUMNS]
        counts = [files[title] for title in shown]
        rows = [
            *_size_rows(counts),
            ("different words", [f"{len(each.forms):,}" for each in counts]),
            *((kind, [f"{len(each.values[kind]):,}" for each in counts]) for kind in KINDS),
            ("  without subtypes", [f"{each.universal_labels:,}" for each in counts]),
        ]
        if known and len(train) < len(files):
            rows += _unknown_rows({title: files[title] for title in shown}, train, known)
        lines += ["", *table(shown, [*rows, *_repetition_rows(shown, repetitions)])]
    everything = total(list(files.values()))
    for kind in (UPOS, LABELS, FEATURES):
        lines += ["", *_listed(kind, everything.values[kind])]
    if known:
        others = {title: counts for title, counts in files.items() if title not in train}
        lines += _lacking(others, known)
    return lines + _examples(repetitions)


def table(titles: Sequence[str], rows: Cells) -> list[str]:
    """Return lines of aligned cells below the titles of the files."""
    left = max(len(name) for name, _ in rows) + 2
    widths = [
        max(len(title), *(len(cells[index]) for _, cells in rows)) + 2 for index, title in enumerate(titles)
    ]
    return [
        name.ljust(left) + "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        for name, cells in [("", list(titles)), *rows]
    ]


def _size_rows(files: Sequence[TreebankCounts]) -> Cells:
    without_heads = [f"{counts.without_heads:,}" for counts in files]
    return [
        ("sentences", [f"{counts.sentences:,}" for counts in files]),
        ("words", [f"{counts.words:,}" for counts in files]),
        ("words in a sentence", [f"{counts.words / counts.sentences:.1f}" for counts in files]),
        ("words in the longest", [f"{counts.longest:,}" for counts in files]),
        ("multiword tokens", [f"{counts.multiword_tokens:,}" for counts in files]),
        ("empty nodes", [f"{counts.empty_nodes:,}" for counts in files]),
        ("words without space after", [f"{counts.joined:,}" for counts in files]),
        ("non-projective trees", [f"{counts.non_projective:,}" for counts in files]),
        ("  share", [_percent(counts.non_projective / counts.sentences) for counts in files]),
        *([("words without heads", without_heads)] if any(counts.without_heads for counts in files) else []),
    ]


def _unknown_rows(files: Mapping[str, TreebankCounts], train: Sequence[str], known: TreebankCounts) -> Cells:
    others = {title: counts for title, counts in files.items() if title not in train}

    def row(name: str, cells: Mapping[str, str]) -> tuple[str, list[str]]:
        return f"{name} not in train", [cells.get(title, "") for title in files]

    shares = {title: _percent(counts.unknown_share(known)) for title, counts in others.items()}
    rows = [row("words", shares)]
    for kind in KINDS:
        lacking = {title: counts.lacking(known, kind) for title, counts in others.items()}
        rows.append(row(kind, {title: f"{len(values):,}" for title, values in lacking.items()}))
        if kind != FEATURES:  # a word may have several features
            of_words = {title: lacking[title].total() / counts.words for title, counts in others.items()}
            shares = {title: _percent(share) for title, share in of_words.items()}
            rows.append(("  share of words", [shares.get(title, "") for title in files]))
    return rows


def _repetition_rows(titles: Sequence[str], repetitions: Repetitions) -> Cells:
    within = Counter(each.here.file for each in repetitions.sentences if not each.is_across_files)
    across = Counter(each.here.file for each in repetitions.sentences if each.is_across_files)
    identifiers = Counter(each.here.file for each in repetitions.identifiers)
    return [
        ("repeated sentences", [f"{within[title]:,}" for title in titles]),
        ("  also in a file to the left", [f"{across[title]:,}" for title in titles]),
        ("repeated sent_id", [f"{identifiers[title]:,}" for title in titles]),
    ]


def _listed(kind: str, counter: Counter[str]) -> Iterator[str]:
    """Yield a line for the title, and lines with several values each, the most frequent first."""
    if not counter:
        yield f"{kind}: none"
        return
    ordered = counter.most_common()
    before, after = ordered, ordered[:0]
    if len(ordered) > MAX_LISTED:
        before, after = ordered[: MAX_LISTED - MAX_RAREST], ordered[-MAX_RAREST:]
    yield f"{kind} in all files, with their counts:"
    yield from _in_columns(before)
    if after:
        left = ordered[len(before) : -len(after)]
        yield f"  … {len(left):,} more, each {left[-1][1]:,} to {left[0][1]:,} times; the rarest:"
        yield from _in_columns(after)


def _in_columns(counted: Sequence[tuple[str, int]]) -> Iterator[str]:
    names = [as_name(value, MAX_VALUE) for value, _ in counted]
    numbers = [f"{count:,}" for _, count in counted]
    left, right = max(map(len, names)), max(map(len, numbers))
    entries = [f"  {name:<{left}} {number:>{right}}" for name, number in zip(names, numbers, strict=True)]
    columns = max(1, WIDTH // len(entries[0]))
    rows = -(-len(entries) // columns)
    for row in range(rows):
        yield "".join(entries[row::rows])


def _lacking(others: Mapping[str, TreebankCounts], train: TreebankCounts) -> list[str]:
    lines = []
    for title, counts in others.items():
        for kind in KINDS:
            if lacking := counts.lacking(train, kind).most_common():
                shown = [f"{as_name(value, MAX_VALUE)} {count:,}" for value, count in lacking[:MAX_LACKING]]
                more = [f"… {len(lacking) - MAX_LACKING:,} more"] if len(lacking) > MAX_LACKING else []
                text = f"{kind} of {title} that are not in train: {', '.join([*shown, *more])}"
                lines += textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return ["", *lines] if lines else []


def _examples(repetitions: Repetitions) -> list[str]:
    """Return lines with the longest sentences repeated in other files, as short ones may be there by chance,
    and with some `sent_id`s.
    """
    across = [each for each in repetitions.sentences if each.is_across_files]
    longest = sorted(across, key=lambda each: -each.words)[:MAX_REPETITIONS]
    lines = []
    if longest:
        lines += ["", "sentences of two files, the longest:"]
        for each in longest:
            text = as_name(each.text.replace("\t", " "), 2 * MAX_VALUE)
            lines.append(f"  {_where(each.here)}, as {_where(each.before)}: {text}")
    if repetitions.identifiers:
        lines += ["", "repeated sent_id, the first:"]
        first = repetitions.identifiers[:MAX_REPETITIONS]
        lines += [
            f"  {as_name(each.here.identifier, MAX_VALUE)}: {_where(each.here)}, as {_where(each.before)}"
            for each in first
        ]
    return lines


def _where(sentence: SentenceStart) -> str:
    return f"{sentence.file}, line {sentence.line:,}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
