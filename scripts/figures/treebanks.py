"""Treebanks that `stack-parser train-all` trained together, beside what UDPipe's authors publish of them, and
the search for the settings of small ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from statistics import mean
from typing import NamedTuple

from figures.kept import MEASUREMENTS, OUTPUT, printed, runs_of_table, table
from parser.parsing.model_card import OF_TEXT, OF_TOKENS, Given
from parser.tables.published_scores import read_published
from parser.tables.report_lines import TreebankScore, mean_score
from parser.tables.treebank_report import LARGE

INDEX, PUBLISHED = "accuracy/all-treebanks.json", "accuracy/udpipe-ud-2.5.json"
FOLDS = {"Kazakh KTB": "accuracy/kazakh-folds.json"}
"""Indices of the models of cross-validation."""
FEW = "Kazakh KTB", "Buryat BDT"
PUBLISHED_OF_FEW = "accuracy/udpipe-conll-2018.json"
GIVEN: tuple[Given, ...] = OF_TEXT, OF_TOKENS


class _Trained(NamedTuple):
    """LAS of a treebank's parser and what is published of it, by what is given."""

    name: str
    words: int
    minutes: float
    las: dict[Given, TreebankScore]
    published: dict[Given, float | None]


def all_treebanks() -> str:
    """LAS on test, the smallest treebank first, and averages of those that UDPipe has, too."""
    found = sorted(_trained(INDEX, PUBLISHED), key=lambda own: own.words)
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


def _trained(index: str, others: str) -> Iterator[_Trained]:
    """Of the models of an index, with the scores of others; both are files."""
    published = read_published(MEASUREMENTS / others)
    for model in json.loads((MEASUREMENTS / index).read_text(encoding="utf-8"))["models"]:
        scores = {own["from"]: own for own in model["scores"] if own["on"] == "test"}
        yield _Trained(
            model["treebank"].removeprefix("UD_").replace("_", " ").replace("-", " "),
            model["training_words"],
            model["seconds"] / 60,
            {given: TreebankScore(scores[given]["las"], scores[given].get("las_error")) for given in GIVEN},
            {given: published.las(model["treebank"], given) for given in GIVEN},
        )


def _cells(treebanks: Sequence[_Trained]) -> Iterator[str]:
    """Of one treebank, or means of several."""
    for given in GIVEN:
        las, error = mean_score([own.las[given] for own in treebanks])
        yield f"{las:.2f}" if error is None else f"{las:.2f} ± {error:.2f}"
        known = [each for own in treebanks if (each := own.published[given]) is not None]
        # One digit is published.
        yield f"{mean(known):.2f}" if len(treebanks) > 1 else "".join(f"{each:.1f}" for each in known)
        yield f"{las - mean(known):+.1f}" if known else ""


def few_sentences() -> str:
    """LAS of treebanks of a few dozen sentences, by how the parser was trained."""
    whole = {own.name: own for own in _trained(INDEX, PUBLISHED_OF_FEW)}
    related = runs_of_table("related-treebank")

    def cells(of: Callable[[str], Sequence[float | str | None]]) -> Iterator[str]:
        for name in FEW:
            for las in of(name):
                yield "" if las is None else las if isinstance(las, str) else f"{las:.2f}"

    def by_folds(name: str) -> list[float | None]:
        if name not in FOLDS:
            return [None, None]
        folds = list(_trained(FOLDS[name], PUBLISHED_OF_FEW))
        return [mean_score([fold.las[given] for fold in folds]).value for given in GIVEN]

    def by_others(name: str) -> tuple[None, str]:
        study = f"measure_zero_shot.py runs/models ${{PARSER_DATA}}/ud/UD_{name.replace(' ', '-')}"
        other, _, scores = printed(OUTPUT, study)[1].partition(": UAS ")
        return None, f"{scores.partition('LAS ')[2]} (`{other}`)"

    ways: dict[str, Callable[[str], Sequence[float | str | None]]] = {
        "own sentences, cross-validation": by_folds,
        "own sentences": lambda name: [whole[name].las[given].value for given in GIVEN],
        "from the parser of Uyghur UDT": lambda name: [
            mean(run[part]["las"] for run in related[name]) for part in ("text", "test")
        ],
        "the best parser of another treebank": by_others,
        "UDPipe at CoNLL 2018": lambda name: [whole[name].published[given] for given in GIVEN],
    }
    header = ("", *(f"{name}, {given}" for name in FEW for given in GIVEN))
    return table(header, ((way, *cells(of)) for way, of in ways.items()))


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
