"""`stack-parser check`: validate treebanks, count their contents, and compare dev and test with train."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from statistics import quantiles

from parser.commands.errors import message_of
from parser.commands.treebank_table import counts_as_text, table
from parser.system.console import LinesError, say
from parser.system.files import STANDARD, refuse_to_overwrite
from parser.system.version import naming_missing
from parser.transitions import SYSTEMS
from parser.treebank.conllu import read_treebank
from parser.treebank.counts import Repetitions, TreebankCounts
from parser.treebank.partial_trees import read_partial_treebank
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import NO_HEAD, Sentence

TRAIN, DEV, TEST = ROLES = "train", "dev", "test"
WORDS_OF_ROLES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("dev", "devel", "development", "valid", "validation"), DEV),
    **dict.fromkeys(("test", "testing"), TEST),
}
OTHER = "file"
"""Stands for the role of a file without one."""
NO_DEV = (
    "no dev file was given: training chooses the best epoch by one (treebank.dev).",
    "Where a treebank has none, put some sentences of train into a file of their own. With fewer than a "
    "hundred sentences, train without: treebank.dev=null and training.learning_rate.decay=linear",
)


def check_treebanks(options: argparse.Namespace) -> None:
    """Check the treebanks. Raises ValueError with the faults of all files."""
    refuse_to_overwrite(STANDARD, options.treebanks)
    titles = titles_of(options.treebanks)
    files: dict[str, TreebankCounts] = {}
    transitions: dict[str, list[str]] = {}
    repetitions, failures, verdicts = Repetitions(), list[str](), []
    for path, title in titles.items():
        began = time.monotonic()
        try:
            may_be_partial = options.partial and _role_of(title) not in (DEV, TEST)
            sentences = (read_partial_treebank if may_be_partial else read_treebank)(path, options.roots)
        except (ValueError, OSError) as error:
            failures += message_of(error)
            verdicts.append((path, title, "left out, see the message"))
            continue
        read = time.monotonic() - began
        verdicts.append((path, title, "no errors"))
        files[title] = TreebankCounts.of(sentences)
        repetitions.add(title, sentences)
        if options.transitions:
            transitions[title] = [f"{read:.1f} s", *_transition_cells(sentences)]
    if not files:
        raise LinesError(*failures)
    width = max(map(len, titles.values()))
    lines = [f"{title:<{width}}  {path}: {verdict}" for path, title, verdict in verdicts]
    train = [title for title in files if _role_of(title) == TRAIN]
    lines += counts_as_text(files, train, repetitions)
    if transitions:
        names = ["read in"]
        for name in SYSTEMS:
            names += [f"{name} stack: median, 99 %, greatest", f"{name} trajectories in"]
        columns = map(list, zip(*transitions.values(), strict=True))
        lines += ["", *table(list(transitions), list(zip(names, columns, strict=True)))]
    if train and not any(_role_of(title) == DEV for title in titles.values()):
        lines += ["", *NO_DEV]
    say(*lines)
    if failures:
        raise LinesError(*failures)


def titles_of(paths: Sequence[str]) -> dict[str, str]:
    """Return a title for each file, training treebanks first: its role, with a number if several share it.

    The role is the last word of the name that is one; if no name contains a role, several files are train,
    dev and test in this order.
    """
    paths = list(dict.fromkeys(paths))
    roles = {}
    for path in paths:
        words = re.split(r"[^a-z]+", os.path.basename(path).lower())
        roles[path] = next(
            (WORDS_OF_ROLES[word] for word in reversed(words) if word in WORDS_OF_ROLES), OTHER
        )
    if len(paths) > 1 and set(roles.values()) == {OTHER}:
        roles.update(zip(paths, ROLES, strict=False))
    order = (*ROLES, OTHER)
    total, seen, titles = Counter(roles.values()), Counter[str](), {}
    for path in sorted(paths, key=lambda path: order.index(roles[path])):
        role = roles[path]
        seen[role] += 1
        titles[path] = role if total[role] == 1 else f"{role} {seen[role]}"
    return titles


def _role_of(title: str) -> str:
    return title.split()[0]


def _transition_cells(sentences: Sequence[Sentence]) -> list[str]:
    """Return the depths of the stacks, including ROOT, and the time of the oracle for each transition system.

    The greatest depth is the number of levels of a replay. Raises MissingPackageError without PyTorch.
    """
    with naming_missing("check --transitions", "train"):
        from parser.networks.replay.examples import Examples
        from parser.transitions.inventory import Inventory
    from parser.treebank.vocabulary import Vocabulary  # imports pydantic

    complete = (sentence for sentence in sentences if NO_HEAD not in sentence.heads)
    projective = [sentence for sentence in complete if is_projective(sentence.heads)]
    if not projective:
        return [""] * 2 * len(SYSTEMS)
    vocabulary = Vocabulary.build(projective, ["upos"])
    cells = []
    for system in SYSTEMS.values():
        began = time.monotonic()
        examples = Examples.of(Inventory.of(system, vocabulary), vocabulary, projective)
        seconds = time.monotonic() - began
        depths = examples.levels.tolist()
        percentiles = quantiles(depths, n=100, method="inclusive") if len(depths) > 1 else depths * 99
        cells += [f"{percentiles[49]:.0f}, {percentiles[98]:.0f}, {max(depths)}", f"{seconds:.1f} s"]
    return cells
