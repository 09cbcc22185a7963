"""Which labels an arc may have: one rule for treebanks that are read and for models that write."""

from __future__ import annotations

from parser.quoting import quoted

MARK = "↑"
"""Stands between the label of a lifted word and the label of the word that was its head."""
MAX_LABEL_LENGTH = 1000
"""Characters: lines stay far below `text_files.MAX_LINE_LENGTH`."""


def label_fault(label: str) -> str | None:
    """Why the label can not stand in a treebank; None if it can."""
    if not label or label == "_":
        return "DEPREL is missing"
    if len(label) > MAX_LABEL_LENGTH:
        return f"DEPREL {quoted(label)} has more than {MAX_LABEL_LENGTH:,} characters"
    if not label.isprintable():
        return f"DEPREL {quoted(label)} holds a character that can not be printed"
    if MARK in label:
        return f"DEPREL {quoted(label)} holds {MARK}, which marks lifted words here; rename it"
    return None


def lifted_label_fault(label: str) -> str | None:
    """The same for a model's label, which may be of a lifted word."""
    plain, mark, head_label = label.partition(MARK)
    return label_fault(plain) or (label_fault(head_label) if mark else None)
