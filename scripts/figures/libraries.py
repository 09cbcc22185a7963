"""This program's batching methods compared with DyNet and PyTorch Geometric, measured in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from figures.kept import latest, table
from parser.speed.measuring.statistics import median_of, ratio_of

ROWS = "speed/peers/batching/external.jsonl"
TASKS = {
    "trees": "Tree-LSTM",
    "tagger": "tagger",
    "char-tagger": "with characters",
    "parser": "transition parser",
}
OURS = {
    "agenda": "agenda",
    "depth": "depth",
    "levels": "by levels",
    "manual": "by hand",
    "none": "one by one",
}
NATIVE, PYTHON, WHEEL = "DyNet native, C++", "DyNet native, Python", "DyNet wheel, Python"
GRAPHS = {"deductions": "deductions", "molecules": "molecules"}
Speeds = Mapping[str, Sequence[float]]


def speeds_of(task: str, path: str = ROWS) -> dict[str, Sequence[float]]:
    """The speeds in each turn for a task, by program; the task is removed from the programs' names."""
    found = (row for row in latest(path) if row["task"] == task)
    return {row["name"].removesuffix(f", {task}"): row["speeds"] for row in found}


def fastest(speeds: Speeds, *words: str) -> Sequence[float] | None:
    """The speeds of the fastest program with all these words in its name; None if there is none."""
    own = [each for name, each in speeds.items() if all(word in name for word in words)]
    return max(own, key=lambda each: median_of(each).value, default=None)


def over(one: Sequence[float] | None, other: Sequence[float] | None) -> str:
    return "" if one is None or other is None else f"{ratio_of(one, other, interleaved=True):.2f}"


def speed(own: Sequence[float] | None) -> str:
    return "" if own is None else f"{median_of(own).value:,.0f}"


def dynet() -> str:
    """Speeds of both programs, and ours over DyNet's with the faster of its LSTMs."""
    tasks = [speeds_of(task) for task in TASKS]
    lines = [(f"ours, {title}", *(speed(each.get(name)) for each in tasks)) for name, title in OURS.items()]
    lines += [
        (f"{build}, {method}", *(speed(fastest(each, build, method)) for each in tasks))
        for build, method in (
            (NATIVE, "agenda"),
            (NATIVE, "depth"),
            (NATIVE, "none"),
            (PYTHON, "agenda"),
            (WHEEL, "agenda"),
        )
    ]
    lines += [
        (
            f"{mine} over {build}, agenda",
            *(over(each.get(mine), fastest(each, build, "agenda")) for each in tasks),
        )
        for mine, build in (("agenda", NATIVE), ("levels", NATIVE), ("agenda", PYTHON), ("agenda", WHEEL))
    ]
    return table(("examples/s", *TASKS.values()), lines)


def pyg() -> str:
    """Speeds of training graph networks, and ours over PyG's with as many kinds of edges."""
    names = {
        "none": "one call for a batch (`none`)",
        "active-16": "by messages (`active-16`)",
        "PyG, kinds of edges": "PyG, extended by kinds of edges",
        "PyG, plain GatedGraphConv": "PyG, `GatedGraphConv` as it is: another network",
    }
    tasks = {
        title + ends: speeds_of(task + ends)
        for task, title in GRAPHS.items()
        for ends in ("", ", two threads")
    }
    tasks = {title: own for title, own in tasks.items() if own}
    lines = [(title, *(speed(each.get(name)) for each in tasks.values())) for name, title in names.items()]
    lines += [
        (
            f"`{mine}` over PyG, extended",
            *(over(each.get(mine), each.get("PyG, kinds of edges")) for each in tasks.values()),
        )
        for mine in ("none", "active-16")
    ]
    return table(("graphs/s", *tasks), lines)


FIGURES: dict[str, Callable[[], str]] = {"libraries-dynet": dynet, "libraries-pyg": pyg}
