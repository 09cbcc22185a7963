"""Predict how fast a GPU trains the StackLSTM parser, from the counts of a simulated GPU.

python scripts/studies/gpu/predict_gpu.py docs/measurements/speed/predicted-gpu
PARSER_DATA=../data python scripts/studies/gpu/predict_gpu.py runs/prediction --this-cpu

The script writes rows.jsonl into the folder; `make reports` makes a report from it. None of the rows were
measured on a GPU.
With --transformer it adds rows on the needs of a config with a pretrained transformer: seconds per step, and
memory. The transformer has random weights; only its size counts.
With --this-cpu the same counts predict the speed of this machine's CPU, next to the measured speed: that
checks the counts and the work, not the launches of a GPU. Each call with this option adds a round, since
other programs slow down some rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import least_seconds
from prediction.counting import (
    PAPER_NETWORK,
    Cell,
    count_on_cpu,
    count_on_gpu,
    stack_parser_settings,
)
from prediction.model import (
    GPUS,
    Device,
    Prediction,
    Step,
    ThisCpu,
    predicted,
)
from simulated_cuda.device import SimulatedCuda

from parser.batching import Precision
from parser.batching.functional import set_precision
from parser.speed.tasks.stack_parser.stack_parser_plugin import REPLAY_GRAPH, StackParserSettings
from parser.system.machine import append_stamped, tune_process

TREEBANK = "${PARSER_DATA}/ud/UD_English-EWT/en_ewt-ud-train.conllu"
METHODS = "replay", "step", "step-naive"
WITH_GRAPHS = REPLAY_GRAPH, *METHODS
"""All methods; the one with CUDA graphs, which needs a GPU, comes first."""
SIZES = 1, 8, 64, 256
SECONDS_EACH = 5.0
"""The time for each measurement of this CPU."""


class Counted(NamedTuple):
    method: str
    size: int
    steps: list[tuple[int, Step]]
    """The number of sentences in each counted batch, and the counts."""


def main() -> None:
    options = _options()
    tune_process()
    torch.set_num_threads(1)
    set_precision("float32", torch.device("cpu"))
    settings = stack_parser_settings(options.treebank, PAPER_NETWORK)
    options.folder.mkdir(parents=True, exist_ok=True)
    rows_file = options.folder / "rows.jsonl"
    if options.transformer:
        _predict_transformer(rows_file, options.transformer)
        return
    if options.this_cpu:
        _compare_with_this_cpu(rows_file, settings)
        return
    _remove_training(rows_file)
    for counted in _counted(settings):
        for device in GPUS:
            for precision in device.arithmetic:
                append_stamped(rows_file, _row(counted, device, precision))
        print(f"{counted.method} at {counted.size} is counted and predicted")


def _remove_training(path: Path) -> None:
    """Remove the training rows from a file, if it exists: they are written anew."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    path.write_text("".join(line for line in lines if json.loads(line)["what"] != "training"), "utf-8")


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path, help="where the results are written")
    options.add_argument("--treebank", default=TREEBANK, help=f"CoNLL-U file; default {TREEBANK}")
    options.add_argument("--this-cpu", action="store_true", help="compare with this machine's CPU")
    options.add_argument("--transformer", type=Path, help="a config as configs/ud-transformer.yaml")
    return options.parse_args()


def _counted(settings: StackParserSettings) -> Iterator[Counted]:
    for size in SIZES:
        found = []
        for method in WITH_GRAPHS:
            with SimulatedCuda(records=True) as cuda:
                cell = Cell(method, "train", size, cuda.name, settings)
                batches = cell.chosen()
                steps = [(len(rows), count_on_gpu(cell, cuda, rows)) for rows in batches]
            found.append(Counted(method, size, steps))
        yield from _equally_prepared(found)


