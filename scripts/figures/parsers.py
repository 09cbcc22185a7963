"""Scores of whole parsers: by treebank, by what they read, from raw text, and how long training took."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from statistics import median

from figures.cells import SPLITS, mean_las, mean_minutes, minutes, scores, table
from figures.kept import Row, printed, rows, runs_of_table
from parser.config.measures import TEXT_MEASURES, TextMeasure

UDPIPE = {
    "English EWT": ("88.1", "86.2"),
    "French Sequoia": ("89.7", "88.1"),
    "Ancient Greek PTNK": ("", ""),
    "Uyghur UDT": ("74.4", "61.1"),
}
"""UAS and LAS of UDPipe's UD 2.5 models by its own documentation, gold tokenization and morphology."""
OUTPUT = "accuracy/printed.jsonl"
UNTAGGED: tuple[TextMeasure, ...] = "upos", "xpos", "ufeats", "lemmas", "uas", "las", "mlas", "blex"
OF_TEXT: tuple[TextMeasure, ...] = (
    "tokens",
    "sentences",
    "words",
    "upos",
    "lemmas",
    "uas",
    "las",
    "mlas",
    "blex",
)
TARGETS = 82, 84, 85, 86, 88


def only_runs(name: str) -> dict[str, Row]:
    """The runs of a table with one seed, by their names."""
    return {name: runs[0] for name, runs in runs_of_table(name).items()}


def treebanks_beside_udpipe() -> str:
    runs = only_runs("treebanks")
    header = ("", "dev LAS", "test UAS", "test LAS", "minutes", "UDPipe 1, test UAS", "test LAS")
    which = "dev las", "test uas", "test las"
    lines = (
        (name, *scores(runs[name], *which), minutes(runs[name]), *udpipe) for name, udpipe in UDPIPE.items()
    )
    return table(header, lines)


def treebanks() -> str:
    """With the settings before the search and since."""
    runs = only_runs("treebanks")
    header = ("", "dev LAS", "test UAS", "test LAS", "minutes", "before, dev LAS", "test LAS")
    return table(
        header,
        (
            (
                name,
                *scores(runs[name], "dev las", "test uas", "test las"),
                minutes(runs[name]),
                *scores(runs[f"{name}, before"], "dev las", "test las"),
            )
            for name in UDPIPE
        ),
    )


def crossing_arcs() -> str:
    runs = only_runs("treebanks")
    names = [name + end for end in ("", ", before") for name in UDPIPE]
    found = ((name, runs[name]["test"]) for name in names)
    return table(
        ("", "crossing arcs of test", "with the right head"),
        ((name, test["crossing_arcs"], f"{test['crossing_recall']:.0f} %") for name, test in found),
    )


def english_by_input() -> str:
    """Test LAS on English EWT of parsers that read different things."""
    plain, untagged = only_runs("treebanks")["English EWT"], only_runs("untagged")["English EWT"]
    fast, text = runs_of_table("time-to-accuracy")["ud-fast"], only_runs("text")["English EWT"]
    return table(
        ("English EWT", "reads", "test LAS", "minutes of training"),
        (
            ("`ud-any`", "gold words and tags", *scores(plain, "test las"), minutes(plain)),
            (
                "`ud-fast`, mean of three seeds",
                "gold words and UPOS",
                mean_las(fast, "test"),
                mean_minutes(fast),
            ),
            ("`ud-untagged`", "gold words", *scores(untagged, "test las"), minutes(untagged)),
            ("`ud-untagged`", "raw text", *scores(text, "text las"), ""),
        ),
    )


def english_ewt_all() -> str:
    _, run = rows("accuracy/english-ewt.jsonl")
    which = "dev uas", "dev las", "test uas", "test las"
    header = ("", "dev UAS", "LAS", "test UAS", "LAS", "minutes")
    return table(header, [("`ud-english-ewt-all`", *scores(run, *which), minutes(run))])


def plain_parser() -> str:
    run, _ = rows("accuracy/english-ewt.jsonl")
    header = ("", "UAS", "LAS", "LAS, full labels", "CLAS", "crossing arcs with the right head")
    return table(
        header,
        (
            (
                split,
                *scores(run, *(f"{split} {measure}" for measure in ("uas", "las", "las_full", "clas"))),
                f"{run[split]['crossing_recall']:.0f} % of {run[split]['crossing_arcs']}",
            )
            for split in SPLITS
        ),
    )


def untagged() -> str:
    """Test scores of parsers that read forms and characters alone."""
    runs = only_runs("untagged")
    which = ["dev las", *(f"test {measure}" for measure in UNTAGGED)]
    header = ("", "dev LAS", *(TEXT_MEASURES[measure] for measure in UNTAGGED), "minutes")
    return table(header, ((name, *scores(runs[name], *which), minutes(runs[name])) for name in UDPIPE))


def raw_text() -> str:
    """Scores of raw text, on test."""
    runs = only_runs("text")
    which = [f"text {measure}" for measure in OF_TEXT]
    lines = ((name, *scores(runs[name], *which)) for name in (*UDPIPE, "shipped treebank"))
    return table(("", *(TEXT_MEASURES[measure] for measure in OF_TEXT)), lines)


def raw_text_beside_udpipe() -> str:
    """The same for this program and for UDPipe on the same words."""
    names, *lines = [line for line in printed(OUTPUT, "udpipe_pipeline") if line.strip()]
    places = [names.split().index(TEXT_MEASURES[measure]) for measure in OF_TEXT]
    found = []
    for line in lines:
        match = re.fullmatch(r"(\S.*?)\s+([\d. ]+)", line)
        assert match, line
        found.append((match[1], *(match[2].split()[place] for place in places)))
    return table(("", *(TEXT_MEASURES[measure] for measure in OF_TEXT)), found)


def time_to_accuracy() -> str:
    """Means of three seeds, and medians of the seconds to each dev LAS."""
    header = ("config", "dev LAS", "test LAS", "minutes", *TARGETS)
    return table(
        header,
        (
            (
                f"`{name}`" if "," not in name else name,
                *(mean_las(runs, split) for split in SPLITS),
                mean_minutes(runs),
                *(_seconds_to(runs, target) for target in TARGETS),
            )
            for name, runs in runs_of_table("time-to-accuracy").items()
        ),
    )


def _seconds_to(runs: Sequence[Row], target: float) -> str:
    times = []
    for run in runs:
        passed = 0.0
        for epoch in run["curve"]:
            passed += epoch["seconds"] + epoch["preparation_seconds"]
            if epoch["dev_las"] >= target:
                times.append(passed)
                break
    return f"{median(times):.0f}" if len(times) == len(runs) else ""


FIGURES: dict[str, Callable[[], str]] = {
    "crossing-arcs": crossing_arcs,
    "english-by-input": english_by_input,
    "english-ewt-all": english_ewt_all,
    "plain-parser": plain_parser,
    "raw-text": raw_text,
    "raw-text-beside-udpipe": raw_text_beside_udpipe,
    "time-to-accuracy": time_to_accuracy,
    "treebanks": treebanks,
    "treebanks-beside-udpipe": treebanks_beside_udpipe,
    "untagged": untagged,
}
