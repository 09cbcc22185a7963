"""The training loop: epochs, each followed by an evaluation on dev, checkpoints and early stopping."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.deterministic import deterministic_sums, fix_workspaces
from parser.batching.precision import computing_in, refuse_missing
from parser.config import Config, TrainingSettings, data_path
from parser.console import say
from parser.distributed.process_group import ALONE, LostProcessError, ProcessGroup
from parser.evaluation.evaluate import evaluate
from parser.evaluation.report import score_line
from parser.evaluation.scores import Scores
from parser.files import refuse_to_overwrite
from parser.interruption import StoppedError, StopRequest, stop_request
from parser.measures import MEASURES, Measure, shown
from parser.optimization.moving_average import MovingAverage
from parser.optimization.optimizer import make_optimizer
from parser.optimization.training_step import TrainingStep
from parser.parsing.model import Model
from parser.training import data
from parser.training.alike import copy_checkpoint, refuse_other_data
from parser.training.checkpoint import (
    Progress,
    Training,
    load_checkpoint,
    random_state,
    refuse_other_format,
    save_checkpoint,
)
from parser.training.dev_loss import mean_loss
from parser.training.epoch import NotANumberError, epoch_metrics, train_epoch
from parser.training.folder import (
    BEST_MODEL,
    CHECKPOINT,
    claimed,
    earlier_config,
    refuse_other_config,
    write_config,
)
from parser.training.graphs import graphs_of
from parser.training.prepared import cache_folder
from parser.training.record import Record
from parser.training.schedule import Schedule, peak_learning_rate
from parser.training.tokenizer import TokenizerTraining, refuse_untrainable, tokenizer_training
from parser.training.training_trees import read_training_trees

BAD_BATCH = "bad-batch.conllu"
SAVED_BEFORE = "the last checkpoint is kept, continue with --resume"
"""What a process knows that does not write it."""
SECONDS_BETWEEN_CHECKPOINTS = 600
"""Within an epoch. Each epoch also ends with a checkpoint."""
SECONDS_BETWEEN_LINES = 30
"""Within an epoch, if standard error is no terminal and shows no progress bar."""


def train(
    config: Config,
    run: Path,
    device: torch.device,
    resume: bool = False,
    processes: ProcessGroup = ALONE,
) -> Scores:
    """Train a parser; the folder `run` gets the metrics and, in `model/`, the model with the best dev
    score.

    An earlier run in that folder is moved aside, or resumed if `resume`. processes: those that call this
    function with the same arguments, to share the work; only the first one uses the folder. Returns the dev
    scores of the best model. Raises StoppedError after a signal, ValueError, LostProcessError, and what
    `data.load` and `claimed` raise.
    """
    refuse_missing(config.training.precision, device)
    refuse_untrainable(config)
    refuse_to_overwrite(run, data.files_needed(config))  # a new run moves its folder aside
    if resume and processes.is_first:
        refuse_other_format(run / CHECKPOINT)
        refuse_other_config(run, config)
    # Before teachers and transformers, which compute while data are loaded.
    fix_workspaces(config.training.deterministic, device)
    torch.manual_seed(config.training.seed)
    began = time.monotonic()
    with processes.first_before_others():
        model, loaded = data.load(config, device, cache_folder())
    preparation = time.monotonic() - began
    _say_data(loaded, config, preparation)
    training = _fresh(model, loaded, config)
    refuse_other_data(processes, training.progress.data)
    with ExitStack() as stack:
        request = stack.enter_context(stop_request(says_so=processes.count == 1))
        record = tokenizer = None
        if processes.is_first:
            before, text = _begin(config, run, training, resume, stack)
            record = stack.enter_context(Record(run, text, training.progress.metrics_size))
            tokenizer = stack.enter_context(tokenizer_training(config, before, run))
        copy_checkpoint(processes, run / CHECKPOINT, training)
        start = _Start(training.progress.epoch, preparation)
        _Run(config, run, model, loaded, training, record, tokenizer, start, processes).go_on(request)
    return training.progress.best


def _begin(
    config: Config, run: Path, training: Training, resume: bool, stack: ExitStack
) -> tuple[Config | None, str]:
    """Claim the folder until the stack ends, and restore or write its checkpoint.

    Returns the config with which the run was started or resumed last, if it was, and the text of the present
    one.
    """
    if moved := stack.enter_context(claimed(run, resume)):
        say(f"{run} held a run already: it is now {moved}")
    before = earlier_config(run)
    if resume and (run / CHECKPOINT).is_file():
        load_checkpoint(run / CHECKPOINT, training)
        _go_on_to_more_epochs(config, before, training)
        say(f"resuming {_place(training.progress)}")
    else:
        if resume:
            say(f"{run}: there is no checkpoint; training from the start")
        save_checkpoint(run / CHECKPOINT, training)
    return before, write_config(run, config)


def _go_on_to_more_epochs(config: Config, before: Config | None, training: Training) -> None:
    """Whether a resumed run is finished, by the present config. before: its config until now."""
    progress, settings = training.progress, config.training
    if not progress.batches and progress.epoch > 1:
        ended = progress.epoch - 1
        progress.finished = ended >= settings.epochs or _has_stopped_early(progress, ended, settings)
    if progress.finished:
        say(
            "this run is finished: --set training.epochs=N goes on to more epochs, and a new run begins with "
            "its weights by --from, in another folder (--run)"
        )
    elif before and before.training.epochs != settings.epochs:
        consequence = "the learning rate is not changed by that"
        if settings.learning_rate.decay == "linear":
            consequence = "the learning rate, which falls to 0 in the last epoch, is another one from now on"
        say(f"{settings.epochs} epochs in place of {before.training.epochs}: {consequence}")


def _has_stopped_early(progress: Progress, epoch: int, settings: TrainingSettings) -> bool:
    """Whether there was no better epoch for too long. epoch: the one that has ended last."""
    patience = settings.early_stopping_patience
    return patience is not None and epoch - progress.best_epoch >= patience


def _say_data(loaded: data.TrainingData, config: Config, seconds: float) -> None:
    crossing = loaded.prepared.crossing
    outcome = "lifted" if config.treebank.non_projective == "lift" else "left out"
    say(
        f"{len(loaded.train):,} training trees ({loaded.mixture}{crossing:,} non-projective {outcome}), "
        f"{len(loaded.dev_sentences):,} dev; read and prepared in {seconds:.1f} s"
    )


def _fresh(model: Model, loaded: data.TrainingData, config: Config) -> Training:
    settings = config.training
    optimizer = make_optimizer(model.network, settings.optimizer)
    schedule = Schedule(optimizer, settings.learning_rate, peak_learning_rate(settings), settings.epochs)
    totals = torch.zeros(3, device=model.device)
    progress = Progress(loaded.digest)
    average = MovingAverage(model.network, settings.average) if settings.average else None
    step = TrainingStep(
        model.network,
        model.inventory,
        optimizer,
        settings.max_grad_norm,
        average,
        objective=settings.objective,
    )
    return Training(step, schedule, totals, progress, graphs_of(config, model.device, loaded, step))


class _Start(NamedTuple):
    """A start of a run, or a resumption."""

    epoch: int
    """The first one of it."""
    preparation_seconds: float


@dataclass(frozen=True)
class _Run:
    """A run whose folder belongs to this process."""

    config: Config
    folder: Path
    model: Model
    """Its network is the one that is trained."""
    loaded: data.TrainingData
    training: Training
    record: Record | None
    """None in processes that write nothing."""
    tokenizer: TokenizerTraining | None
    """None if no tokenizer is trained beside it."""
    start: _Start
    processes: ProcessGroup

    def go_on(self, request: StopRequest) -> None:
        """Train to the end. Raises StoppedError, ValueError, and LostProcessError after saving."""
        try:
            self._keep_best()  # a kill may have come after the checkpoint
            while not self.training.progress.finished:
                self._one_epoch(request)
            if self.tokenizer:
                self.tokenizer.wait(request)
        except LostProcessError as error:
            if not self.processes.is_first:
                raise LostProcessError(str(error), saved=SAVED_BEFORE) from error
            save_checkpoint(self.folder / CHECKPOINT, self.training)
            raise LostProcessError(str(error), saved=_saved(self.training.progress)) from error

    def _one_epoch(self, request: StopRequest) -> None:
        settings, device = self.config.training, self.model.device
        with deterministic_sums(settings.deterministic, device):
            with computing_in(settings.precision, device):
                self._finish_epoch(request)
            self._end_epoch()
        self._save(request)

    def _finish_epoch(self, request: StopRequest) -> None:
        saved = said = time.monotonic()
        has_bar = sys.stderr is not None and sys.stderr.isatty()
        settings = self.config.training

        def asks() -> bool:
            return bool(request.signal) or time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS

        try:
            for position in train_epoch(
                self.model, self.loaded, settings, self.training, self.processes, asks
            ):
                if not has_bar and time.monotonic() - said > SECONDS_BETWEEN_LINES:
                    say(f"epoch {self.training.progress.epoch}: {position.share:.0%}")
                    said = time.monotonic()
                if position.asked:
                    position.synchronise()
                    self._save(request)
                    saved = time.monotonic()
                    position.asked = False
        except NotANumberError as error:
            if not self.processes.is_first:
                self.processes.wait_for_end_of_first()
            raise ValueError(f"{error}{self._write_sentences(error.rows)}. {self._what_may_help()}") from None

    def _what_may_help(self) -> str:
        kept = "; the best model so far is kept" if self.training.progress.best_epoch else ""
        return f"A lower training.learning_rate.peak or training.max_grad_norm may help{kept}"

    def _write_sentences(self, rows: Tensor) -> str:
        """Write the sentences of a batch for the user; returns a part of the message that says where.

        rows: [batch] numbers of training trees.
        """
        treebank = self.config.treebank
        if not all(
            Path(data_path(path)).is_file() for path in (*treebank.train_files, *treebank.silver_files)
        ):
            return ""  # a pipe can be read only once
        trees = read_training_trees(self.config).all
        path = self.folder / BAD_BATCH
        # The last sentence of a file may have no blank line behind it.
        texts = ("".join(trees[row].lines).rstrip() for row in rows.tolist())
        path.write_text("".join(f"{text}\n\n" for text in texts), encoding="utf-8")
        return f"; its sentences are in {path}"

    def _end_epoch(self) -> None:
        progress = self.training.progress
        metrics, scores = self._evaluate()
        self.training.schedule.after_epoch(progress.epoch, metrics["dev_loss"])
        if self.record:
            progress.metrics_size = self.record.write(progress.epoch, metrics)
        self._say_cost_of_exploration(metrics["sentences_per_second"])
        by = self.config.training.best_by
        improved = scores.percent(by) > progress.best.percent(by) or not progress.best_epoch
        if improved:
            progress.best, progress.best_epoch = scores, progress.epoch
        say(_epoch_line(progress.epoch, metrics, self._measures()) + ("  best so far" if improved else ""))
        progress.finished = self._is_last()
        progress.epoch, progress.batches, progress.seconds = progress.epoch + 1, 0, 0.0

    def _evaluate(self) -> tuple[dict[str, float], Scores]:
        """The metrics of the epoch, and the dev scores."""
        progress = self.training.progress
        began = time.monotonic()
        metrics = epoch_metrics(self.training, self.config.training, self.loaded)
        model = self._result()
        dev_loss = mean_loss(model, self.loaded.dev, self.processes)
        if len(self.loaded.dev) and not math.isfinite(dev_loss):
            message = f"epoch {progress.epoch}: the dev loss is not a finite number. {self._what_may_help()}"
            raise ValueError(message)
        own = evaluate(model, self.processes.share(self.loaded.dev_sentences))
        scores = sum(self.processes.gathered(own), Scores())
        seconds = progress.seconds + time.monotonic() - began
        of_dev = {f"dev_{measure}": scores.percent(measure) for measure in self._measures()}
        is_first = progress.epoch == self.start.epoch
        preparation = {"preparation_seconds": self.start.preparation_seconds if is_first else 0.0}
        return {**metrics, "dev_loss": dev_loss, **of_dev, "seconds": seconds, **preparation}, scores

    def _measures(self) -> list[Measure]:
        """The scores that are noted after each epoch."""
        usual = shown(self.config.parser.network.tags.predict)
        return list(dict.fromkeys((*usual, self.config.training.best_by)))

    def _is_last(self) -> bool:
        """Whether the epoch that has just ended is the last one, by the config or by early stopping."""
        progress, settings = self.training.progress, self.config.training
        if _has_stopped_early(progress, progress.epoch, settings):
            by = MEASURES[settings.best_by]
            say(f"no better dev {by} in {settings.early_stopping_patience} epochs: stopping")
            return True
        return progress.epoch >= settings.epochs

    def _say_cost_of_exploration(self, speed: float) -> None:
        """After the first epoch that explores. speed: of that epoch, in sentences/s."""
        progress, exploration = self.training.progress, self.config.training.exploration
        before, progress.sentences_per_second = progress.sentences_per_second, speed
        if exploration and progress.epoch == exploration.from_epoch and before:
            say(f"exploration has begun: the epoch took {before / speed:.2f} times as long as the one before")

    def _save(self, request: StopRequest) -> None:
        """Raises StoppedError if one of the processes has got a signal."""
        states = self.processes.gathered(random_state(self.model.device))
        if self.processes.is_first:
            save_checkpoint(self.folder / CHECKPOINT, self.training, states[1:])
        self._keep_best()
        if self.tokenizer:
            self.tokenizer.keep_if_ready()
        # Also waits until the first one has written.
        signal = self.processes.greatest(request.signal or 0)
        if signal and not self.training.progress.finished:
            raise StoppedError(_saved(self.training.progress), signal)

    def _keep_best(self) -> None:
        """Save the present model if the epoch that has just ended is the best."""
        progress = self.training.progress
        if not self.processes.is_first:
            return
        if progress.best_epoch and progress.best_epoch == progress.epoch - 1 and not progress.batches:
            about = {
                "epoch": progress.best_epoch,
                "precision": self.config.training.precision,
                "dev": progress.best.as_dict(),
            }
            self._result().save(self.folder / BEST_MODEL, about)

    def _result(self) -> Model:
        """The model to evaluate and to save: the moving average if there is one, without dropout."""
        average = self.training.step.average
        network = average.network if average else self.model.network
        return replace(self.model, network=network.eval())


def _place(progress: Progress) -> str:
    if progress.finished:
        return f"at the end, after {progress.epoch - 1} epochs"
    return f"in epoch {progress.epoch}, after {progress.batches} of its batches"


def _saved(progress: Progress) -> str:
    return f"stopped {_place(progress)}; everything is saved, continue with --resume"


def _epoch_line(epoch: int, metrics: dict[str, float], measures: Sequence[Measure]) -> str:
    return (
        f"epoch {epoch:3}  loss {metrics['loss']:.4f}  dev loss {metrics['dev_loss']:.4f}  "
        f"{score_line(metrics, measures, prefix='dev_')}  "
        f"{metrics['sentences_per_second']:,.0f} sentences/s"
    )
