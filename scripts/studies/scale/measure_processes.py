"""What several processes gain in parsing, beside what they gain in plain matrix products, in turns.

A core is slower when the others are busy, too, so N processes seldom do N times the work. Each turn measures
one process and N processes of both kinds. The gains are medians over the turns, with 95 % intervals.

python scripts/studies/scale/measure_processes.py MODEL FILE.conllu [--sentences 50000] [--processes 2] \\
    [--turns 5] [--ray]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import torch

from parser.batching.functional import times_transposed
from parser.corpus.run import report_path
from parser.speed.measuring.statistics import median_of, ratio_of
from parser.treebank.conllu import stream_sentences

SECONDS = 5.0
"""Of a measurement of products."""
ROWS, INNER, COLUMNS = 256, 200, 800
"""The sizes of a recurrent product of the parser."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("treebank", help="its sentences are repeated")
    parser.add_argument("--sentences", type=int, default=50_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--ray", action="store_true", help="several processes are those of parse-corpus")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "input.conllu"
        write_sentences(given.treebank, given.sentences, text)
        parsing = partial(parsed_per_second, given.model, text, given.ray)
        measure_gains("parsing", parsing, given.processes, given.turns)


def measure_gains(work: str, per_second: Callable[[int], float], processes: int, turns: int) -> None:
    """Measure and print what several processes gain. per_second: the speed of so many processes."""
    speeds: dict[tuple[str, int], list[float]] = {}
    for turn in range(1, turns + 1):
        for count in (1, processes):
            for name, speed in (("products", products_per_second(count)), (work, per_second(count))):
                speeds.setdefault((name, count), []).append(speed)
                print(f"turn {turn}: {name}, {count} processes: {speed:,.0f}/s", flush=True)
    gains: dict[str, list[float]] = {}
    for name in ("products", work):
        one, several = speeds[name, 1], speeds[name, processes]
        gains[name] = [more / less for more, less in zip(several, one, strict=True)]
        print(f"{name}: {processes} processes over one: {median_of(gains[name])}")
    print(f"the gain of {work} over that of products: {ratio_of(gains[work], gains['products'], True)}")


def write_sentences(treebank: str, count: int, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        texts = ("".join(sentence.lines) for sentence in stream_sentences(treebank, tree=False))
        for text in islice(cycle(texts), count):
            file.write(text.rstrip("\n") + "\n\n")


def parsed_per_second(model: Path, text: Path, by_ray: bool, processes: int) -> float:
    """Sentences."""
    if processes > 1 and by_ray:
        return corpus_per_second(model, text, processes)
    return sentences_per_second(model, text, "--processes", str(processes))


def corpus_per_second(model: Path, text: Path, workers: int) -> float:
    """What `stack-parser parse-corpus` reports of a corpus of one file, without the time to start."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in"), Path(folder, "out")
        source.mkdir()
        (source / text.name).symlink_to(text)
        command = ["parse-corpus", str(model), str(source), str(target), "--workers", str(workers)]
        subprocess.run([sys.executable, "-m", "parser", *command], capture_output=True, check=True)
        report = json.loads(report_path(target).read_text(encoding="utf-8"))
        speed: float = report["sentences_per_second"]
        return speed


def sentences_per_second(model: Path, text: Path, *options: str) -> float:
    """What `stack-parser parse` prints: reading and writing included, loading the model not."""
    command = [sys.executable, "-m", "parser", "parse", str(model), str(text), "-o", "/dev/null"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    found = re.search(r"([\d,]+) sentences/s", done.stderr)
    assert found, done.stderr
    return float(found[1].replace(",", ""))


def products_per_second(processes: int) -> float:
    """Of all processes together."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Manager().Barrier(processes)
    with context.Pool(processes) as pool:
        return sum(pool.map(_products_per_second, [barrier] * processes, chunksize=1))


def _products_per_second(barrier: threading.Barrier) -> float:
    torch.set_num_threads(1)
    barrier.wait()  # until all processes have started
    left, right = torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER)
    done, began = 0, time.perf_counter()
    while (seconds := time.perf_counter() - began) < SECONDS:
        times_transposed(left, right)
        done += 1
    return done / seconds


if __name__ == "__main__":
    main()