def _equally_prepared(found: list[Counted]) -> Iterator[Counted]:
    """Cells of one size with equal preparation times. Cells without graphs prepare alike, so each batch gets
    the fastest time of all of them: other programs may have slowed down some.
    """
    alike = [counted.steps for counted in found if counted.method != REPLAY_GRAPH]
    fastest = [min(step.preparation for _, step in same) for same in zip(*alike, strict=True)]
    for counted in found:
        if counted.method != REPLAY_GRAPH:
            steps = [
                (number, step._replace(preparation=least))
                for (number, step), least in zip(counted.steps, fastest, strict=True)
            ]
            counted = counted._replace(steps=steps)
        yield counted


def _row(counted: Counted, device: Device, precision: Precision) -> dict[str, Any]:
    """The row of a cell, over all counted batches."""
    predictions = [predicted(step, device, precision) for _, step in counted.steps]
    sentences = sum(number for number, _ in counted.steps)
    slowest = max(predictions, key=lambda each: each.added)
    return {
        "what": "training",
        "method": counted.method,
        "batch_size": counted.size,
        "device": device.name,
        "in_cuda": device.in_cuda,
        "precision": precision,
        "source": device.source,
        "calls": sum(len(step.calls) for _, step in counted.steps) / len(predictions),
        "calls_in_graph": sum(len(step.in_graph) for _, step in counted.steps) / len(predictions),
        "milliseconds": {part: _mean(predictions, part) for part in ("launching", "preparing", "device")},
        "sentences_per_second": sentences / sum(each.added for each in predictions),
        "sentences_per_second_side_by_side": sentences / sum(each.side_by_side for each in predictions),
        "binds": slowest.binds,
        "device_binds": slowest.device_binds,
    }


def _mean(predictions: list[Prediction], part: str) -> float:
    return 1000 * sum(getattr(each, part) for each in predictions) / len(predictions)


def _compare_with_this_cpu(path: Path, settings: StackParserSettings) -> None:
    cpu = ThisCpu()
    for method in METHODS:
        for size in SIZES:
            cell = Cell(method, "train", size, torch.device("cpu"), settings)
            rows = cell.chosen()[len(cell.chosen()) // 2]
            preparing = cell.preparation(rows)
            found = preparing + cpu.predicted(count_on_cpu(cell, rows))
            measured = least_seconds(partial(cell.plugin.run, rows), SECONDS_EACH)
            row = {"what": "this-cpu", "method": method, "batch_size": size, "figures": cpu.figures()}
            append_stamped(path, {**row, "predicted": found, "measured": measured})
            times = f"predicted {1000 * found:8.2f} ms, measured {1000 * measured:8.2f} ms"
            print(f"{method:10} {size:4}  {times}, ratio {found / measured:.2f}")


def _predict_transformer(path: Path, config: Path) -> None:
    from prediction.transformer import count_transformer  # needs the package transformers

    counted = count_transformer(config)
    kept = max(step.kept_for_backward for step in counted.steps)
    memory = {"weights": counted.bytes_of_weights / 2**30, "kept_for_backward": kept / 2**30}
    print(
        f"weights and optimizer {memory['weights']:.1f} GiB, kept for the backward pass "
        f"{memory['kept_for_backward']:.1f} GiB at most, in float32"
    )
    words = sum(step.words for step in counted.steps)
    for device in GPUS:
        for precision in device.arithmetic:
            found = [predicted(step.step, device, precision) for step in counted.steps]
            seconds = sum(each.added for each in found)
            row = {
                "what": "transformer",
                "config": str(config),
                "device": device.name,
                "precision": precision,
                "source": device.source,
                "memory_gib": memory,
                "words_of_steps": [step.words for step in counted.steps],
                "calls": sum(len(step.step.calls) for step in counted.steps) / len(found),
                "milliseconds": {part: _mean(found, part) for part in ("launching", "preparing", "device")},
                "words_per_second": words / seconds,
                "binds": max(found, key=lambda each: each.added).binds,
                "device_binds": max(found, key=lambda each: each.added).device_binds,
            }
            append_stamped(path, row)
            print(f"{device.name}, {precision}: {row['words_per_second']:,.0f} words/s, {row['binds']} binds")


if __name__ == "__main__":
    main()
