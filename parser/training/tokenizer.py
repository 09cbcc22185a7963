"""Training the tokenizer that a run keeps with its model."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

from parser.config import Config, data_path
from parser.console import say
from parser.files import write_atomically
from parser.parsing.model_files import TOKENIZER
from parser.text.tokenizer_training import as_training_text, started
from parser.text.trust import remember, was_trained_here
from parser.training.folder import BEST_MODEL
from parser.training.interruption import StoppedError, StopRequest
from parser.treebank.conllu import read_treebank

LOG = "tokenizer.log"
"""In the folder of the run: what UDPipe says of each epoch."""
SECONDS_BETWEEN_CHECKS = 0.2
SCORES = re.compile(r"heldout tokens: .*?/.*?/([\d.]+)%, sentences: .*?/.*?/([\d.]+)%")
"""F1 in the log."""
BEST = re.compile(r"Choosing parameters from epoch (\d+)")


def has_tokenizer(run: Path) -> bool:
    """Whether the model in the folder of a run has a tokenizer that was trained here."""
    path = run / BEST_MODEL / TOKENIZER
    return path.is_file() and was_trained_here(path.read_bytes())


def train_tokenizer(config: Config, run: Path, request: StopRequest) -> None:
    """Write a tokenizer, trained on the text of the treebank, to the model's folder in the folder of a run.

    Raises StoppedError after a signal, ValueError if the treebank is not enough, and what `read_treebank`
    raises.
    """
    began, treebank, log = time.monotonic(), config.treebank, run / LOG
    with tempfile.TemporaryDirectory(prefix="tokenizer-", dir=run) as folder:
        train, dev, output = (Path(folder) / name for name in ("train", "dev", "output"))
        for path, source in ((train, treebank.train), (dev, treebank.dev)):
            text = as_training_text(read_treebank(data_path(source), treebank.roots))
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        with started(train, dev, output, config.tokenizer_epochs, log) as process:
            _wait(process, request)
        said = log.read_text(encoding="utf-8", errors="replace")
        if process.returncode or not output.is_file():
            reason = said.strip().rpartition("\n")[2].removeprefix("ValueError: ")
            reason = reason or f"exit code {process.returncode}"
            raise ValueError(f"{treebank.train}: the tokenizer could not be trained: {reason}; see {log}")
        content = output.read_bytes()
    remember(content)
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
