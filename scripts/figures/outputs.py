"""What commands printed: the quick start, reading, several processes, a corpus of many files."""

from __future__ import annotations

import re
from collections.abc import Callable

from figures.cells import code, table
from figures.kept import printed

PARSERS, SCALE, SPEED = "accuracy/printed.jsonl", "scale/printed.jsonl", "speed/printed.jsonl"
QUICK_START = "stack-parser train configs/quickstart.yaml"


def quick_start_scores() -> str:
    lines = printed(PARSERS, QUICK_START)
    return code(line for line in lines if re.match(r"(dev|test|text) +\S", line))


def quick_start_tree() -> str:
    lines = printed(PARSERS, "draw --text")
    return code(line for line in lines if re.match(r"[╭╰│├─ ]", line))


def processes() -> str:
    """What two processes gain, beside plain matrix products in the same turns."""
    commands = {
        "training in batches of 256": "batch_size=256 --turns",
        "training in batches of 64": "batch_size=64 --turns",
        "`parse`, 50,000 sentences": "--turns 5",
        "`parse-corpus`, 200,000 sentences": "--ray",
    }
    found = []
    for title, words in commands.items():
        products, own, share = (line.rpartition(": ")[2] for line in printed(SCALE, words)[-3:])
        found.append((title, own, products, share))
    return table(("two processes over one", "gain", "gain of products", "share of that"), found)


def training_with_processes() -> str:
    """Dev LAS of a parser that one process trained, and of one that two did."""
    found = [line.rpartition(" ")[2] for line in printed(SCALE, "parser train") if "UAS" in line]
    return table(("processes", "dev LAS"), zip(("one", "two"), found, strict=True))


def reading() -> str:
    """How fast the shipped treebank is read, beside conllu."""
    readers, speeds = zip(*(line.split(": ") for line in printed(SPEED, "measure_reading")), strict=True)
    return table(("of the processor's time", *readers), [("reading `train.conllu`", *speeds)])


def _plan_tables() -> list[str]:
    text = "\n".join(line if line.startswith("|") else "" for line in printed(SCALE, "plan_corpus"))
    return [part.strip() for part in re.split(r"\n{2,}", text) if part.strip()]


FIGURES: dict[str, Callable[[], str]] = {
    "corpus-blocks": lambda: _plan_tables()[0],
    "corpus-limits": lambda: _plan_tables()[1],
    "corpus-plan": lambda: _plan_tables()[2],
    "processes": processes,
    "quick-start-scores": quick_start_scores,
    "quick-start-tree": quick_start_tree,
    "reading": reading,
    "training-with-processes": training_with_processes,
}
