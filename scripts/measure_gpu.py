"""All that is to be measured on a GPU, in parts of at most eight minutes, into one small folder.

python scripts/measure_gpu.py docs/measurements/speed/gpu-h100

Each call does the next part or continues it: the tests with CUDA tensors, the cells of
configs/speed/gpu.yaml, a training on English EWT, and what scripts/studies/gpu/predict_gpu.py predicts beside
what was measured. Give the same command until it says that nothing is left. PARSER_DATA is the folder of the
data; without it some cells and the training are left out.
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

from parser.training.folder import CHECKPOINT

MINUTES = 7
SPEED_RUN, TRAINING_RUN = Path("runs/speed/gpu"), Path("runs/gpu-ewt")
TRAINING = Path("configs/ding-koehn-2019-ewt.yaml")
LEFT = "cells are left"
"""What `stack-parser speed` says if it stopped before its end."""
REPORT = "report: "
"""What it says when it has come to its end."""
SUMMARY = re.compile(r"\d+ (passed|failed)")
"""What pytest says at its end."""
LINES_KEPT = 1000
"""Of the tests' output, which are kept."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path, help="where the results are written")
    folder = options.parse_args().folder
    if not torch.cuda.is_available():
        sys.exit("there is no GPU: torch.cuda.is_available() is False")
    folder.mkdir(parents=True, exist_ok=True)
    print(do_next_part(folder, PARTS))


Part = Callable[[Path], None]


def do_next_part(folder: Path, parts: Mapping[str, Part]) -> str:
    """Do the first part whose result, the file of its name, is not there. Returns what is left, as text."""
    left = [name for name in parts if not (folder / name).exists()]
    if left:
        print(f"part {len(parts) - len(left) + 1} of {len(parts)}: {left[0]}", flush=True)
        parts[left[0]](folder)
    left = [name for name in parts if not (folder / name).exists()]
    if left:
        return f"left: {', '.join(left)}; give the same command again"
    return f"nothing is left; commit {folder}"


def run_tests(folder: Path) -> None:
    """The quick ones, to their end: they cannot be continued."""
    environment = {**os.environ, "PARSER_TEST_DEVICE": "cuda"}
    # pytest-benchmark, which NVIDIA's images have, warns of several processes, and warnings are errors here.
    options = ["-q", "-n", str(min(16, os.cpu_count() or 1)), "--tb=short", "-p", "no:benchmark"]
    done = _run(["pytest", *options, "-m", "not extended and not real_data and not soak"], environment)
    if done.status in (0, 1) and SUMMARY.search(done.output):  # 1: some failed
        lines = done.output.splitlines()[-LINES_KEPT:]
        (folder / "tests.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure_speed(folder: Path) -> None:
    options = ["--run", str(SPEED_RUN), "--minutes", str(MINUTES)]
    done = _run(["parser", "speed", "configs/speed/gpu.yaml", *options])
    if REPORT not in done.output or LEFT in done.output:  # the status tells of wrong cells, too
        return
    shutil.copy(SPEED_RUN / "config.yaml", folder)
    with gzip.open(folder / "rows.jsonl.gz", "wb") as file:
        file.write((SPEED_RUN / "rows.jsonl").read_bytes())


def train(folder: Path) -> None:
    if not os.environ.get("PARSER_DATA"):
        _leave_out(folder / "training.json")
        return
    changes = ["--set", "device=cuda", "--run", str(TRAINING_RUN)]
    if (TRAINING_RUN / CHECKPOINT).is_file():
        changes.append("--resume")
    done = _run(["parser", "train", str(TRAINING), *changes], stops_after=60 * MINUTES)
    if not done.status:
        shutil.copy(TRAINING_RUN / "result.json", folder / "training.json")


def predict(folder: Path) -> None:
    """The prediction, beside the rows of the speed run."""
    if not os.environ.get("PARSER_DATA"):
        _leave_out(folder / "predicted.md")
        return
    subprocess.run(
        [sys.executable, "scripts/studies/gpu/predict_gpu.py", str(folder / "predicted")], check=True
    )
    predicted = _rows((folder / "predicted/rows.jsonl").read_text(encoding="utf-8"))
    with gzip.open(folder / "rows.jsonl.gz", "rt", encoding="utf-8") as file:
        measured = _rows(file.read())
    text = comparison(predicted, measured, torch.cuda.get_device_name())
    (folder / "predicted.md").write_text(text, encoding="utf-8")
    print(text)


def _leave_out(path: Path) -> None:
    print("PARSER_DATA is not set: this part is left out")
    path.touch()


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
    """Run a module of Python; what it prints is shown as well.

    stops_after: seconds, after which it is asked to stop, as by Ctrl-C.
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
"""By the names of their results, in their order."""


if __name__ == "__main__":
    main()
