"""Training steps compared with plain torch, and what decides which model is kept and when training ends."""

import copy
import itertools
import json
from types import SimpleNamespace

import pytest
import torch
from extended import extended, first_of

from parser.evaluation.scores import Scores
from parser.evaluation.treebank_scores import TreebankScores
from parser.models.network_model import NetworkModel, load_network
from parser.networks.loss import transition_loss
from parser.training import data, epoch
from parser.training.config import read_config
from parser.training.data import epoch_batches
from parser.training.epoch import epoch_metrics, train_epoch
from parser.training.run import new_training, train

CPU = torch.device("cpu")
RATE, L2, CLIP, KEEP = 0.01, 0.03, 0.23, 0.8
CHANGES = [
    f"training.learning_rate={{start: {RATE}, peak: {RATE}, warmup_epochs: 1}}",
    f"training.optimizer.weight_decay={L2}",
    f"training.max_grad_norm={CLIP}",
    f"training.average={KEEP}",
    "training.optimizer.betas=[0.8, 0.95]",
    "training.unknown_probability=0.0",
    "training.batch_size=3",
]


def plain_adam(network, batches, inventory):
    """The weights after each step, by the formulas of Kingma & Ba (2015), and their final average."""
    weights = list(network.parameters())
    first, second, average = ([torch.zeros_like(weight) for weight in weights] for _ in range(3))
    norms = []
    for step, batch in enumerate(batches, 1):
        loss = transition_loss(network.replay(batch), batch, inventory) / len(batch.transitions)
        gradients = torch.autograd.grad(loss, weights)
        norms.append(torch.cat([gradient.flatten() for gradient in gradients]).norm().item())
        kept = min(KEEP, (step - 1) / (9 + step - 1))
        for weight, gradient, m, v, mean in zip(weights, gradients, first, second, average, strict=True):
            gradient = gradient * min(1.0, CLIP / (norms[-1] + 1e-6)) + L2 * weight.detach()
            m.copy_(0.8 * m + 0.2 * gradient)
            v.copy_(0.95 * v + 0.05 * gradient**2)
            change = RATE * (m / (1 - 0.8**step)) / ((v / (1 - 0.95**step)).sqrt() + 1e-8)
            weight.data -= change
            mean.copy_(kept * mean + (1 - kept) * weight.detach())
    return weights, average, norms


def test_steps_are_those_of_adam(config_file):
    config = read_config(config_file, CHANGES)
    model, loaded = data.load(config, CPU)
    model.network.double()
    network = copy.deepcopy(model.network)
    batches = [loaded.train.batch(rows) for rows in epoch_batches(loaded, config.training, 1)]
    weights, average, norms = plain_adam(network, batches, model.inventory)
    assert min(norms) < CLIP < max(norms)  # some are clipped, some are not

    training = new_training(model, loaded, config)
    for _ in train_epoch(loaded, config.training, training):
        pass
    for network, expected in ((training.step.network, weights), (training.step.average.network, average)):
        torch.testing.assert_close(list(network.parameters()), expected, rtol=1e-5, atol=1e-7)
    assert float(training.totals[2]) == pytest.approx(sum(norms), rel=1e-5)


def scripted(monkeypatch, las, uas=None):
    """Replace the dev scores: one pair for each epoch."""
    scores = iter(
        TreebankScores({"": Scores(words=100, correct_heads=heads, correct_arcs=arcs)})
        for arcs, heads in zip(las, uas or [100] * len(las), strict=True)
    )
    monkeypatch.setattr("parser.training.loop.evaluate_treebanks", lambda *_: next(scores))


def trained(config_file, run, *changes):
    """Train, and return the numbers of the epochs that were trained."""
    train(read_config(config_file, changes), run, CPU)
    return [json.loads(line)["epoch"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("average", first_of([False, True]))
def test_the_model_with_the_best_las_is_kept(config_file, tmp_path, monkeypatch, average):
    """The first of equally good models, not the one with the best UAS or the last one."""
    scripted(monkeypatch, las=[50, 55, 54, 55, 53], uas=[60, 58, 70, 59, 59])
    changes = ["training.average=0.5"] if average else []
    saved = {}

    def save(model, folder, about, save=NetworkModel.save):
        saved[about["epoch"]] = copy.deepcopy(model.network.state_dict())
        save(model, folder, about)

    monkeypatch.setattr(NetworkModel, "save", save)
    assert trained(config_file, tmp_path / "run", "training.epochs=5", *changes) == [1, 2, 3, 4, 5]
    assert json.loads((tmp_path / "run" / "model" / "scores.json").read_text())["epoch"] == 2
    kept = load_network(tmp_path / "run" / "model", CPU).network.state_dict()
    assert all(torch.equal(weight, saved[2][name]) for name, weight in kept.items())


@pytest.mark.parametrize(
    ("early_stopping_patience", "epochs"),
    [(2, 3), *extended((1, 2), (3, 7), (4, 8), (None, 8))],
    ids=lambda value: str(value),
)
def test_training_ends_after_so_many_epochs_in_vain(
    config_file, tmp_path, monkeypatch, early_stopping_patience, epochs
):
    scripted(monkeypatch, las=[50, 49, 50, 51, 50, 51, 51, 52])
    patience = f"training.early_stopping_patience={early_stopping_patience or 'null'}"
    assert trained(config_file, tmp_path / "run", "training.epochs=8", patience)[-1] == epochs


@pytest.mark.extended
@pytest.mark.parametrize("probability", [0.25, 1.0])
def test_exploring_begins_in_its_epoch_with_its_share(config_file, tmp_path, monkeypatch, probability):
    explores = []

    def batch(step, loaded, rows, exploration, prepared, batch=epoch.training_batch):
        explores.append(exploration is not None)
        return batch(step, loaded, rows, exploration, prepared)

    monkeypatch.setattr(epoch, "training_batch", batch)
    exploration = f"training.exploration={{from_epoch: 3, probability: {probability}}}"
    changes = [exploration, "training.epochs=5", "training.batch_size=1"]
    train(read_config(config_file, changes), tmp_path / "run", CPU)
    assert len(explores) == 5 * 16
    assert not any(explores[: 2 * 16])
    assert sum(explores[2 * 16 :]) / (3 * 16) == pytest.approx(probability, abs=0.15)


def test_an_epochs_seconds_are_those_of_its_batches(config_file, monkeypatch):
    config = read_config(config_file)
    model, loaded = data.load(config, CPU)
    training = new_training(model, loaded, config)
    ticks = itertools.count()
    monkeypatch.setattr(epoch, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    batches = sum(1 for _ in train_epoch(loaded, config.training, training))
    assert training.progress.seconds == batches
    metrics = epoch_metrics(training, config.training, loaded)
    assert metrics["sentences_per_second"] == len(loaded.train) / batches
