"""Batching on the fly, compared with Table 1 of Neubig, Goldberg & Dyer (2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from figures.kept import plain_speed, ratios, speed_run, table

RUN = "on-the-fly"
TASKS = "tagger", "char-tagger", "trees", "parser"
TITLES = "tagger", "with characters", "Tree-LSTM", "transition parser"
PAPER = {
    "none": ("16.8", "15.7", "50.2", "16.8"),
    "depth": ("139", "93.8", "348", "61.0"),
    "agenda": ("156", "132", "357", "61.2"),
}
"""Sentences per second of the paper's Table 1, on a CPU."""
PAPER_RATIOS = "9.3", "8.4", "7.1", "3.6"
PAPER_SIZES = "256, 256, 256", "256, 256, 256", "256, 256", "100, 200, 100"
"""Sizes of words, LSTM and middle layer: from Appendix C, and for the parser from the authors' script."""
SIZES = "word_size", "hidden_size", "middle_size"
METHODS = {
    "none": "none",
    "depth": "depth",
    "agenda": "agenda",
    "manual": "by hand",
    "library": "PyTorch's LSTM, packed",
    "padded": "PyTorch's LSTM, padded",
    "levels": "by levels, static",
}
SIMPLE = "manual", "library", "padded"


def summary() -> str:
    run = speed_run(RUN)
    speeds = [run.cell(task, "agenda@64").sentences_per_second for task in TASKS]
    over_none = [run.ratio(task, "agenda@64", "none@64").value for task in TASKS]
    return table(
        ("", *TITLES),
        (
            ("sizes of words, LSTM, middle layer", *map(_sizes, TASKS)),
            ("the paper's sizes", *PAPER_SIZES),
            ("agenda, examples/s", *(f"{speed:.0f}" for speed in speeds)),
            (
                f"speed-up over no batching (the paper: {', '.join(PAPER_RATIOS)})",
                *(f"{value:.1f}" for value in over_none),
            ),
            ("share of the speed of the best simple way", *map(_over_simple, TASKS)),
            *_variants(),
        ),
    )


def beside_paper() -> str:
    """Speeds next to the paper's. In brackets: with single operations recorded, as in the paper."""
    lines: list[tuple[str, ...]] = [
        ("paper: sizes of words, LSTM, middle layer", *PAPER_SIZES),
        ("ours", *map(_sizes, TASKS)),
    ]
    lines += [(f"paper: {method}", *speeds) for method, speeds in PAPER.items()]
    lines += [
        (f"ours: {title}", *(_speed(task, method) for task in TASKS)) for method, title in METHODS.items()
    ]
    lines += [
        ("paper: agenda / none", *PAPER_RATIOS),
        ("ours: agenda / none", *(_over_none(task) for task in TASKS)),
        *_measured(
            [("the same with single operations", *(_over_none(f"{task}-operations") for task in TASKS))]
        ),
        ("agenda / the best simple way", *map(_over_simple, TASKS)),
        *_variants(),
        ("recording and scheduling, share of a step", *map(_recording, TASKS)),
    ]
    return table(("", *TITLES), lines)


def _sizes(task: str) -> str:
    """The sizes of the measured network; the middle layer can be missing."""
    settings = speed_run(RUN).cell(task, "agenda@64").settings
    return ", ".join(str(settings[size] or "none") for size in SIZES if size in settings)


def _speed(task: str, method: str) -> str:
    run, cell = speed_run(RUN), f"{method}@64"
    if not run.has(task, cell):
        return ""
    speed = plain_speed(run.cell(task, cell).sentences_per_second)
    operations = f"{task}-operations"
    if method in SIMPLE or not run.has(operations, cell):
        return speed
    return f"{speed} ({plain_speed(run.cell(operations, cell).sentences_per_second)})"


def _over_none(experiment: str) -> str:
    run = speed_run(RUN)
    if not run.has(experiment, "none@64"):
        return ""
    return f"{run.ratio(experiment, 'agenda@64', 'none@64'):.1f}"


def _variants() -> list[tuple[str, ...]]:
    """Comparisons of the agenda with the best simple way in other experiments on the tasks."""
    titles = {
        "operations": "the same with single operations, as in the paper",
        "similar-lengths": "the same in batches of similar lengths",
    }
    return _measured(
        (title, *(_over_simple(f"{task}-{end}") for task in TASKS)) for end, title in titles.items()
    )


def _measured(lines: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The lines without those that contain only a title."""
    return [line for line in lines if any(line[1:])]


def _over_simple(experiment: str) -> str:
    """The agenda's speed over that of the best simple way, which is named."""
    run = speed_run(RUN)
    measured = [f"{method}@64" for method in SIMPLE if run.has(experiment, f"{method}@64")]
    if not measured:
        return ""
    best = max(measured, key=lambda cell: run.cell(experiment, cell).sentences_per_second)
    return f"{run.ratio(experiment, 'agenda@64', best)} (`{best.removesuffix('@64')}`)"


def _recording(task: str) -> str:
    shares = []
    measured = [name for name in (task, f"{task}-operations") if speed_run(RUN).has(name, "agenda@64")]
    for experiment in measured:
        phases = speed_run(RUN).cell(experiment, "agenda@64").phase_seconds
        shares.append((phases["graph"] + phases["scheduling"]) / sum(phases.values()))
    return " ".join([f"{shares[0]:.2f}", *(f"({share:.2f})" for share in shares[1:])])


def more_ratios() -> str:
    """The ratios for which both cells have been measured."""
    run = speed_run(RUN)
    lines = (
        ("synthetic tagger", "synthetic", "agenda@64", "manual@64"),
        ("with single operations (the paper: 0.79)", "synthetic-operations", "agenda@64", "manual@64"),
        ("by hand, then by agenda", "synthetic", "manual-agenda@64", "manual@64"),
        ("with single operations", "synthetic-operations", "manual-agenda@64", "manual@64"),
        ("by hand, then by depth", "synthetic", "manual-depth@64", "manual@64"),
        ("with single operations", "synthetic-operations", "manual-depth@64", "manual@64"),
        ("PyTorch's LSTM, equal lengths, packed", "synthetic", "library@64", "manual@64"),
        ("PyTorch's LSTM, equal lengths", "synthetic", "padded@64", "manual@64"),
        ("a loop over PyTorch's LSTM, tagger", "tagger-loop", "library@1", "none@64"),
        ("agenda over that loop", "tagger-loop", "agenda@64", "library@1"),
        ("packed, tagger", "tagger", "library@64", "manual@64"),
        ("packed, with characters", "char-tagger", "library@64", "manual@64"),
        ("packed, transition parser", "parser", "library@64", "manual@64"),
        ("padded, tagger", "tagger", "padded@64", "manual@64"),
        ("padded, with characters", "char-tagger", "padded@64", "manual@64"),
        ("padded, transition parser", "parser", "padded@64", "manual@64"),
        ("the same in similar lengths, tagger", "tagger-similar-lengths", "padded@64", "manual@64"),
        ("with characters", "char-tagger-similar-lengths", "padded@64", "manual@64"),
        ("transition parser", "parser-similar-lengths", "padded@64", "manual@64"),
        ("trees, by levels", "trees", "levels@64", "manual@64"),
        ("a single tree (the paper: 2.0)", "trees", "agenda@1", "none@1"),
    )
    measured = [line for line in lines if all(run.has(line[1], cell) for cell in line[2:])]
    return ratios(run, measured)


FIGURES: dict[str, Callable[[], str]] = {
    "on-the-fly": summary,
    "on-the-fly-beside-paper": beside_paper,
    "on-the-fly-ratios": more_ratios,
}
