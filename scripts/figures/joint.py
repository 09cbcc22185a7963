"""Tables of trees chosen jointly, by a parser and its arc scorers or by several parsers, and for annotators:
calibrated probabilities, partly given trees, and several trees per sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from statistics import mean

import numpy as np

from figures.kept import (
    SMALL,
    SPLITS,
    TREEBANKS,
    Row,
    RunTable,
    cells,
    grouped,
    matches,
    means_of_printed,
    only_runs,
    printed,
    printed_json,
    shown,
    table,
)

WITH_SEEDS = *SMALL, "French Sequoia"
"""Treebanks on which `ud-any` was trained with three seeds."""
TAUGHT = "30 epochs, with a third of the silver trees and "
SCORERS = "measure_arc_scorer.py runs/tables/arcs/"
CALIBRATION = r"calibration error ([\d.]+), Brier score ([\d.]+), area of errors ([\d.]+)"
CALIBRATED = {
    "`ud-any`, one seed": "ud-any",
    "`ud-fast`, three seeds": "/weight-",
    "`ud-fast` without scorers, one seed": "/without-",
}
"""Parsers of English EWT, with the part of their models' paths that identifies them."""


def arcs_any() -> str:
    """LAS of `ud-any` with and without arc scorers, and the mean differences."""
    runs = only_runs("treebanks")
    las = {
        name: [runs[each][split]["las"] for split in SPLITS for each in (f"{name}, without scorers", name)]
        for name in TREEBANKS
    }
    lines = [(name, *(f"{score:.2f}" for score in row)) for name, row in las.items()]
    dev, test = (mean(row[at + 1] - row[at] for row in las.values()) for at in (0, 2))
    means = "mean difference", "", f"{dev:+.2f}", "", f"{test:+.2f}"
    return table(("", "dev LAS without", "with", "test LAS without", "with"), [*lines, means])


def arcs_in_training() -> str:
    """Processor time of a training step with and without arc scorers."""
    lines = []
    for config in ("ud-fast", "ud-any", "ud-untagged"):
        [told] = printed_json(
            f"compare_training_steps.py configs/{config}.yaml --set parser.network.arcs=null"
        )
        times = (f"{told[side]:.0f}" for side in ("with_changes", "milliseconds"))
        ratio = "{:.2f} [{:.2f}, {:.2f}]".format(told["ratio"], *told["interval"])
        lines.append([f"`{config}`", *times, ratio])
    return table(("", "ms of a step without", "with", "ratio"), lines)


def printed_means(header: tuple[str, ...], words: str, pattern: str, *formats: str) -> str:
    """Means over parsers of printed numbers, as `means_of_printed`."""
    means = means_of_printed(words, pattern).items()
    return table(
        header,
        (
            (name, *(form.format(value) for form, value in zip(formats, numbers, strict=True)))
            for name, numbers in means
        ),
    )


def arcs_over_treebanks() -> str:
    """The mean gain of `ud-any` from arc scorers, with intervals over sentences."""
    gains = ([line.split(": ")[1] for line in printed(f"scorers over none, {split}")] for split in SPLITS)
    return table(("difference in LAS", *SPLITS), zip((*WITH_SEEDS, "mean"), *gains, strict=True))


def arc_features() -> str:
    """The scores of a trial, whose code is in the commit of its row."""
    lines = (line.strip("| ").split(" | ") for line in printed("arc-features")[2:])
    means = ((f"`{name}`", dev.split()[0], test.split()[0]) for name, _, dev, _, test, *_ in lines)
    return table(("", "dev LAS", "test LAS"), means)


def right_to_left() -> str:
    """LAS of parsers for both directions together, and differences to equal-sized left-to-right ensembles."""
    told = [printed_json(f"right to left, {split}")[0] for split in SPLITS]

    def scores(name: str) -> Iterator[str]:
        for of_split in told:
            yield f"{of_split['las'][name]:.2f}"
            difference = of_split["differences"].get(name)
            yield "{:+.2f} [{:+.2f}, {:+.2f}]".format(*difference) if difference else ""

    header = ("members", "dev LAS", "over the ensemble", "test LAS", "over the ensemble")
    return table(header, ((name, *scores(name)) for name in told[0]["las"]))


