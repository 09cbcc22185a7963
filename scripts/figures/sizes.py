"""What treebanks give by their number of sentences, and how long training takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from figures.cells import mean_minutes, minutes, scores, table
from figures.kept import Row, rows, runs_of_table
from figures.parsers import only_runs

TRAINING = {
    "Ancient Greek PTNK": (727, 18_440),
    "Uyghur UDT": (1_656, 19_262),
    "French Sequoia": (2_231, 50_502),
    "English EWT": (12_544, 204_577),
}
"""Trees and words of their training sets."""


def small_treebanks() -> str:
    """Configs on Wolof WTB and on a part of it, in the order of the size and of the scores."""
    found = sorted(rows("accuracy/sizes.jsonl"), key=lambda run: (_trees(run), run["test"]["las"]))
    which = "dev las", "test uas", "test las"

    def lines() -> Iterable[tuple[object, ...]]:
        for run in found:
            config = run["name"].split(", ")[1]
            yield f"{_trees(run):,}", f"`{config}`", run["epochs"], *scores(run, *which)

    return table(("training trees", "config", "epochs", "dev LAS", "test UAS", "test LAS"), lines())


def _trees(run: Row) -> int:
    """By the beginning of its name."""
    return int(run["name"].partition(", ")[0].replace(",", ""))


def minutes_by_size() -> str:
    """With the epochs that the configs have. Only English was trained with `ud-fast`."""
    fast = {"English EWT": mean_minutes(runs_of_table("time-to-accuracy")["ud-fast"])}
    tagged, untagged = only_runs("treebanks"), only_runs("untagged")
    return table(
        ("", "training trees", "words", "`ud-fast`", "`ud-any`", "`ud-untagged`"),
        (
            (
                name,
                f"{trees:,}",
                f"{words:,}",
                fast.get(name, ""),
                minutes(tagged[name]),
                minutes(untagged[name]),
            )
            for name, (trees, words) in TRAINING.items()
        ),
    )


FIGURES: dict[str, Callable[[], str]] = {
    "small-treebanks": small_treebanks,
    "minutes-by-size": minutes_by_size,
}
