"""Tables for annotators: calibrated probabilities, partly given trees, and several trees per sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from statistics import mean

import numpy as np

from figures.kept import OUTPUT, Row, las_difference, mean_las, printed, table

TREEBANKS = "English-EWT", "French-Sequoia", "Ancient_Greek-PTNK", "Uyghur-UDT"
PARSERS = {
    "`ud-any`, one seed": "ud-any",
    "`ud-fast`, three seeds": "/weight-",
    "`ud-fast` without scorers, one seed": "/without-",
}
"""Parsers of English EWT, with the part of their models' paths that identifies them."""


def calibrations() -> str:
    """Measures of calibration on the test set, as the study printed them: means over each parser's seeds."""
    found: dict[str, dict[str, list[tuple[float, ...]]]] = {name: {} for name in PARSERS}
    name = ""
    for line in printed(OUTPUT, "measure_calibration"):
        if match := re.fullmatch(
            r"(\w+): calibration error ([\d.]+), Brier score ([\d.]+), area of errors ([\d.]+)", line
        ):
            kind, *measures = match.groups()
            found[name].setdefault(kind, []).append(tuple(map(float, measures)))
        else:
            [name] = [parser for parser, part in PARSERS.items() if part in line]
    kinds = {"none": "none", "temperature": "temperature", "beta": "beta, as in training"}
    return table(
        ("", "calibration", "calibration error", "Brier score", "area of errors"),
        (
            (parser, title, *(f"{mean(column):.4f}" for column in zip(*of_kinds[kind], strict=True)))
            for parser, of_kinds in found.items()
            for kind, title in kinds.items()
        ),
    )


def given_arcs() -> str:
    """LAS of the words whose arcs are not given, for one seed."""
    return table(
        ("", "nothing is given", "half of the arcs are", "difference"),
        (
            (
                name.replace("_", " ").replace("-", " "),
                f"{without:.2f}",
                f"{given:.2f}",
                f"{given - without:+.2f}",
            )
            for name in TREEBANKS
            for without, given in [_las_of_free_words(name)]
        ),
    )


def _las_of_free_words(treebank: str) -> list[float]:
    """The LAS with no arcs given, and with half of the arcs given."""
    command = [line for line in printed(OUTPUT, f"UD_{treebank}/") if "free words" in line]
    return [float(match[1]) for line in command if (match := re.search(r"free words ([\d.]+);", line))]


def best_trees() -> str:
    """LAS of trees chosen in several ways from the results of a beam search."""
    [line] = printed(OUTPUT, "measure_best_trees")
    found = json.loads(line)
    titles = {
        "greedy": "the parser without a beam, and without its scorer of arcs",
        "parse": "`parse`",
        "by_parser": "the first of five by the parser's score alone",
        "by_scorer": "the first of five by the scorer's alone",
        "first": "the first of five, as `parse --trees 5` orders them",
        "best": "the best of five",
    }
    return table(("", "LAS"), ((title, f"{found[name]:.2f}") for name, title in titles.items()))


def partial_trees() -> str:
    """LAS of trainings on parts of a treebank."""
    found: dict[tuple[float, str], list[Row]] = {}
    for line in printed(OUTPUT, "measure_partial_trees"):
        if line.startswith("{"):
            run: Row = json.loads(line)
            found.setdefault((run["share"], run["without"]), []).append(run)
    return table(
        ("left out", "sentences", "dev LAS", "test LAS"),
        (
            (
                f"{share * 100:.0f} % of the words, by {without}" if share else "nothing",
                f"{mean(run['sentences'] for run in runs):,.0f}",
                mean_las(runs, "dev"),
                mean_las(runs, "test"),
            )
            for (share, without), runs in sorted(found.items())
        ),
    )


def learning_curves(treebank: str) -> str:
    """Mean test LAS of the seeds by the number of annotated words. treebank: its name in the runs' folder."""
    found: dict[str, dict[int, list[Row]]] = {"random": {}, "confidence": {}}
    for line in printed(OUTPUT, f"runs/selection/{treebank}"):
        if line.startswith("{"):
            run: Row = json.loads(line)
            found[run["by"]].setdefault(run["step"], []).append(run)
    at_random = list(found["random"].values())
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
                f"{mean(run['sentences'] for run in selected):,.0f}",
                f"{mean(run['words'] for run in selected):,.0f}",
                mean_las(found["random"][step], "test"),
                mean_las(selected, "test"),
                las_difference(selected, found["random"][step], "test") if step else "",
                words_at_random(selected) if step else "",
            )
            for step, selected in found["confidence"].items()
        ),
    )


FIGURES: dict[str, Callable[[], str]] = {
    "calibrations": calibrations,
    "given-arcs": given_arcs,
    "best-trees": best_trees,
    "partial-trees": partial_trees,
    "learning-curves-ewt": partial(learning_curves, "ewt"),
    "learning-curves-wolof": partial(learning_curves, "wolof"),
}
