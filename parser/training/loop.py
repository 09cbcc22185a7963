"""Training: epochs of replayed batches, each followed by a look at the dev set."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from parser.batching.padding import group_size
from parser.config import Config, TrainingSettings
from parser.evaluation.evaluate import evaluate
from parser.evaluation.scores import Scores
from parser.machine import give_memory_back
from parser.networks.examples import Batch, Examples
from parser.networks.loss import transition_loss
from parser.parsing.model import Model
from parser.training import data
from parser.training.record import Record, make_way
from parser.training.schedule import WarmupThenPlateau, peak_learning_rate
from parser.treebank.batches import length_buckets, padding_share
from parser.treebank.projectivity import is_projective
from parser.treebank.vocabulary import UNKNOWN

STEPS_BETWEEN_TRIMS = 50
"""So often memory that is kept unused goes back: it grows by half a GiB in an epoch of EWT otherwise."""
STEPS_BETWEEN_LOOKS = 20
"""The bar shows the device's numbers, and waits for them, only so often."""
DEV_BATCH = 64
BEST_MODEL = "model"


def train(config: Config, run: Path, device: torch.device) -> Scores:
    """Train a parser; the run's folder gets the metrics and, in `model/`, the model with the best dev LAS.

    An earlier run in that folder is moved aside. Returns the dev scores of the best model. Raises as
    `data.load`, `peak_learning_rate` and `make_way` do.
    """
    torch.manual_seed(config.training.seed)
    began = time.monotonic()
    model, loaded = data.load(config, device)
    crossing = sum(not is_projective(sentence.heads) for sentence in loaded.train_sentences)
    outcome = "lifted" if config.treebank.non_projective == "lift" else "left out"
    tqdm.write(
        f"{len(loaded.train):,} training trees ({crossing:,} non-projective {outcome}), "
        f"{len(loaded.dev_sentences):,} dev; read and prepared in {time.monotonic() - began:.1f} s"
    )
    settings = config.training
    weights = [weight for weight in model.network.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(weights, betas=settings.betas, weight_decay=settings.l2, fused=True)
    schedule = WarmupThenPlateau(optimizer, settings.learning_rate, peak_learning_rate(settings))
    best, best_epoch = Scores(), 0
    if moved := make_way(run):
        tqdm.write(f"{run} held a run already: it is now {moved}")
    with Record(run, config) as record:
        for epoch in range(1, settings.epochs + 1):
            metrics = train_epoch(model, loaded, settings, optimizer, schedule, epoch, best.las)
            dev_loss = mean_loss(model, loaded.dev)
            scores = evaluate(model, loaded.dev_sentences)
            schedule.after_epoch(epoch, dev_loss)
            record.write(
                epoch, {**metrics, "dev_loss": dev_loss, "dev_las": scores.las, "dev_uas": scores.uas}
            )
            improved = scores.las > best.las or not best_epoch
            tqdm.write(_epoch_line(epoch, metrics, dev_loss, scores) + ("  best so far" if improved else ""))
            if improved:
                best, best_epoch = scores, epoch
                model.save(run / BEST_MODEL, {"epoch": epoch, "dev": scores.as_dict()})
            elif settings.stop_after and epoch - best_epoch >= settings.stop_after:
                tqdm.write(f"no better dev LAS in {settings.stop_after} epochs: stopping")
                break
    return best


def train_epoch(
    model: Model,
    loaded: data.TrainingData,
    settings: TrainingSettings,
    optimizer: torch.optim.Optimizer,
    schedule: WarmupThenPlateau,
    epoch: int,
    best_las: float = 0.0,
) -> dict[str, float]:
    """Replay every training sentence once; returns the epoch's metrics. best_las: for the bar to show."""
    model.network.train()
    rare = loaded.rare_forms.to(model.device)
    totals = torch.zeros(3, device=model.device)  # loss, steps scored, norms of the gradients
    began, seen, padding = time.monotonic(), 0, 0.0
    bar = tqdm(total=len(loaded.train), desc=f"epoch {epoch}", unit="sentence", leave=False, disable=None)
    batches = epoch_batches(loaded.train, settings, epoch)
    with bar:
        for number, rows in enumerate(batches, 1):
            if number % STEPS_BETWEEN_TRIMS == 0:
                give_memory_back()
            schedule.before_step(epoch - 1 + seen / len(loaded.train))
            batch = loaded.train.batch(rows, group_size(model.device)).to(model.device)
            batch = forget_rare_forms(batch, rare, settings.unknown_probability)
            loss, steps = transition_loss(model.network.replay(batch), batch, model.inventory)
            norm = update(optimizer, loss / steps, settings.clip)
            totals += torch.stack([loss.detach(), steps, norm])
            seen += len(rows)
            padding += padding_share(loaded.train.tokens.lengths[rows])
            bar.update(len(rows))
            if number % STEPS_BETWEEN_LOOKS == 0:
                loss_so_far = float(totals[0] / totals[1])
                bar.set_postfix(loss=f"{loss_so_far:.3f}", best_LAS=f"{best_las:.2f}", refresh=False)
    loss_sum, step_sum, norm_sum = totals.tolist()
    return {
        "loss": loss_sum / step_sum,
        "learning_rate": schedule.learning_rate,
        "gradient_norm": norm_sum / len(batches),
        "sentences_per_second": seen / (time.monotonic() - began),
        "padding_share": padding / len(batches),
    }


def update(optimizer: torch.optim.Optimizer, loss: Tensor, clip: float) -> Tensor:
    """Change the optimizer's weights by a loss's gradients, clipped; returns their norm before."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(weights, clip)
    optimizer.step()
    return norm


def epoch_batches(examples: Examples, settings: TrainingSettings, epoch: int) -> list[Tensor]:
    """An epoch's batches, by the seed and the epoch's number alone."""
    generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + epoch)
    by_words = settings.batch_unit == "words"
    return length_buckets(examples.tokens.lengths, settings.batch_size, by_words, generator)


def forget_rare_forms(batch: Batch, rare: Tensor, probability: float) -> Batch:
    """Take words for unknown ones at random, among those where `rare` [forms] is True."""
    forms = batch.tokens[:, data.FORM_COLUMN]
    forgotten = rare[forms] & (torch.rand(forms.shape, device=forms.device) < probability)
    tokens = batch.tokens.clone()
    tokens[:, data.FORM_COLUMN] = forms.masked_fill(forgotten, UNKNOWN)
    return replace(batch, tokens=tokens)


@torch.inference_mode()
def mean_loss(model: Model, examples: Examples) -> float:
    """Mean loss of a step, without dropout; not a number if there are no examples."""
    if not len(examples):
        return float("nan")
    model.network.eval()
    totals = torch.zeros(2, device=model.device)
    for rows in examples.tokens.lengths.argsort().split(DEV_BATCH):
        batch = examples.batch(rows, group_size(model.device)).to(model.device)
        totals += torch.stack(transition_loss(model.network.replay(batch), batch, model.inventory))
    loss, steps = totals.tolist()
    return loss / steps


def _epoch_line(epoch: int, metrics: dict[str, float], dev_loss: float, scores: Scores) -> str:
    return (
        f"epoch {epoch:3}  loss {metrics['loss']:.4f}  dev loss {dev_loss:.4f}  UAS {scores.uas:.2f}  "
        f"LAS {scores.las:.2f}  {metrics['sentences_per_second']:,.0f} sentences/s"
    )
