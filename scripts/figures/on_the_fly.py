"""Batching on the fly, compared with Table 1 of Neubig, Goldberg & Dyer (2017)."""

from __future__ import annotations

from collections.abc import Callable

from figures.kept import ratios, speed_run, table

RUN = "on-the-fly"
TASKS = {
    "tagger": "tagger",
    "with characters": "char-tagger",
    "Tree-LSTM": "trees",
    "transition parser": "parser",
}
PAPER = {
    "none": ("16.8", "15.7", "50.2", "16.8"),
    "depth": ("139", "93.8", "348", "61.0"),
    "agenda": ("156", "132", "357", "61.2"),
}
"""Sentences per second of the paper's Table 1, on a CPU."""
PAPER_RATIOS = "9.3", "8.4", "7.1", "3.6"
PAPER_SIZES = "256, 256, 256", "256, 256, 256", "256, 256", "100, 200, 100"
"""Sizes of words, LSTM and middle layer: from Appendix C, and for the parser from the authors' script."""
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
Line = tuple[str, ...]


def for_tasks(title: str, cell: Callable[[str], str], ending: str = "") -> Line:
    """A line with a cell for each task. ending: of the experiments' names."""
    return (title, *(cell(task + ending) for task in TASKS.values()))


def sizes(task: str) -> str:
    """The sizes of the measured network; the middle layer can be missing."""
    settings = speed_run(RUN).cell(task, "agenda@64").settings
    names = "word_size", "hidden_size", "middle_size"
    return ", ".join(str(settings[size] or "none") for size in names if size in settings)


def over_simple(experiment: str) -> str:
    """The agenda's speed over that of the best simple way, which is named; empty if none was measured."""
    run = speed_run(RUN)
    rows = [run.cell(experiment, f"{way}@64") for way in SIMPLE if run.has(experiment, f"{way}@64")]
    if not rows:
        return ""
    best = max(rows, key=lambda row: row.sentences_per_second).method
    return f"{run.ratio(experiment, 'agenda@64', f'{best}@64')} (`{best}`)"


def over_none(experiment: str) -> str:
    return speed_run(RUN).over(experiment, "agenda@64", "none@64", 1)


def variants() -> list[Line]:
    """Comparisons of the agenda with the best simple way in other experiments on the tasks."""
    return [
        for_tasks("the same with single operations, as in the paper", over_simple, "-operations"),
        for_tasks("the same in batches of similar lengths", over_simple, "-similar-lengths"),
    ]


def of_tasks(*lines: Line) -> str:
    """A table of the lines that do not only have a title."""
    return table(("", *TASKS), [line for line in lines if any(line[1:])])


def summary() -> str:
    run = speed_run(RUN)
    return of_tasks(
        for_tasks("sizes of words, LSTM, middle layer", sizes),
        ("the paper's sizes", *PAPER_SIZES),
        for_tasks(
            "agenda, examples/s", lambda task: f"{run.cell(task, 'agenda@64').sentences_per_second:.0f}"
        ),
        for_tasks(
            f"speed-up over no batching (the paper: {', '.join(PAPER_RATIOS)})",
            lambda task: f"{run.ratio(task, 'agenda@64', 'none@64').value:.1f}",
        ),
        for_tasks("share of the speed of the best simple way", over_simple),
        *variants(),
    )


def beside_paper() -> str:
    """Speeds next to the paper's. In brackets: with single operations recorded, as in the paper."""
    run = speed_run(RUN)

    def speed(task: str, method: str) -> str:
        operations = run.speed(f"{task}-operations", f"{method}@64") if method not in SIMPLE else ""
        return run.speed(task, f"{method}@64") + (f" ({operations})" if operations else "")

    def recording(task: str) -> str:
        shares = []
        for experiment in (task, f"{task}-operations"):
            if run.has(experiment, "agenda@64"):
                phases = run.cell(experiment, "agenda@64").phase_seconds
                shares.append((phases["graph"] + phases["scheduling"]) / sum(phases.values()))
        return " ".join([f"{shares[0]:.2f}", *(f"({share:.2f})" for share in shares[1:])])

    return of_tasks(
        ("paper: sizes of words, LSTM, middle layer", *PAPER_SIZES),
        for_tasks("ours", sizes),
        *((f"paper: {method}", *speeds) for method, speeds in PAPER.items()),
        *(
            (f"ours: {title}", *(speed(task, method) for task in TASKS.values()))
            for method, title in METHODS.items()
        ),
        ("paper: agenda / none", *PAPER_RATIOS),
        for_tasks("ours: agenda / none", over_none),
        for_tasks("the same with single operations", over_none, "-operations"),
        for_tasks("agenda / the best simple way", over_simple),
        *variants(),
        for_tasks("recording and scheduling, share of a step", recording),
    )


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
    return ratios(run, [line for line in lines if all(run.has(line[1], cell) for cell in line[2:])])


FIGURES: dict[str, Callable[[], str]] = {
    "on-the-fly": summary,
    "on-the-fly-beside-paper": beside_paper,
    "on-the-fly-ratios": more_ratios,
}
