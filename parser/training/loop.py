"""The training loop: epochs, each followed by an evaluation on dev, checkpoints, and early stopping."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from parser.batching.cuda_graph import LostGeneratorError, captures
from parser.batching.device import deterministic_sums, in_microbatches
from parser.batching.functional import computing_in
from parser.batching.ragged import group_size
from parser.evaluation.measures import MEASURES, Measure
from parser.evaluation.report import score_line
from parser.evaluation.treebank_scores import TreebankScores, evaluate_treebanks
from parser.models.network_model import NetworkModel
from parser.networks.replay.examples import Examples
from parser.system.console import counted, in_words, say
from parser.system.files import write_atomically
from parser.system.interruption import StoppedError, StopRequest
from parser.system.machine import TooLongError
from parser.training.checkpoint import (
    Progress,
    TrainingState,
    checkpoint_content,
    random_state,
    save_checkpoint,
)
from parser.training.config import TrainingSettings
from parser.training.data import TrainingData
from parser.training.epoch import EpochPosition, NotANumberError, epoch_metrics, train_epoch
from parser.training.folder import CHECKPOINT, resuming
from parser.training.graphed_gradients import freeing_graphs
from parser.training.processes import ALONE, LostProcessError, ProcessGroup, Watch
from parser.training.record import BEST_MODEL, Record
from parser.training.tokenizer import TokenizerTraining
from parser.treebank.batches import batches_by_length

WHAT_FREES_MEMORY = "If no other program uses the device, leave it out, or make parser.network smaller"
SECONDS_BETWEEN_CHECKPOINTS = 600
"""Seconds between two checkpoints within an epoch."""
SECONDS_BETWEEN_EPOCHS_SAVED = 10
"""Seconds since the last checkpoint after which any epoch, not just the best or the last, ends with one.

