"""Dependency labels: which are valid in treebanks and models."""

from __future__ import annotations

from parser.system.console import quoted

MARK = "↑"
"""Separates the label of a lifted word from the label of its original head."""
MAX_LABEL_LENGTH = 1000
"""In characters. So lines stay far below `text_files.MAX_LINE_LENGTH`."""


def label_fault(label: str) -> str | None:
    """Why a label is not valid in a treebank; None if it is valid."""
    if not label or label == "_":
        return "DEPREL is missing"
    if len(label) > MAX_LABEL_LENGTH:
        return f"DEPREL {quoted(label)} has more than {MAX_LABEL_LENGTH:,} characters"
    if not label.isprintable():
        return f"DEPREL {quoted(label)} has a character that cannot be printed"
    if label != label.strip():
        return f"DEPREL {quoted(label)} begins or ends with a blank"
    if MARK in label:
        return f"DEPREL {quoted(label)} has the character {MARK}, which marks lifted words; rename the label"
    return None


def lifted_label_fault(label: str) -> str | None:
    """Like `label_fault`, but for a label of a model, which may be the label of a lifted word."""
    plain, mark, head_label = label.partition(MARK)
    return label_fault(plain) or (label_fault(head_label) if mark else None)


def without_subtype(label: str) -> str:
    return label.split(":", 1)[0]
