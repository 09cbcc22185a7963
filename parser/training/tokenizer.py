"""Training the tokenizer that a run keeps with its model."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from parser.config import Config, data_path
from parser.console import say, warn
from parser.files import write_atomically
from parser.parsing.model_files import TOKENIZER
from parser.text.tokenizer_training import as_training_text, started
from parser.text.trust import remember, was_trained_here
from parser.text.udpipe import library
from parser.training.folder import BEST_MODEL
from parser.training.interruption import StoppedError, StopRequest
from parser.treebank.conllu import read_treebank

TRAINING = "tokenizer-"
"""Begins the name of a folder that lies in that of the run while the tokenizer is trained."""
LOG = "tokenizer.log"
"""In the folder of the run: what UDPipe says of each epoch."""
SECONDS_BETWEEN_CHECKS = 0.2
SCORES = re.compile(r"heldout tokens: .*?/.*?/([\d.]+)%, sentences: .*?/.*?/([\d.]+)%")
"""F1 in the log."""
BEST = re.compile(r"Choosing parameters from epoch (\d+)")


def refuse_untrainable(config: Config) -> None:
    """Raises ValueError, before work is done, if a tokenizer is asked for that can not be trained."""
    if not config.tokenizer:
        return
    library()
    for source in (config.treebank.train_files[0], config.treebank.dev):
        path = Path(data_path(source))
        if path.exists() and not path.is_file():
            raise ValueError(f"{path}: can be read only once, and a tokenizer needs it again: give a file")


def prepare_tokenizer(config: Config, before: Config | None, run: Path, request: StopRequest) -> None:
    """Give the model in the folder of a run the tokenizer that the config asks for, or none.

    before: the config with which the run was started or resumed last. Raises as `train_tokenizer`.
    """
    for left in run.glob(f"{TRAINING}*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    path = run / BEST_MODEL / TOKENIZER
    if not config.tokenizer:
        path.unlink(missing_ok=True)
        return
    same = before is None or (before.tokenizer, before.tokenizer_epochs) == (
        config.tokenizer,
        config.tokenizer_epochs,
    )
    if not path.is_file():
        train_tokenizer(config, run, request)
    elif not same or not was_trained_here(path.read_bytes()):
        why = "was not trained here" if same else "was trained with other settings"
        say(f"{path}: {why}; it is trained anew")
        path.unlink()
        train_tokenizer(config, run, request)


def train_tokenizer(config: Config, run: Path, request: StopRequest) -> None:
    """Write a tokenizer, trained on the text of the treebank, to the model's folder in the folder of a run.

    Raises StoppedError after a signal, ValueError if the treebank is not enough, and what `read_treebank`
    raises.
    """
    began, treebank, log = time.monotonic(), config.treebank, run / LOG
    with tempfile.TemporaryDirectory(prefix=TRAINING, dir=run) as folder:
        train, dev, output = (Path(folder) / name for name in ("train", "dev", "output"))
        for path, source in ((train, treebank.train_files[0]), (dev, treebank.dev)):
            text = as_training_text(read_treebank(data_path(source), treebank.roots))
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        with started(train, dev, output, config.tokenizer_epochs, log) as process:
            _wait(process, request)
        said = log.read_text(encoding="utf-8", errors="replace")
        if process.returncode or not output.is_file():
            reason = said.strip().rpartition("\n")[2].removeprefix("ValueError: ")
            reason = reason or f"exit code {process.returncode}"
            raise ValueError(
                f"{treebank.train_files[0]}: the tokenizer could not be trained: {reason}; see {log}"
            )
        content = output.read_bytes()
    if not remember(content):
        warn(
            "warning: no folder to note that the tokenizer was trained here: parsing needs --trust-tokenizer"
        )
    (run / BEST_MODEL).mkdir(exist_ok=True)
    write_atomically(run / BEST_MODEL / TOKENIZER, content)
    say(f"tokenizer trained in {time.monotonic() - began:.0f} s{_dev_scores(said)}")


def _wait(process: subprocess.Popen[bytes], request: StopRequest) -> None:
    """Until the process has ended, which a signal makes it do at once. Raises StoppedError."""
    try:
        while not request.signal:
            try:
                process.wait(SECONDS_BETWEEN_CHECKS)
                return
            except subprocess.TimeoutExpired:
                continue
    finally:
        process.kill()
    raise StoppedError("stopped while the tokenizer was trained; continue with --resume", request.signal)


def _dev_scores(log: str) -> str:
    """F1 of the best epoch on the dev set, as a part of a message."""
    best, scores = BEST.search(log), SCORES.findall(log)
    if not best or len(scores) < int(best[1]):
        return ""
    tokens, sentences = scores[int(best[1]) - 1]
    return f", dev F1: tokens {tokens}, sentences {sentences}"