An epoch of a few dozen sentences takes less time than writing a checkpoint."""
SECONDS_BETWEEN_COPIES = 60
"""Seconds between two copies of the state in memory, made only while GPUs add up for several processes."""
SHARE_OF_COPIES = 0.02
"""The largest share of the time that such copies take."""
SECONDS_BETWEEN_LINES = 30
"""Seconds between two progress lines within an epoch, printed if standard error is not a terminal."""


@dataclass
class TrainingLoop:
    settings: TrainingSettings
    measures: Sequence[Measure]
    """The dev scores recorded after each epoch; empty without a dev set."""
    model: NetworkModel
    """The model whose network is trained."""
    training_data: TrainingData
    training: TrainingState
    folder: Path
    """The folder of the run. Only the first process writes to it."""
    record: Record | None
    """None in all processes but the first."""
    tokenizer: TokenizerTraining | None = None
    """None if no tokenizer is trained along with the parser."""
    write_bad_batch: Callable[[Tensor], Path | None] = lambda rows: None
    """Called with the numbers of training trees [batch] with which a step failed; returns the file to which
    they were written, if any."""
    preparation_seconds: float = 0.0
    """Seconds that this start or resumption of the run spent before the loop."""
    processes: ProcessGroup = ALONE
    watch: Watch | None = None
    """None unless GPUs add up for several processes. Then the weights may have changed by arbitrary sums
    before the loss of a process is noticed, and a copy of an earlier state is saved."""
    saved_at: float = field(default_factory=time.monotonic, init=False)
    """The `time.monotonic()` at which the last checkpoint was written, or the loop was created."""
    _copy: bytes | None = field(default=None, init=False)
    """A checkpoint in memory, if one was made since the last one was written."""
    _copied_at: float = field(default_factory=time.monotonic, init=False)
    """Like `saved_at`, but for the copy too."""
    _copy_seconds: float = field(default=0.0, init=False)
    """How long the last copy took."""

    def run(self, request: StopRequest) -> None:
        """Train to the end. Raises StoppedError, ValueError, and LostProcessError, after saving."""
        settings, device, preparation = self.settings, self.model.device, self.preparation_seconds
        try:
            self._save_if_best()  # a kill may have come after the checkpoint
            while not self.training.progress.finished:
                with deterministic_sums(settings.deterministic, device):
                    with computing_in(settings.precision, device):
                        self._train_rest_of_epoch(request)
                    self._evaluate_and_note(preparation)
                is_due = time.monotonic() - self.saved_at > SECONDS_BETWEEN_EPOCHS_SAVED
                is_special = bool(request.signal) or self.training.progress.finished or self._has_new_best
                if self.processes.greatest(is_special or is_due):
                    self._save(request)
                preparation = 0.0
            if self.tokenizer:
                self.tokenizer.wait(request)
        except LostProcessError as error:
            raise LostProcessError(str(error), saved=self._save_without_others()) from error
        except LostGeneratorError as error:  # another process can go on
            if not self.processes.is_first:
                raise ValueError(f"{error}. {self._resumable('The last checkpoint is kept')}") from error
            save_checkpoint(self.folder / CHECKPOINT, self.training)
            without = " --set training.cuda_graphs=false" if settings.cuda_graphs else ""
            raise ValueError(f"{error}. Training {self._stopped()}{without}") from error

    def _save_without_others(self) -> str:
        """Write a checkpoint after the loss of a process. Returns what is saved, for the user."""
        path = self.folder / CHECKPOINT
        if self.processes.is_first and not self.watch:
            save_checkpoint(path, self.training)
            return self._stopped()
        if self.processes.is_first and self._copy:
            write_atomically(path, self._copy)
            return self._resumable("all but about the last minute is saved")
        return self._resumable("the last checkpoint is kept")

    def _train_rest_of_epoch(self, request: StopRequest) -> None:
        said = time.monotonic()
        has_bar = sys.stderr is not None and sys.stderr.isatty()

        def wants_save() -> bool:
            return bool(request.signal) or time.monotonic() - self.saved_at > SECONDS_BETWEEN_CHECKPOINTS

        try:
            for position in train_epoch(
                self.training_data, self.settings, self.training, self.processes, wants_save
            ):
                self._refuse_if_lost()
                self._copy_if_due(position)
                if not has_bar and time.monotonic() - said > SECONDS_BETWEEN_LINES:
                    say(f"epoch {self.training.progress.epoch}: {position.share:.0%}")
                    said = time.monotonic()
                if position.save_requested:
                    position.synchronise()
                    self._save(request)
                    position.save_requested = False
        except NotANumberError as error:
            self._refuse_if_lost()
            if not self.processes.is_first:
                self.processes.wait_for_end_of_first()
            path = self.write_bad_batch(error.rows)
            where = f"; its sentences are in {path}" if path else ""
            raise ValueError(f"{error}{where}. {self._what_may_help()}") from None
        except TooLongError as error:
            path = self.write_bad_batch(torch.tensor([error.row])) if self.processes.is_first else None
            where = f", which is in {path}" if path else ""
            raise ValueError(f"training: {error}{where}. {WHAT_FREES_MEMORY}") from None

    def _refuse_if_lost(self) -> None:
        """Raises LostProcessError if what has been read from the device is worthless because of it."""
        if self.watch:
            self.watch.refuse_if_lost()

    def _copy_if_due(self, position: EpochPosition) -> None:
        began = time.monotonic()
        is_due = began - self._copied_at > max(SECONDS_BETWEEN_COPIES, self._copy_seconds / SHARE_OF_COPIES)
        if self.watch and self.processes.is_first and position.is_read and is_due:
            self._copy, self._copied_at = checkpoint_content(self.training), time.monotonic()
            self._copy_seconds = self._copied_at - began

    def _what_may_help(self) -> str:
        has_best = self._has_dev and self.training.progress.best_epoch
        kept = "; the best model so far is kept" if has_best else ""
        return f"A lower training.learning_rate.peak or training.max_grad_norm may help{kept}"

    def _evaluate_and_note(self, preparation: float) -> None:
        """Evaluate the epoch just trained, record and report it, and go on to the next one."""
        progress, settings, epoch = self.training.progress, self.settings, self.training.progress.epoch
        metrics, scores = self._evaluate()
        metrics["preparation_seconds"] = preparation
        self.training.schedule.after_epoch(epoch, metrics.get("dev_loss", math.nan))
        if self.record:
            progress.metrics_size = self.record.write(epoch, metrics)

        before, speed = progress.sentences_per_second, metrics["sentences_per_second"]
        progress.sentences_per_second = speed
        if before and settings.exploration and epoch == settings.exploration.from_epoch:
            say(f"exploration has begun: the epoch took {before / speed:.2f} times as long as the one before")

        by, epochs_left = settings.best_by, settings.epochs - epoch
        # Without a dev set, the last epoch is kept.
        is_best = self._has_dev and (
            scores.percent(by) > progress.best.percent(by) or not progress.best_epoch
        )
        if is_best or (not self._has_dev and epochs_left <= 0):
            progress.best, progress.best_epoch = scores, epoch
        has_stopped = has_stopped_early(progress, epoch, settings)
        progress.finished = has_stopped or epochs_left <= 0

        parts = [f"epoch {epoch:3}", f"loss {metrics['loss']:.4f}"]
        if "dev_loss" in metrics:
            parts.append(f"dev loss {metrics['dev_loss']:.4f}")
        if self.measures:
            parts.append(score_line(metrics, self.measures, prefix="dev_"))
        parts.append(f"{speed:,.0f} sentences/s")
        if not progress.finished:
            most = "at most " if settings.early_stopping_patience else ""
            parts.append(f"{most}{in_words(epochs_left * metrics['seconds'])} left")
        say("  ".join([*parts, *(["best so far"] if is_best else [])]))
        if has_stopped:
            patience = settings.early_stopping_patience
            say(f"no better dev {MEASURES[by]} in {patience} epochs: stopping")
        progress.epoch, progress.batches, progress.seconds = epoch + 1, 0, 0.0

    @property
    def _has_dev(self) -> bool:
        return bool(self.training_data.dev_sentences)

    @property
    def _has_new_best(self) -> bool:
        """Whether the epoch just finished is the best so far."""
        progress = self.training.progress
        return 0 < progress.best_epoch == progress.epoch - 1 and not progress.batches

    def _evaluate(self) -> tuple[dict[str, float], TreebankScores]:
        """The metrics of the epoch, and the dev scores."""
        progress = self.training.progress
        began = time.monotonic()
        metrics = epoch_metrics(self.training, self.settings, self.training_data)
        model = self._model_to_save()
        finite = torch.stack([weight.isfinite().all() for weight in model.network.parameters()])
        self._refuse_not_finite(bool(finite.all()), "a weight")
        if self._has_dev and self.settings.learning_rate.decay == "plateau":
            metrics["dev_loss"] = self._dev_loss(model)
        score = partial(evaluate_treebanks, model, self.processes.share(self.training_data.dev_sentences))
        with captures(self.settings.cuda_graphs):
            of_share = freeing_graphs(self.training.graphs, score)
        scores = sum(self.processes.gathered(of_share), TreebankScores())
        seconds = progress.seconds + time.monotonic() - began
        of_dev = {f"dev_{measure}": scores.percent(measure) for measure in self.measures}
        return {**metrics, **of_dev, "seconds": seconds}, scores

    def _dev_loss(self, model: NetworkModel) -> float:
        """The loss that controls the learning rate; nan if all dev trees are left out as non-projective."""
        try:
            compute = partial(mean_loss, model, self.training_data.dev, self.processes)
            dev_loss = freeing_graphs(self.training.graphs, compute)
        except TooLongError as error:
            raise ValueError(f"dev: {error}. {WHAT_FREES_MEMORY}") from None
        self._refuse_if_lost()
        self._refuse_not_finite(math.isfinite(dev_loss) or not len(self.training_data.dev), "the dev loss")
        return dev_loss

    def _refuse_not_finite(self, is_finite: bool, what: str) -> None:
        """Raises ValueError, before the model is saved, unless `is_finite`. what: named in the message."""
        if not is_finite:
            epoch = self.training.progress.epoch
            raise ValueError(f"epoch {epoch}: {what} is not a finite number. {self._what_may_help()}")

    def _save(self, request: StopRequest) -> None:
        """Write a checkpoint. Raises StoppedError if one of the processes has received a signal."""
        states = self.processes.gathered(random_state(self.model.device))
        if self.processes.is_first:
            save_checkpoint(self.folder / CHECKPOINT, self.training, states[1:])
        self._save_if_best()
        if self.tokenizer:
            self.tokenizer.keep_if_ready()
        self._copy, self._copied_at = None, time.monotonic()
        self.saved_at = time.monotonic()
        # This also waits until the first process has written its files.
        signal = self.processes.greatest(request.signal or 0)
        if signal:
            raise StoppedError(self._stopped(), signal)

    def _stopped(self) -> str:
        return self._resumable(f"stopped {progress_as_text(self.training.progress)}; everything is saved")

    def _resumable(self, saved: str) -> str:
        return f"{saved}, continue with {resuming(self.folder)}"

    def _save_if_best(self) -> None:
        """Save the current model if the epoch just finished is the best so far."""
        progress = self.training.progress
        if self.processes.is_first and self._has_new_best:
            about = {
                "epoch": progress.best_epoch,
                "precision": self.settings.precision,
                "dev": progress.best.as_dict() if self._has_dev else None,
            }
            self._model_to_save().save(self.folder / BEST_MODEL, about)

    def _model_to_save(self) -> NetworkModel:
        """The model to evaluate and save, without dropout: the moving average if there is one."""
        average = self.training.step.average
        network = average.network if average else self.model.network
        return replace(self.model, network=network.eval())


def has_stopped_early(progress: Progress, epoch: int, settings: TrainingSettings) -> bool:
    """Whether the best epoch is too many epochs ago. epoch: the last finished one."""
    patience = settings.early_stopping_patience
    return patience is not None and epoch - progress.best_epoch >= patience


def progress_as_text(progress: Progress) -> str:
    if progress.finished:
        return f"at the end, after {counted(progress.epoch - 1, 'epoch')}"
    if not progress.batches:
        return f"at the start of epoch {progress.epoch}"
    return f"in epoch {progress.epoch}, after {progress.batches} of its batches"


@torch.inference_mode()
def mean_loss(model: NetworkModel, examples: Examples, processes: ProcessGroup = ALONE) -> float:
    """The mean loss per transition, without dropout; nan if there are no examples.

    Each process computes the loss of a part of the batches.
    """
    model.network.eval()
    if not len(examples):
        return float("nan")
    lengths = examples.tokens.lengths

    def summed(microbatches: Sequence[Tensor]) -> Tensor:
        """[2] The summed loss, and the number of transitions."""
        sums = []
        for rows in microbatches:
            batch = examples.batch(rows, group_size(model.device)).to(model.device)
            loss = model.network(batch, model.inventory).transitions
            sums.append(torch.stack([loss, torch.full_like(loss, len(batch.transitions))]))
        return torch.stack(sums).sum(0)

    batches = batches_by_length(lengths)
    by_batch = [in_microbatches(summed, rows, lengths) for rows in processes.share(batches)]
    sums = torch.stack([*by_batch, torch.zeros(2, device=model.device)]).sum(0)  # [2]
    processes.add_up(sums)
    loss, steps = sums.tolist()
    return loss / steps
