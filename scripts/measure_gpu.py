"""Make all measurements on a GPU, in parts of at most eight minutes, and write them into one small folder.

python scripts/measure_gpu.py docs/measurements/speed/gpu-h100

Each call does the next part or continues it: the tests with CUDA tensors, the cells of
configs/speed/gpu.yaml, a training run on English EWT, and a comparison of the predictions of
scripts/studies/gpu/predict_gpu.py with the measurements. Repeat the command until it prints that nothing is
left. PARSER_DATA is the data folder; without it some cells, the training and the prediction are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from parser.system.interruption import SIGNALLED
from parser.training.folder import CHECKPOINT

MINUTES = 7
TRAINING = Path("configs/ding-koehn-2019-ewt.yaml")
LEFT = "cells are left"
"""What `stack-parser speed` prints if it stopped before all cells were measured."""
REPORT = "report: "
"""What it prints when it has finished."""
SUMMARY = re.compile(r"\d+ (passed|failed)")
"""What pytest prints when it has finished."""
STOPPED = SIGNALLED + signal.SIGINT
"""The exit status of a training run that was asked to stop."""
LINES_KEPT = 1000
"""The number of lines of the tests' output that are kept."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path, help="where the results are written")
    folder = options.parse_args().folder
    if not torch.cuda.is_available():
        sys.exit("there is no GPU: torch.cuda.is_available() is False")
    folder.mkdir(parents=True, exist_ok=True)
    parts = dict(PARTS)
    if not os.environ.get("PARSER_DATA"):
        print(f"PARSER_DATA is not set: without {', '.join(NEED_DATA)}")
        parts = {name: part for name, part in parts.items() if name not in NEED_DATA}
    print(do_next_part(folder, parts))


Part = Callable[[Path], None]


def do_next_part(folder: Path, parts: Mapping[str, Part]) -> str:
    """Do the first part whose result, the file of its name, is missing. Returns a message with what is left.

    Raises SystemExit if the part fails.
    """
    left = [name for name in parts if not (folder / name).exists()]
    if left:
        print(f"part {len(parts) - len(left) + 1} of {len(parts)}: {left[0]}", flush=True)
        parts[left[0]](folder)
    left = [name for name in parts if not (folder / name).exists()]
    if left:
        return f"left: {', '.join(left)}; give the same command again"
    return f"nothing is left; commit {folder}"


def run_tests(folder: Path) -> None:
    """Run the quick tests in one go: they cannot be continued."""
    environment = {**os.environ, "PARSER_TEST_DEVICE": "cuda"}
    # pytest-benchmark, part of NVIDIA's images, warns about several processes; warnings are errors here.
    options = ["-q", "-n", str(min(16, os.cpu_count() or 1)), "--tb=short", "-p", "no:benchmark"]
    done = _run(["pytest", *options, "-m", "not extended and not real_data and not soak"], environment)
    if done.status in (0, 1) and SUMMARY.search(done.output):  # 1: some failed
        lines = done.output.splitlines()[-LINES_KEPT:]
        (folder / "tests.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        sys.exit("the tests came to no end, see above")


def measure_speed(folder: Path) -> None:
    run = Path("runs/speed") / folder.name  # one for each folder: rows in a run are not measured again
    options = ["--run", str(run), "--minutes", str(MINUTES)]
    done = _run(["parser", "speed", "configs/speed/gpu.yaml", *options])
    if LEFT in done.output:
        return
    if REPORT not in done.output:  # the status is also nonzero for wrong cells
        sys.exit("the measurement failed, see above")
    shutil.copy(run / "config.yaml", folder)
    with gzip.open(folder / "rows.jsonl.gz", "wb") as file:
        file.write((run / "rows.jsonl").read_bytes())


def train(folder: Path) -> None:
    run = Path("runs") / f"{folder.name}-ewt"
    changes = ["--set", "device=cuda", "--run", str(run)]
    if (run / CHECKPOINT).is_file():
        changes.append("--resume")
    done = _run(["parser", "train", str(TRAINING), *changes], stops_after=60 * MINUTES)
    if not done.status:
        shutil.copy(run / "result.json", folder / "training.json")
    elif done.status != STOPPED:
        sys.exit("the training failed, see above")


def predict(folder: Path) -> None:
    """Predict speeds, and write a comparison with the rows of the speed run."""
    subprocess.run(
        [sys.executable, "scripts/studies/gpu/predict_gpu.py", str(folder / "predicted")], check=True
    )
    predicted = _rows((folder / "predicted/rows.jsonl").read_text(encoding="utf-8"))
    with gzip.open(folder / "rows.jsonl.gz", "rt", encoding="utf-8") as file:
        measured = _rows(file.read())
    text = comparison(predicted, measured, torch.cuda.get_device_name())
    (folder / "predicted.md").write_text(text, encoding="utf-8")
    print(text)


def comparison(
    predicted: Sequence[Mapping[str, Any]], measured: Sequence[Mapping[str, Any]], gpu: str
) -> str:
    """A table of the cells that were both measured and predicted for this GPU."""
    speeds = {
        (row["method"], row["batch_size"]): row["sentences_per_second"]
        for row in predicted
        if row["in_cuda"] == gpu and row["precision"] == "float32"
    }
    lines = [
        f"# Predicted and measured, {gpu}, float32",
        "",
        "| method | batch | predicted | measured | ratio |",
    ]
    lines.append("|---|---|---|---|---|")
    for row in filter(_is_compared, measured):
        expected = speeds.get((row["method"], row["batch_size"]))
        if expected:
            cell, found = f"{row['method']} | {row['batch_size']}", row["sentences_per_second"]
            lines.append(f"| {cell} | {expected:,.0f} | {found:,.0f} | {expected / found:.2f} |")
    if not speeds:
        lines.append(f"scripts/prediction/model.py has no figures of {gpu}")
    return "\n".join(lines) + "\n"


def _is_compared(row: Mapping[str, Any]) -> bool:
    cell = row["experiment"], row["mode"], row["status"], row.get("precision", "float32")
    return cell == ("ding-koehn-2019", "train", "ok", "float32")


def _rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


class Done(NamedTuple):
    output: str
    status: int


def _run(
    module: Sequence[str], environment: Mapping[str, str] | None = None, stops_after: float | None = None
) -> Done:
    """Run a Python module, print its output, and return it.

    stops_after: seconds after which it is interrupted as if by Ctrl-C.
    """
    command = [sys.executable, "-m", *module]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=stops_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    print(output, flush=True)
    return Done(output, process.returncode)


PARTS: Mapping[str, Part] = {
    "tests.txt": run_tests,
    "rows.jsonl.gz": measure_speed,
    "training.json": train,
    "predicted.md": predict,
}
"""The parts by the names of their results, in the order in which they are done."""
NEED_DATA = "training.json", "predicted.md"


if __name__ == "__main__":
    main()