def calibrations() -> str:
    """Measures of calibration on the test set, as the study printed them: means over each parser's seeds."""
    measures: dict[str, dict[str, list[tuple[float, ...]]]] = {name: {} for name in CALIBRATED}
    name = ""
    for line in printed("measure_calibration.py runs/"):
        if match := re.fullmatch(rf"(\w+): {CALIBRATION}", line):
            kind, *numbers = match.groups()
            measures[name].setdefault(kind, []).append(tuple(map(float, numbers)))
        else:
            [name] = [parser for parser, part in CALIBRATED.items() if part in line]
    kinds = {"none": "none", "temperature": "temperature", "beta": "beta, as in training"}
    return table(
        ("", "calibration", "calibration error", "Brier score", "area of errors"),
        (
            (parser, title, *(f"{mean(column):.4f}" for column in zip(*of_kinds[kind], strict=True)))
            for parser, of_kinds in measures.items()
            for kind, title in kinds.items()
        ),
    )


def tag_calibrations() -> str:
    """Measures of calibration of predicted columns on the test set."""
    pattern = rf"(\w+), (none|beta): {CALIBRATION}"
    lines = matches(pattern, printed("measure_calibration.py english-ewt"))
    found = grouped((column, numbers) for column, _, *numbers in lines)
    titles = {"upos": "UPOS", "xpos": "XPOS", "feats": "UFeats", "lemma": "lemmas"}
    return table(
        ("", "calibration error before", "calibration error", "Brier score", "area of errors"),
        ((titles[column], before[0], *after) for column, (before, after) in found.items()),
    )


def given_arcs() -> str:
    """LAS of the words whose arcs are not given, for one seed."""
    lines = []
    for name in ("English-EWT", "French-Sequoia", "Ancient_Greek-PTNK", "Uyghur-UDT"):
        free = matches(r".*free words ([\d.]+);.*", printed(f"UD_{name}/"))
        without, given = (float(las) for [las] in free)
        title = name.replace("_", " ").replace("-", " ")
        lines.append((title, f"{without:.2f}", f"{given:.2f}", f"{given - without:+.2f}"))
    return table(("", "nothing is given", "half of the arcs are", "difference"), lines)


def best_trees() -> str:
    """LAS of trees chosen in several ways from the results of a beam search."""
    [las] = printed_json("measure_best_trees")
    titles = {
        "greedy": "the parser without a beam, and without its scorer of arcs",
        "parse": "`parse`",
        "by_parser": "the first of five by the parser's score alone",
        "by_scorer": "the first of five by the scorer's alone",
        "first": "the first of five, as `parse --trees 5` orders them",
        "best": "the best of five",
    }
    return table(("", "LAS"), ((title, f"{las[name]:.2f}") for name, title in titles.items()))


def partial_trees() -> str:
    """LAS of trainings on parts of a treebank."""
    by_part = grouped(((run["share"], run["without"]), run) for run in printed_json("measure_partial_trees"))
    return table(
        ("left out", "sentences", "dev LAS", "test LAS"),
        (
            (
                f"{share * 100:.0f} % of the words, by {without}" if share else "nothing",
                f"{mean(run['sentences'] for run in runs):,.0f}",
                *cells(runs, "dev las", "test las"),
            )
            for (share, without), runs in sorted(by_part.items())
        ),
    )


def learning_curves(treebank: str) -> str:
    """Mean test LAS of the seeds by the number of annotated words. treebank: its name in the runs' folder."""
    curves: dict[str, dict[int, list[Row]]] = {"random": {}, "confidence": {}}
    for run in printed_json(f"runs/selection/{treebank}"):
        curves[run["by"]].setdefault(run["step"], []).append(run)
    at_random = list(curves["random"].values())
    words = [mean(run["words"] for run in runs) for runs in at_random]
    las = [mean(run["test"]["las"] for run in runs) for runs in at_random]
    assert las == sorted(las)

    def words_at_random(selected: list[Row]) -> str:
        """The number of words that give the same LAS, interpolated between the steps of the rising curve."""
        reached = mean(run["test"]["las"] for run in selected)
        if reached > las[-1]:
            return f"more than {words[-1]:,.0f}"
        return f"{np.interp(reached, las, words):,.0f}"

    return table(
        ("sentences", "words", "at random", "by confidence", "difference", "words at random for the same"),
        (
            (
                *(f"{mean(run[what] for run in selected):,.0f}" for what in ("sentences", "words")),
                *(shown(runs, "test las") for runs in (curves["random"][step], selected)),
                shown(selected, "test las over", curves["random"][step]) if step else "",
                words_at_random(selected) if step else "",
            )
            for step, selected in curves["confidence"].items()
        ),
    )


