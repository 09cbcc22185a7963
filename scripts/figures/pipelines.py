"""The table of programs that parse raw text, measured by scripts/studies/text/measure_pipelines.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median
from typing import Any

from figures.kept import rows, table
from parser.evaluation.statistics import ratio_of

ROWS = "speed/pipelines.jsonl"
WORK = {
    "256": ("words per second, batches of 256", lambda seconds: f"{1 / seconds:,.0f}"),
    "32": ("words per second, batches of 32", lambda seconds: f"{1 / seconds:,.0f}"),
    "1": ("words per second, batches of 1", lambda seconds: f"{1 / seconds:,.0f}"),
    "alone": ("milliseconds for a sentence alone", lambda seconds: f"{1000 * seconds:.2f}"),
    "first tree": ("seconds to a command's first tree", lambda seconds: f"{seconds:.2f}"),
}
"""What a turn measures: its title, and how the seconds for one word, sentence or command are shown."""
MEMORY = {"loaded": "MB of memory, loaded", "after_warm_up": "MB after 100,000 words"}


def pipelines() -> str:
    """Medians with the range of the turns, and how many times as fast the first program is as the others."""
    row = rows(ROWS)[-1]
    core, *lines = map(json.loads, row["printed"])
    programs = {line["program"]: line for line in lines if "loaded" in line}
    seconds = {
        (line["program"], line["work"]): [each / line["count"] for each in line["seconds"]]
        for line in lines
        if "work" in line
    }
    ours, *others = programs
    times = [
        (
            title,
            *(_with_range(seconds[name, work], shown) for name in programs),
            *(ratio_of(seconds[name, work], seconds[ours, work], interleaved=True) for name in others),
        )
        for work, (title, shown) in WORK.items()
    ]
    memory = [
        (title, *(f"{line[when] / 1e6:.0f}" for line in programs.values()), *("" for _ in others))
        for when, title in MEMORY.items()
    ]
    header = ("CPU time", *programs, *(f"over {name}" for name in others))
    machine = f"Measured on one core of {core['processor']} ({', '.join(core['instructions'])}):"
    described = (f"- {name}: {_described(line)}" for name, line in programs.items())
    return "\n".join([table(header, [*times, *memory]), "", machine, "", *described])


def _with_range(seconds: list[float], shown: Callable[[float], str]) -> str:
    first, last = sorted((min(seconds), max(seconds)), key=lambda each: float(shown(each).replace(",", "")))
    return f"{shown(median(seconds))} [{shown(first)}, {shown(last)}]"


def _described(program: dict[str, Any]) -> str:
    """The commit and the versions."""
    commit = [f"commit {program['commit'][:8]}"] if program["commit"] else []
    return ", ".join([*commit, *(f"{name} {version}" for name, version in program["versions"].items())])


FIGURES = {"text-pipelines": pipelines}
