"""Training the tokenizer that a run keeps with its model."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parser.config import Config, data_path
from parser.console import say, warn
from parser.files import write_atomically
from parser.interruption import StoppedError, StopRequest
from parser.lifeline import end, lifeline
from parser.parsing.model_files import TOKENIZER
from parser.text.tokenizer_training import as_training_text, started
from parser.text.trust import remember, was_trained_here
from parser.text.udpipe import library
from parser.training.folder import BEST_MODEL
from parser.treebank.conllu import read_treebank

TRAINING = ".tokenizer-training-"
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


@dataclass
class TokenizerTraining:
    """A process that trains a tokenizer, beside the training of the parser."""

    process: subprocess.Popen[bytes]
    output: Path
    """What the process writes."""
    run: Path
    treebank: str
    """The name of its training treebank, for messages."""
    began: float
    """Of `time.time`."""
    is_kept: bool = False

    def keep_if_ready(self) -> None:
        """Put the tokenizer into the model's folder if it is trained. Raises ValueError if that failed."""
        if not self.is_kept and self.process.poll() is not None:
            _keep(self)
            self.is_kept = True

    def wait(self, request: StopRequest) -> None:
        """Until the tokenizer is kept. Raises ValueError if that fails, StoppedError after a signal."""
        self.keep_if_ready()
        while not self.is_kept:
            if request.signal:
                why = "stopped while the tokenizer was trained; continue with --resume"
                raise StoppedError(why, request.signal)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(SECONDS_BETWEEN_CHECKS)
            self.keep_if_ready()


@contextmanager
def tokenizer_training(
    config: Config, before: Config | None, run: Path
) -> Iterator[TokenizerTraining | None]:
    """Begins to train the tokenizer that the config asks for; None if there is nothing to train.

    The process ends with the block. before: the config with which the run was started or resumed last. Raises
    what `read_treebank` raises.
    """
    for left in run.glob(f"{TRAINING}*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    if not _is_to_be_trained(config, before, run / BEST_MODEL / TOKENIZER):
        yield None
        return
    began, treebank = time.time(), config.treebank
    with tempfile.TemporaryDirectory(prefix=TRAINING, dir=run) as folder:
        train, dev, output = (Path(folder) / name for name in ("train", "dev", "output"))
        for path, source in ((train, treebank.train_files[0]), (dev, treebank.dev)):
            text = as_training_text(read_treebank(data_path(source), treebank.roots))
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        with lifeline() as line:
            process = started(train, dev, output, config.tokenizer_epochs, run / LOG, line)
            try:
                yield TokenizerTraining(process, output, run, treebank.train_files[0], began)
            finally:
                end(process)


def _is_to_be_trained(config: Config, before: Config | None, path: Path) -> bool:
    """Whether the model lacks the tokenizer of the config. Removes one that it should not have."""
    if not config.tokenizer:
        path.unlink(missing_ok=True)
        return False
    if not path.is_file():
        return True
    same = before is None or (before.tokenizer, before.tokenizer_epochs) == (
        config.tokenizer,
        config.tokenizer_epochs,
    )
    if same and was_trained_here(path.read_bytes()):
        return False
    why = "was not trained here" if same else "was trained with other settings"
    say(f"{path}: {why}; it is trained anew")
    path.unlink()
    return True


def _keep(training: TokenizerTraining) -> None:
    """Raises ValueError if the process has failed."""
    code, run = training.process.returncode, training.run
    log = (run / LOG).read_text(encoding="utf-8", errors="replace")
    if code or not training.output.is_file():
        reason = log.strip().rpartition("\n")[2].removeprefix("ValueError: ") or f"exit code {code}"
        if code < 0:
            reason = f"its process was killed by signal {-code}, perhaps because memory ran out"
        raise ValueError(
            f"{training.treebank}: the tokenizer could not be trained: {reason}; see {run / LOG}. "
            f"--resume {run} tries again, and with --set tokenizer=null goes on without one"
        )
    seconds = training.output.stat().st_mtime - training.began
    content = training.output.read_bytes()
    if not remember(content):
        warn(
            "warning: no folder to note that the tokenizer was trained here: parsing needs --trust-tokenizer"
        )
    (run / BEST_MODEL).mkdir(exist_ok=True)
    write_atomically(run / BEST_MODEL / TOKENIZER, content)
    say(f"tokenizer trained in {seconds:.0f} s{_dev_scores(log)}")


def _dev_scores(log: str) -> str:
    """F1 of the best epoch on the dev set, as a part of a message."""
    best, scores = BEST.search(log), SCORES.findall(log)
    if not best or len(scores) < int(best[1]):
        return ""
    tokens, sentences = scores[int(best[1]) - 1]
    return f", dev F1: tokens {tokens}, sentences {sentences}"
