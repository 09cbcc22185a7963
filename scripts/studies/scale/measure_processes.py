"""Measure the gain of several processes in parsing or training, next to their gain in matrix products.

A core is slower when the other cores are busy, too, so N processes seldom do N times the work. Each turn
measures one process and N processes for both kinds of work. The gains are medians over the turns, with 95 %
intervals.

python scripts/studies/scale/measure_processes.py parse MODEL FILE.conllu [--sentences 50000] [--ray] \\
    [--processes 2] [--turns 5]
python scripts/studies/scale/measure_processes.py train CONFIG [--set KEY=VALUE ...] \\
    [--processes 2] [--turns 5]

In training each process has one thread, and the second epoch of a run is measured: in the first epoch memory
grows and kernels are compiled.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import parsed_per_second, speeds_in_turns, write_sentences

from parser.batching.functional import times_transposed
from parser.evaluation.statistics import median_of, ratio_of
from parser.parsing.corpus.run import report_path

SECONDS = 5.0
"""The time for a measurement of products."""
ROWS, INNER, COLUMNS = 256, 200, 800
"""The sizes of a recurrent product of the parser."""
EPOCHS = 2
"""The number of epochs of training, of which the last is measured."""


def main() -> None:
    given = _arguments().parse_args()
    if given.work == "train":
        training = partial(trained_per_second, given.config, given.overrides)
        measure_gains("training", training, given.processes, given.turns)
        return
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "input.conllu"
        write_sentences(given.treebank, given.sentences, text)
        by_several = corpus_per_second if given.ray else _by_processes

        def parsing(processes: int) -> float:
            return (by_several if processes > 1 else _by_processes)(given.model, text, processes)

        measure_gains("parsing", parsing, given.processes, given.turns)


def _arguments() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    kinds = arguments.add_subparsers(dest="work", required=True)
    parse, train = kinds.add_parser("parse"), kinds.add_parser("train")
    parse.add_argument("model", type=Path)
    parse.add_argument("treebank", help="its sentences are repeated")
    parse.add_argument("--sentences", type=int, default=50_000)
    parse.add_argument("--ray", action="store_true", help="several processes are those of parse-corpus")
    train.add_argument("config")
    train.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    for kind in (parse, train):
        kind.add_argument("--processes", type=int, default=2)
        kind.add_argument("--turns", type=int, default=5)
    return arguments


def measure_gains(work: str, per_second: Callable[[int], float], processes: int, turns: int) -> None:
    """Measure and print the gain of several processes. per_second: returns the speed of N processes."""
    measures = {"products": products_per_second, work: per_second}
    speeds = speeds_in_turns(
        {
            _name(kind, count): partial(measure, count)
            for count in (1, processes)
            for kind, measure in measures.items()
        },
        turns,
    )
    gains: dict[str, list[float]] = {}
    for name in measures:
        one, several = speeds[_name(name, 1)], speeds[_name(name, processes)]
        gains[name] = [more / less for more, less in zip(several, one, strict=True)]
        print(f"{name}: {processes} processes over one: {median_of(gains[name])}")
    print(f"the gain of {work} over that of products: {ratio_of(gains[work], gains['products'], True)}")


def _name(kind: str, processes: int) -> str:
    return f"{kind}, {processes} processes"


def _by_processes(model: Path, text: Path, processes: int) -> float:
    """Sentences that this number of processes parses per second."""
    return parsed_per_second(model, text, "--processes", str(processes))


def corpus_per_second(model: Path, text: Path, workers: int) -> float:
    """Sentences per second that `stack-parser parse-corpus` reports for one file, without its start time."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in"), Path(folder, "out")
        source.mkdir()
        (source / text.name).symlink_to(text)
        command = ["parse-corpus", str(model), str(source), str(target), "--workers", str(workers)]
        subprocess.run([sys.executable, "-m", "parser", *command], capture_output=True, check=True)
        report = json.loads(report_path(target).read_text(encoding="utf-8"))
        speed: float = report["sentences_per_second"]
        return speed


def trained_per_second(config: str, overrides: Sequence[str], processes: int) -> float:
    """Sentences that this number of processes trains on per second."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        changes = [f"training.epochs={EPOCHS}", "treebank.test=null", "threads=1", *overrides]
        arguments = ["train", config, "--run", str(run), "--processes", str(processes)]
        arguments += [f"--set={change}" for change in changes]
        subprocess.run([sys.executable, "-m", "parser", *arguments], check=True, stdout=subprocess.DEVNULL)
        last = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
        speed: float = json.loads(last)["sentences_per_second"]
        return speed


def products_per_second(processes: int) -> float:
    """The speed of products in all processes together."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Manager().Barrier(processes)
    with context.Pool(processes) as pool:
        return sum(pool.map(_products_per_second, [barrier] * processes, chunksize=1))


def _products_per_second(barrier: threading.Barrier) -> float:
    torch.set_num_threads(1)
    barrier.wait()  # wait until all processes have started
    left, right = torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER)
    done, began = 0, time.perf_counter()
    while (seconds := time.perf_counter() - began) < SECONDS:
        times_transposed(left, right)
        done += 1
    return done / seconds


if __name__ == "__main__":
    main()
