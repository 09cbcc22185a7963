"""`stack-parser check`: validate treebanks, and count what is in them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import quantiles

from parser.commands.errors import message_of
from parser.system.console import LinesError, say
from parser.system.files import STANDARD, refuse_to_overwrite
from parser.treebank.conllu import Roots, read_treebank
from parser.treebank.faults import EMPTY_ID, ID, RANGE_ID
from parser.treebank.labels import without_subtype
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import Sentence


def check_treebanks(options: argparse.Namespace) -> None:
    """Raises ValueError with the faults of all files."""
    refuse_to_overwrite(STANDARD, options.treebanks)
    failures: list[str] = []
    for treebank in options.treebanks:
        try:
            described = describe(treebank, options.roots, options.stacks)
        except (ValueError, OSError) as error:
            failures += message_of(error)
        else:
            say(*described)
    if failures:
        raise LinesError(*failures)


def describe(path: str, roots: Roots = "refuse", stacks: bool = False) -> list[str]:
    """Validate a treebank and count what is in it, line by line. Raises TreebankError, FileNotFoundError.

    stacks: also say how deep the stacks of the transition systems get.
    """
    began = time.monotonic()
    sentences = read_treebank(path, roots)
    read = time.monotonic() - began
    projective = [sentence for sentence in sentences if is_projective(sentence.heads)]
    lengths = [len(sentence) for sentence in sentences]
    ids = [line.split("\t", 1)[ID] for sentence in sentences for line in sentence.lines]
    labels = {label for sentence in sentences for label in sentence.labels}
    tags = {tag for sentence in sentences for tag in sentence.upos}
    rows = [
        ("sentences", f"{len(sentences):,}"),
        (
            "words",
            f"{sum(lengths):,}, longest sentence {max(lengths):,}, mean {sum(lengths) / len(lengths):.1f}",
        ),
        ("multiword tokens", f"{sum(bool(RANGE_ID.fullmatch(identifier)) for identifier in ids):,}"),
        ("empty nodes", f"{sum(bool(EMPTY_ID.fullmatch(identifier)) for identifier in ids):,}"),
        ("labels", f"{len(labels)}, without subtypes {len(set(map(without_subtype, labels)))}"),
        ("UPOS tags", f"{len(tags)}"),
        ("non-projective", _share(len(sentences) - len(projective), len(sentences)) + " of the sentences"),
        *(_stack_depths(projective) if stacks else []),
        ("read in", f"{read:.1f} s"),
    ]
    return [path, *(f"  {name:<20}{text}" for name, text in rows)]


def _stack_depths(sentences: Sequence[Sentence]) -> list[tuple[str, str]]:
    """How deep the stacks get, ROOT included: the number of levels of a replay."""
    if not sentences:
        return []
    from parser.replay.examples import Examples  # which import PyTorch
    from parser.transitions import SYSTEMS
    from parser.transitions.inventory import Inventory
    from parser.treebank.vocabulary import Vocabulary

    vocabulary = Vocabulary.build(sentences, ["upos"])
    rows = []
    for name, system in SYSTEMS.items():
        began = time.monotonic()
        nodes = Examples.of(Inventory.of(system, vocabulary), vocabulary, sentences).nodes
        seconds = time.monotonic() - began
        depths = [int(sentence[:, 1].max()) + 1 for sentence in nodes.unflatten()]
        percentiles = quantiles(depths, n=100, method="inclusive") if len(depths) > 1 else depths * 99
        text = f"median {percentiles[49]:.0f}, 99th percentile {percentiles[98]:.0f}, greatest {max(depths)}"
        rows.append((f"{name} stack", f"{text}; trajectories in {seconds:.1f} s"))
    return rows


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.2f} %)"
