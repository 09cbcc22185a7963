"""Batching on the fly beside Table 1 of Neubig, Goldberg & Dyer (2017)."""

from __future__ import annotations

from collections.abc import Callable

from figures.kept import plain_speed, ratios, speed_run, table

TASKS = "tagger", "char-tagger", "trees", "parser"
TITLES = "tagger", "with characters", "Tree-LSTM", "transition parser"
PAPER = {
    "none": ("16.8", "15.7", "50.2", "16.8"),
    "depth": ("139", "93.8", "348", "61.0"),
    "agenda": ("156", "132", "357", "61.2"),
}
"""Sentences per second of the paper's Table 1, on a CPU."""
PAPER_RATIOS = "9.3", "8.4", "7.1", "3.6"
METHODS = {
    "none": "none",
    "depth": "depth",
    "agenda": "agenda",
    "manual": "by hand",
    "levels": "by levels, static",
    "library": "PyTorch's LSTM",
}


def summary() -> str:
    run = speed_run("on-the-fly")
    over_none, over_manual = (
        [run.ratio(task, "agenda@64", f"{other}@64").value for task in TASKS] for other in ("none", "manual")
    )
    speeds = [run.cell(task, "agenda@64").sentences_per_second for task in TASKS]
    return table(
        ("", *TITLES),
        (
            ("agenda, examples/s", *(f"{speed:.0f}" for speed in speeds)),
            (
                f"speed-up over no batching (the paper: {', '.join(PAPER_RATIOS)})",
                *(f"{value:.1f}" for value in over_none),
            ),
            ("share of the speed of batching by hand", *(f"{value:.2f}" for value in over_manual)),
        ),
    )


def beside_paper() -> str:
    """In brackets with single operations recorded, as in the paper."""
    lines: list[tuple[str, ...]] = [(f"paper: {method}", *speeds) for method, speeds in PAPER.items()]
    lines += [
        (f"ours: {title}", *(_speed(task, method) for task in TASKS)) for method, title in METHODS.items()
    ]
    lines += [
        ("paper: agenda / none", *PAPER_RATIOS),
        ("ours: agenda / none", *_ratios("", "none", 1)),
        ("the same with single operations", *_ratios("-operations", "none", 1)),
        ("agenda / by hand", *_ratios("", "manual", 2)),
        ("recording and scheduling, share of a step", *map(_recording, TASKS)),
    ]
    return table(("", *TITLES), lines)


def _speed(task: str, method: str) -> str:
    run, cell = speed_run("on-the-fly"), f"{method}@64"
    if not run.has(task, cell):
        return ""
    speed = plain_speed(run.cell(task, cell).sentences_per_second)
    operations = f"{task}-operations"
    if not run.has(operations, cell):
        return speed
    return f"{speed} ({plain_speed(run.cell(operations, cell).sentences_per_second)})"


def _ratios(end: str, other: str, digits: int) -> list[str]:
    run = speed_run("on-the-fly")
    return [f"{run.ratio(task + end, 'agenda@64', f'{other}@64'):.{digits}f}" for task in TASKS]


def _recording(task: str) -> str:
    shares = []
    for experiment in (task, f"{task}-operations"):
        phases = speed_run("on-the-fly").cell(experiment, "agenda@64").phase_seconds
        shares.append((phases["graph"] + phases["scheduling"]) / sum(phases.values()))
    return f"{shares[0]:.2f} ({shares[1]:.2f})"


def more_ratios() -> str:
    lines = (
        ("synthetic tagger", "synthetic", "agenda@64", "manual@64"),
        ("with single operations (the paper: 0.79)", "synthetic-operations", "agenda@64", "manual@64"),
        ("by hand, then by agenda", "synthetic", "manual-agenda@64", "manual@64"),
        ("with single operations", "synthetic-operations", "manual-agenda@64", "manual@64"),
        ("by hand, then by depth", "synthetic", "manual-depth@64", "manual@64"),
        ("with single operations", "synthetic-operations", "manual-depth@64", "manual@64"),
        ("PyTorch's LSTM, equal lengths", "synthetic", "library@64", "manual@64"),
        ("PyTorch's LSTM, tagger", "tagger", "library@64", "manual@64"),
        ("with characters", "char-tagger", "library@64", "manual@64"),
        ("transition parser", "parser", "library@64", "manual@64"),
        ("a single tree (the paper: 2.0)", "trees", "agenda@1", "none@1"),
        ("tagger with a middle layer", "tagger-middle-layer", "agenda@64", "none@64"),
    )
    return ratios(speed_run("on-the-fly"), lines)


def middle_layer() -> str:
    """The earlier run, of other networks on another machine."""
    run = speed_run("on-the-fly/middle-layer")
    return table(
        ("", *TITLES),
        [("agenda / none", *(f"{run.ratio(task, 'agenda@64', 'none@64'):.1f}" for task in TASKS))],
    )


FIGURES: dict[str, Callable[[], str]] = {
    "on-the-fly": summary,
    "on-the-fly-beside-paper": beside_paper,
    "on-the-fly-middle-layer": middle_layer,
    "on-the-fly-ratios": more_ratios,
}
