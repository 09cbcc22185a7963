"""Tables of trees found jointly: by a parser and its arc scorers, and by several parsers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from statistics import mean

from figures.kept import (
    OUTPUT,
    SMALL,
    SPLITS,
    TREEBANKS,
    Row,
    las_difference,
    mean_las,
    only_runs,
    printed,
    runs_of_table,
    scores,
    spread_las,
    table,
)

WITH_SEEDS = *SMALL, "French Sequoia"
"""Treebanks on which `ud-any` was trained with three seeds."""


def arcs() -> str:
    """Mean LAS of the seeds, and the differences to parsers without scorers of arcs and labels."""
    found = runs_of_table("arcs")
    without = found["without"]
    header = ("", "dev LAS", "difference", "test UAS", "test LAS", "difference")
    return table(
        header,
        (
            [
                name,
                mean_las(runs, "dev"),
                las_difference(runs, without, "dev") if runs is not without else "",
                f"{mean(run['test']['uas'] for run in runs):.2f}",
                mean_las(runs, "test"),
                las_difference(runs, without, "test") if runs is not without else "",
            ]
            for name, runs in found.items()
        ),
    )


def arcs_any() -> str:
    """LAS of `ud-any` with and without arc scorers, and the mean differences."""
    runs = only_runs("treebanks")

    def las(name: str, split: str) -> float:
        score: float = runs[name][split]["las"]
        return score

    pairs = {name: (f"{name}, without scorers", name) for name in TREEBANKS}
    lines = [
        (name, *(f"{las(own, split):.2f}" for split in SPLITS for own in pair))
        for name, pair in pairs.items()
    ]
    gains = [
        mean(las(own, split) - las(without, split) for without, own in pairs.values()) for split in SPLITS
    ]
    means = ("mean difference", *(text for gain in gains for text in ("", f"{gain:+.2f}")))
    return table(("", "dev LAS without", "with", "test LAS without", "with"), [*lines, means])


def arcs_small_treebanks() -> str:
    """Mean LAS of `ud-any`'s seeds with and without arc scorers, and the differences by seed."""
    found = runs_of_table("arcs-small-treebanks")
    return table(
        ("", "dev LAS without", "with", "difference", "test LAS without", "with", "difference"),
        (
            [name]
            + [
                text
                for split in SPLITS
                for text in (
                    mean_las(found[f"{name}, without scorers"], split),
                    mean_las(found[name], split),
                    las_difference(found[name], found[f"{name}, without scorers"], split),
                )
            ]
            for name in WITH_SEEDS
        ),
    )


def arcs_untagged() -> str:
    """Scores of `ud-untagged` on English EWT with and without arc scorers."""
    name = "English EWT"
    which = "dev las", "test upos", "test lemmas", "test uas", "test las", "text las"
    runs = ("without", only_runs("text")[name]), ("with", only_runs("arcs-untagged")[name])
    return table(
        (name, "dev LAS", "test UPOS", "lemmas", "UAS", "LAS", "LAS from raw text"),
        ((title, *scores(run, *which)) for title, run in runs),
    )


def arcs_in_training() -> str:
    """Processor time of a training step with and without arc scorers."""
    study = "compare_training_steps.py configs/{}.yaml --set parser.network.arcs=null"
    lines = []
    for config in ("ud-fast", "ud-any", "ud-untagged"):
        [line] = printed(OUTPUT, study.format(config))
        found = json.loads(line)
        low, high = found["interval"]
        times = (f"{found[side]:.0f}" for side in ("with_changes", "milliseconds"))
        lines.append([f"`{config}`", *times, f"{found['ratio']:.2f} [{low:.2f}, {high:.2f}]"])
    return table(("", "ms of a step without", "with", "ratio"), lines)


def reparsing() -> str:
    """Dev UAS and LAS of the trees of parsers, of their scorers, and of both together."""
    found = _means("measure_arc_scorer.py runs/tables/arcs/", r"(.+): UAS ([\d.]+)  LAS ([\d.]+)")
    return table(
        ("trees of", "dev UAS", "dev LAS"),
        ((name, *(f"{score:.2f}" for score in means)) for name, means in found.items()),
    )


def crossing_trees() -> str:
    """Dev scores for Ancient Greek of the trees found by reparsing, and of the best trees that can cross."""
    pattern = r"(.+): UAS ([\d.]+)  LAS ([\d.]+)  crossing arcs ([\d.]+)"
    found = _means("crossing trees, dev", pattern)
    return table(
        ("trees of", "dev UAS", "dev LAS", "crossing arcs with the right head"),
        (
            (name, f"{uas:.2f}", f"{las:.2f}", f"{crossing:.0f} %")
            for name, (uas, las, crossing) in found.items()
        ),
    )


