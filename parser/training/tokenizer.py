"""Training of the tokenizer that a run stores with its model."""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parser.config.data_folder import data_path
from parser.models.model_files import TOKENIZER
from parser.system.console import in_words, say
from parser.system.files import write_atomically
from parser.system.interruption import StoppedError, StopRequest
from parser.system.processes import end, lifeline
from parser.text.tokenizer import TokenizerKind
from parser.text.tokenizer_kinds import StoredTokenizer, tokenizer_as_json, tokenizer_from_json
from parser.text.training_process import as_training_text, files_of, share_done, start_training
from parser.training.config import Config
from parser.training.folder import TOKENIZER_TRAINING, resuming
from parser.training.record import BEST_MODEL
from parser.training.trees import treebank_names
from parser.treebank.conllu import stream_sentences

LOG = "tokenizer.log"
"""File in the folder of the run with what the training of the tokenizer prints."""
SECONDS_BETWEEN_CHECKS = 0.2
SECONDS_BETWEEN_LINES = 15
"""Seconds between two progress lines once the parser is trained and only the tokenizer is not."""


def refuse_untrainable(config: Config) -> None:
    """Raises ValueError if the config asks for a tokenizer that cannot be trained; called before any work."""
    if config.tokenizer:
        config.tokenizer.refuse_missing()
    if not config.tokenizer or not config.tokenizer.is_trained:
        return
    for source in (*config.treebank.train_files, *config.treebank.dev_files.values()):
        path = Path(data_path(source))
        if path.exists() and not path.is_file():
            raise ValueError(f"{path}: can be read only once, and a tokenizer needs it again: give a file")


@dataclass
class TokenizerTraining:
    """A process that trains a tokenizer for each treebank while the parser is trained."""

    settings: TokenizerKind
    process: subprocess.Popen[bytes]
    outputs: Mapping[str, Path]
    """The file that the process writes for each treebank."""
    run: Path
    began: float
    """The `time.time()` at which the process was started."""
    is_kept: bool = False

    def keep_if_ready(self) -> None:
        """Put the tokenizer into the model's folder if it is trained. Raises ValueError if that failed."""
        if self.is_kept or self.process.poll() is None:
            return
        code, run = self.process.returncode, self.run
        log = _log(run)
        if code or not all(output.is_file() for output in self.outputs.values()):
            reason = log.strip().rpartition("\n")[2].removeprefix("ValueError: ") or f"exit code {code}"
            if code < 0:
                reason = f"its process was killed by signal {-code}, perhaps because memory ran out"
            raise ValueError(
                f"{', '.join(self.outputs)}: the tokenizer could not be trained: {reason}; see {run / LOG}. "
                f"--resume {run} tries again, and with --set tokenizer=null goes on without one"
            )
        contents = {treebank: output.read_bytes() for treebank, output in self.outputs.items()}
        _write(run / BEST_MODEL / TOKENIZER, tokenizer_as_json(StoredTokenizer(self.settings, contents)))
        seconds = max(output.stat().st_mtime for output in self.outputs.values()) - self.began
        say(f"tokenizer trained in {seconds:.0f} s{self.settings.dev_scores(log)}")
        self.is_kept = True

    def wait(self, request: StopRequest) -> None:
        """Wait until the tokenizer is kept. Raises ValueError if that fails, StoppedError after a signal."""
        self.keep_if_ready()
        said = -math.inf
        while not self.is_kept:
            if time.monotonic() - said > SECONDS_BETWEEN_LINES:
                left, share = "", share_done(self.settings, _log(self.run))
                if share:
                    seconds = (time.time() - self.began) * (1 - share) / share
                    left = f": {share:.0%}, {in_words(seconds)} left"
                say(f"the parser is trained, and the tokenizer is being trained{left}")
                said = time.monotonic()
            if request.signal:
                why = f"stopped while the tokenizer was trained; continue with {resuming(self.run)}"
                raise StoppedError(why, request.signal)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(SECONDS_BETWEEN_CHECKS)
            self.keep_if_ready()


@contextmanager
def tokenizer_training(config: Config, run: Path) -> Iterator[TokenizerTraining | None]:
    """Start training the tokenizer that the config asks for; yields None if there is nothing to train.

    Until the new tokenizer is trained, the model keeps its previous one. The process is ended on leaving the
    block. Raises what `stream_sentences` raises.
    """
    settings, path, files = config.tokenizer, run / BEST_MODEL / TOKENIZER, config.treebank.train_files
    treebanks = treebank_names(files)
    if not settings:
        path.unlink(missing_ok=True)
    if not settings or _is_kept(settings, treebanks, path):
        yield None
        return
    if not settings.is_trained:
        _write(path, tokenizer_as_json(StoredTokenizer(settings)))
        yield None
        return
    began = time.time()
    with tempfile.TemporaryDirectory(prefix=TOKENIZER_TRAINING, dir=run) as folder:
        of_treebanks = [files_of(Path(folder), number) for number in range(len(treebanks))]
        of_names = dict(zip(treebanks, of_treebanks, strict=True))
        sources = [(of.train, file) for of, file in zip(of_treebanks, files, strict=True)]
        sources += [(of_names[name].dev, file) for name, file in config.treebank.dev_files.items()]
        for path, source in sources:
            text = as_training_text(stream_sentences(data_path(source), tree=False))
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
        outputs = {name: of.output for name, of in of_names.items()}
        with lifeline() as line:
            process = start_training(settings, Path(folder), len(treebanks), run / LOG, line)
            try:
                yield TokenizerTraining(settings, process, outputs, run, began)
            finally:
                end(process)


def _is_kept(settings: TokenizerKind, treebanks: Sequence[str], path: Path) -> bool:
    """Whether the model has tokenizers of the treebanks with these settings; else prints what differs."""
    if not path.is_file():
        return False
    try:
        kept = tokenizer_from_json(path.read_bytes())
        if kept.settings == settings and (not settings.is_trained or list(kept.contents) == treebanks):
            for content in kept.contents.values():
                settings.refuse_unsound(content)
            return True
        why = "has other settings" if kept.settings != settings else "is of other treebanks"
    except ValueError:
        why = "is broken"
    say(f"{path}: {why}; it is replaced{' when another one is trained' if settings.is_trained else ''}")
    return False


def _log(run: Path) -> str:
    return (run / LOG).read_text(encoding="utf-8", errors="replace")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, content)