FIGURES: dict[str, Callable[[], str]] = {
    "arc-features": arc_features,
    "arc-probabilities": partial(
        printed_means,
        ("probabilities of", "calibration error", "area of errors"),
        SCORERS,
        r"probabilities of (.+): calibration error ([\d.]+), area of errors ([\d.]+)",
        *("{:.3f}", "{:.3f}"),
    ),
    "arcs": RunTable(
        "arcs",
        (
            ("dev LAS", "dev las"),
            ("difference", "dev las over"),
            ("test UAS", "test uas"),
            ("test LAS", "test las"),
            ("difference", "test las over"),
        ),
        base="without",
    ),
    "arcs-any": arcs_any,
    "arcs-in-training": arcs_in_training,
    "arcs-over-treebanks": arcs_over_treebanks,
    "arcs-small-treebanks": RunTable(
        "arcs-small-treebanks",
        [
            column
            for split in SPLITS
            for column in (
                (f"{split} LAS without", f"{split} las", "{}, without scorers"),
                ("with", f"{split} las"),
                ("difference", f"{split} las over"),
            )
        ],
        WITH_SEEDS,
        base="{}, without scorers",
    ),
    "arcs-untagged": RunTable(
        "arcs-untagged",
        (
            ("dev LAS", "dev las"),
            ("test UPOS", "test upos"),
            ("lemmas", "test lemmas"),
            ("UAS", "test uas"),
            ("LAS", "test las"),
        ),
        (("without", "untagged: English EWT"), ("with", "English EWT")),
        heading="English EWT",
    ),
    "best-trees": best_trees,
    "calibrations": calibrations,
    "tag-calibrations": tag_calibrations,
    "crossing-trees": partial(
        printed_means,
        ("trees of", "dev UAS", "dev LAS", "crossing arcs with the right head"),
        "crossing trees, dev",
        r"(.+): UAS ([\d.]+)  LAS ([\d.]+)  crossing arcs ([\d.]+)",
        *("{:.2f}", "{:.2f}", "{:.0f} %"),
    ),
    "ensembles": RunTable(
        "ensemble",
        (("dev LAS", "dev las each"), ("test LAS", "test las each")),
        (
            ("three seeds of `ud-any`", "ud-any"),
            ("the three together", "printed: three seeds of ud-any"),
            ("three seeds without scorers of arcs", "ud-any without scorers"),
            ("the three together", "printed: three seeds"),
            ("two taught by the three, and by their silver trees", f"{TAUGHT}three teachers"),
            ("these two and the first seed together", "printed: two taught, first seed"),
            ("before the search, three seeds", "before the search, 40 epochs"),
            ("the three together", "printed: three seeds, before"),
            (
                "one parser with their silver trees",
                "before the search, 30 epochs, with a third of the silver trees",
            ),
            ("it with seeds 2 and 3", "printed: silver trees, seeds 2 and 3, before"),
            ("the three and it together", "printed: four teachers, before"),
            (
                "one parser with silver trees and these four teachers",
                f"before the search, {TAUGHT}four teachers",
            ),
            ("it with seeds 2 and 3", "printed: taught, seeds 2 and 3, before"),
        ),
    ),
    "given-arcs": given_arcs,
    "learning-curves-ewt": partial(learning_curves, "ewt"),
    "learning-curves-wolof": partial(learning_curves, "wolof"),
    "partial-trees": partial_trees,
    "reparsing": partial(
        printed_means,
        ("trees of", "dev UAS", "dev LAS"),
        SCORERS,
        r"(.+): UAS ([\d.]+)  LAS ([\d.]+)",
        *("{:.2f}", "{:.2f}"),
    ),
    "right-to-left": right_to_left,
}