def arcs_over_treebanks() -> str:
    """The mean gain of `ud-any` from arc scorers, with intervals over sentences."""
    dev, test = (
        [line.split(": ") for line in printed(OUTPUT, f"scorers over none, {split}")] for split in SPLITS
    )
    return table(
        ("difference in LAS", *SPLITS),
        (
            (name, on_dev, on_test)
            for name, (_, on_dev), (_, on_test) in zip((*WITH_SEEDS, "mean"), dev, test, strict=True)
        ),
    )


def arc_probabilities() -> str:
    """The quality of the probabilities of the parsers' own arcs on dev."""
    pattern = r"probabilities of (.+): calibration error ([\d.]+), area of errors ([\d.]+)"
    found = _means("measure_arc_scorer.py runs/tables/arcs/", pattern)
    return table(
        ("probabilities of", "calibration error", "area of errors"),
        ((name, *(f"{value:.3f}" for value in means)) for name, means in found.items()),
    )


def arc_features() -> str:
    """The scores of a trial, whose code is in the commit of its row."""
    lines = (line.strip("| ").split(" | ") for line in printed(OUTPUT, "arc-features")[2:])
    means = ((f"`{name}`", dev.split()[0], test.split()[0]) for name, _, dev, _, test, *_ in lines)
    return table(("", "dev LAS", "test LAS"), means)


def right_to_left() -> str:
    """LAS of parsers for both directions together, and differences to equal-sized left-to-right ensembles."""
    dev, test = (json.loads(printed(OUTPUT, f"right to left, {split}")[0]) for split in SPLITS)

    def cells(name: str) -> Iterator[str]:
        for found in (dev, test):
            yield f"{found['las'][name]:.2f}"
            difference = found["differences"].get(name)
            yield "{:+.2f} [{:+.2f}, {:+.2f}]".format(*difference) if difference else ""

    header = ("members", "dev LAS", "over the ensemble", "test LAS", "over the ensemble")
    return table(header, ((name, *cells(name)) for name in dev["las"]))


def _means(words: str, pattern: str) -> dict[str, list[float]]:
    """The means over the parsers of the printed numbers, by name. pattern: matches a line, its name first."""
    found: dict[str, list[list[float]]] = {}
    for line in printed(OUTPUT, words):
        if match := re.fullmatch(pattern, line):
            name, *values = match.groups()
            found.setdefault(name, []).append(list(map(float, values)))
    return {name: [mean(own) for own in zip(*lines, strict=True)] for name, lines in found.items()}


def ensembles() -> str:
    """LAS of several models of English EWT, separately and together."""
    runs = runs_of_table("ensemble")
    before = "before the search, "
    taught = "30 epochs, with a third of the silver trees and "
    former = runs[f"{before}40 epochs"]
    silver = runs[f"{before}30 epochs, with a third of the silver trees"]
    four = runs[f"{before}{taught}four teachers"]
    return table(
        ("", "dev LAS", "test LAS"),
        (
            ("three seeds of `ud-any`", *(spread_las(runs["ud-any"], split) for split in SPLITS)),
            ("the three together", *_together("three seeds of ud-any")),
            (
                "three seeds without scorers of arcs",
                *(spread_las(runs["ud-any without scorers"], split) for split in SPLITS),
            ),
            ("the three together", *_together("three seeds")),
            (
                "two taught by the three, and by their silver trees",
                *(_both(runs[f"{taught}three teachers"], split) for split in SPLITS),
            ),
            ("these two and the first seed together", *_together("two taught, first seed")),
            ("before the search, three seeds", *(spread_las(former, split) for split in SPLITS)),
            ("the three together", *_together("three seeds, before")),
            ("one parser with their silver trees", *(mean_las(silver, split) for split in SPLITS)),
            ("it with seeds 2 and 3", *_together("silver trees, seeds 2 and 3, before")),
            ("the three and it together", *_together("four teachers, before")),
            (
                "one parser with silver trees and these four teachers",
                *(mean_las(four, split) for split in SPLITS),
            ),
            ("it with seeds 2 and 3", *_together("taught, seeds 2 and 3, before")),
        ),
    )


def _both(runs: Sequence[Row], split: str) -> str:
    return " and ".join(f"{run[split]['las']:.2f}" for run in runs)


def _together(name: str) -> list[str]:
    """The LAS on dev and test that `evaluate` printed for models together."""
    found = (re.fullmatch(r"LAS +([\d.]+) .*", line) for line in printed(OUTPUT, name))
    return [match[1] for match in found if match]


FIGURES: dict[str, Callable[[], str]] = {
    "arc-features": arc_features,
    "arc-probabilities": arc_probabilities,
    "arcs": arcs,
    "arcs-any": arcs_any,
    "arcs-in-training": arcs_in_training,
    "arcs-over-treebanks": arcs_over_treebanks,
    "arcs-small-treebanks": arcs_small_treebanks,
    "arcs-untagged": arcs_untagged,
    "crossing-trees": crossing_trees,
    "ensembles": ensembles,
    "reparsing": reparsing,
    "right-to-left": right_to_left,
}
