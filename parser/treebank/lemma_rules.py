"""Edit scripts that turn forms into lemmas, learned from a treebank (Straka 2018, section 3.1; simpler).

A rule cuts letters off both ends of a form, adds new letters, and sets the case. A lemma that shares no
letter with its form is its own rule. Similar inflections share a rule: running -> run, stopping -> stop.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from functools import lru_cache

SEPARATOR = "\t"
"""Separates the parts of a rule. No column of a treebank contains it."""
WHOLE = "whole"
CACHED = 1 << 16
"""Number of pairs of form and lemma whose rules are cached."""
CASES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "capital": lambda lemma: lemma[:1].upper() + lemma[1:].lower(),
    "same": str,
    "upper": str.upper,
}
"""How the case of a lemma is set. A rule uses the first one that fits."""


@lru_cache(maxsize=CACHED)
def lemma_rule(form: str, lemma: str) -> str:
    """The rule by which `lemma_of` makes the lemma of the form."""
    low_form, low_lemma = form.lower(), lemma.lower()
    same_lengths = (len(low_form), len(low_lemma)) == (len(form), len(lemma))
    shared = SequenceMatcher(None, low_form, low_lemma, autojunk=False).find_longest_match()
    if shared.size and same_lengths:
        ends = len(form) - shared.a - shared.size, lemma[shared.b + shared.size :]
        for case in CASES:
            rule = SEPARATOR.join([case, str(shared.a), lemma[: shared.b], str(ends[0]), ends[1]])
            if lemma_of(form, rule) == lemma:
                return rule
    return WHOLE + SEPARATOR + lemma


def is_rule(text: str) -> bool:
    """Whether a text, perhaps from an untrusted model, is a rule whose lemmas are valid in a column."""
    case, *parts = text.split(SEPARATOR)
    if "\n" in text or "\r" in text:
        return False
    if case == WHOLE:
        return len(parts) == 1 and parts != [""]
    cuts = parts[0::2]
    return case in CASES and len(parts) == 4 and all(cut.isdecimal() and len(cut) < 6 for cut in cuts)


def lemma_of(form: str, rule: str) -> str:
    """The lemma of a form by a rule; the form itself if it is too short for the rule."""
    case, *parts = rule.split(SEPARATOR)
    if case == WHOLE:
        return parts[0]
    cut_before, before, cut_after, after = parts
    end = len(form) - int(cut_after)
    kept = form[int(cut_before) : end] if end > 0 else ""
    return CASES[case](before + kept + after) if kept else form
