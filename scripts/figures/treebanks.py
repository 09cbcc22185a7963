"""Scores of treebanks that `stack-parser train-all` trained together, next to those published for UDPipe, and
the search for the settings of small treebanks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, mean
from typing import NamedTuple

from figures.kept import MEASUREMENTS, OUTPUT, printed, runs_of_table, table
from parser.models.model_card import OF_TEXT, OF_TOKENS, Given
from parser.tables.published_scores import read_published
from parser.tables.report_lines import TreebankScore, mean_score
from parser.tables.treebank_report import LARGE

INDEX, PUBLISHED = "accuracy/all-treebanks.json", "accuracy/udpipe-ud-2.5.json"
PUBLISHED_OF_FEW = "accuracy/udpipe-conll-2018.json"
GIVEN: tuple[Given, ...] = OF_TEXT, OF_TOKENS


class _Trained(NamedTuple):
    """LAS of a treebank's parser and the published LAS, by what is given."""

    name: str
    words: int
    minutes: float
    las: dict[Given, TreebankScore]
    published: dict[Given, float | None]


def all_treebanks() -> str:
    """Test LAS, the smallest treebank first, and averages over the treebanks that UDPipe has, too."""
    found = sorted(_trained(PUBLISHED), key=lambda own: own.words)
    compared = [own for own in found if None not in own.published.values()]
    large = [own for own in compared if own.words >= LARGE]
    groups = {
        f"average of the {len(compared)} that both have": compared,
        f"average of the {len(large)} of these with {LARGE:,} words or more": large,
    }
    header = (
        *("", "words of train", "LAS from raw text", "UDPipe 1.2", "difference"),
        *("LAS with gold tokens", "UDPipe 1.2", "difference", "minutes"),
    )
    lines = [[own.name, f"{own.words:,}", *_cells([own]), f"{own.minutes:.0f}"] for own in found]
    return table(header, [*lines, *([name, "", *_cells(own), ""] for name, own in groups.items())])


def _trained(others: str) -> Iterator[_Trained]:
    """The trained treebanks with their scores. others: file with published scores."""
    published = read_published(MEASUREMENTS / others)
    for model in json.loads((MEASUREMENTS / INDEX).read_text(encoding="utf-8"))["models"]:
        scores = {own["from"]: own for own in model["scores"] if own["on"] == "test"}
        yield _Trained(
            model["treebank"].removeprefix("UD_").replace("_", " ").replace("-", " "),
            model["training_words"],
            model["seconds"] / 60,
            {given: TreebankScore(scores[given]["las"], scores[given].get("las_error")) for given in GIVEN},
            {given: published.las(model["treebank"], given) for given in GIVEN},
        )


def _cells(treebanks: Sequence[_Trained]) -> Iterator[str]:
    """The cells of one treebank, or the means of several."""
    for given in GIVEN:
        las, error = mean_score([own.las[given] for own in treebanks])
        yield f"{las:.2f}" if error is None else f"{las:.2f} ± {error:.2f}"
        known = [each for own in treebanks if (each := own.published[given]) is not None]
        # Published scores have one decimal.
        yield f"{mean(known):.2f}" if len(treebanks) > 1 else "".join(f"{each:.1f}" for each in known)
        yield f"{las - mean(known):+.1f}" if known else ""


def few_sentences() -> str:
    """LAS of treebanks of a few dozen sentences, by how the parser was trained."""
    whole = {own.name: own for own in _trained(PUBLISHED_OF_FEW)}
    columns: list[tuple[str, ...]] = [
        (
            "",
            "own sentences",
            "own sentences, mean of folds of train",
            "from the parser of Uyghur UDT",
            "the best parser of another treebank",
            "UDPipe at CoNLL 2018",
        )
    ]
    for name, runs in runs_of_table("related-treebank").items():
        study = f"measure_zero_shot.py runs/models ${{PARSER_DATA}}/ud/UD_{name.replace(' ', '-')}"
        other, _, scores = printed(OUTPUT, study)[1].partition(": ")
        best: dict[Given, str] = {OF_TEXT: "", OF_TOKENS: f"{scores.partition('LAS ')[2]} (`{other}`)"}
        for given, part in zip(GIVEN, ("text", "test"), strict=True):
            las, published = whole[name].las[given].value, whole[name].published[given]
            related = mean(run[part]["las"] for run in runs)
            title = f"{name}, {given}"
            cells = (f"{found:.2f}" for found in (las, _mean_of_folds(name, given), related))
            columns.append((title, *cells, best[given], f"{published or ''}"))
    header, *lines = zip(*columns, strict=True)
    return table(header, lines)


def _mean_of_folds(treebank: str, given: Given) -> float:
    """LAS of a cross-validation: the mean over the words of its test sets, which differ in length."""
    path = MEASUREMENTS / f"accuracy/{treebank.lower().replace(' ', '-')}-folds.json"
    models = json.loads(path.read_text(encoding="utf-8"))["models"]
    # Each word is in the train parts of all folds but one.
    words = sum(model["training_words"] for model in models) // (len(models) - 1)
    tested = [words - model["training_words"] for model in models]
    las = [own["las"] for model in models for own in model["scores"] if own["from"] == given]
    return fmean(las, tested)


def small_treebank_settings() -> str:
    """LAS of each treebank with each variant of the settings, and the mean difference to the first."""
    found: dict[str, dict[str, float]] = {}
    for name, runs in runs_of_table("small-treebank-settings").items():
        treebank, _, variant = name.partition("; ")
        found.setdefault(variant, {})[treebank] = mean(run["test"]["las"] for run in runs)
    before = found[""]
    lines = (
        (
            variant or "before",
            *(f"{own[treebank]:.2f}" for treebank in before),
            f"{mean(own[treebank] - before[treebank] for treebank in before):+.2f}" if variant else "",
        )
        for variant, own in found.items()
    )
    return table(("", *before, "mean difference"), lines)


FIGURES: dict[str, Callable[[], str]] = {
    "all-treebanks": all_treebanks,
    "few-sentences": few_sentences,
    "small-treebank-settings": small_treebank_settings,
}
