"""What a run keeps at its end: the model of the last epoch without a dev set, and with one the bonus of the
parser's own arcs that is best on it.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from parser.cli import main
from parser.evaluation.evaluate import evaluate
from parser.models.model import Model
from parser.parsing.reparsing import with_bonus
from parser.system.interruption import StoppedError
from parser.training import loop
from parser.training import run as training_run
from parser.training.config import read_config
from parser.training.run import BONUS_WITHOUT_DEV, BONUSES, fit_bonus, train_and_score
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
CHANGES = [
    "training.epochs=3",
    "training.learning_rate.decay=linear",
    "parser.network.arcs={loss_weight: 1}",
]


@pytest.mark.extended
def test_the_model_of_the_last_epoch_is_kept(config_file, tmp_path):
    """Dev has no part in training: the last weights are those of a run with dev."""
    with_dev, without = tmp_path / "with", tmp_path / "without"
    train_and_score(read_config(config_file, CHANGES), with_dev)
    result = train_and_score(read_config(config_file, [*CHANGES, "treebank.dev=null"]), without)
    assert (result["dev"], result["best_epoch"], result["epochs"]) == (None, 3, 3)
    assert result["test"]["scored_words"] == 16 * 3
    model = Model.load(without / "model", CPU)
    last = load_file(with_dev / "checkpoint.safetensors")
    for name, weight in model.network.state_dict().items():
        assert torch.equal(weight, last[f"network.{name}"]), name
    assert model.settings.network.arcs.bonus == BONUS_WITHOUT_DEV
    assert model.settings.calibration is None
    assert model.dev_shares == {}


@pytest.mark.extended
@pytest.mark.parametrize(("seconds", "checkpoints"), [(-1, [2, 3, 4]), (600, [4])])
def test_short_epochs_share_a_checkpoint(config_file, tmp_path, monkeypatch, seconds, checkpoints):
    """The last epoch always has its own checkpoint."""
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_EPOCHS_SAVED", seconds)
    saved, save = [], loop.save_checkpoint

    def save_and_note(path, training, *others):
        saved.append(training.progress.epoch)
        save(path, training, *others)

    monkeypatch.setattr(loop, "save_checkpoint", save_and_note)
    train_and_score(read_config(config_file, [*CHANGES, "treebank.dev=null"]), tmp_path / "run")
    assert saved == checkpoints


def test_what_is_written_and_said_has_no_dev(config_file, tmp_path, capsys):
    run = tmp_path / "run"
    changes = [value for each in [*CHANGES, "treebank.dev=null"] for value in ("--set", each)]
    assert main(["train", str(config_file), "--run", str(run), *changes]) == 0
    printed = capsys.readouterr().out
    assert "no dev; read and prepared" in printed
    assert "best" not in printed
    assert f"\nmodel: {run / 'model'}, epoch 3 of 3, " in printed
    epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert not [name for epoch in epochs for name in epoch if "dev" in name]
    curves = (run / "curves.svg").read_text()
    assert "training" in curves
    assert "dev" not in curves


def kept(run):
    """Whether the kept model has the last weights of training."""
    model = Model.load(run / "model", CPU).network.state_dict()
    last = load_file(run / "checkpoint.safetensors")
    return all(torch.equal(weight, last[f"network.{name}"]) for name, weight in model.items())


@pytest.mark.extended
def test_going_on_to_more_epochs_keeps_the_last_of_these(config_file, tmp_path):
    run, changes = tmp_path / "run", [*CHANGES, "treebank.dev=null"]
    train_and_score(read_config(config_file, changes), run)
    result = train_and_score(read_config(config_file, [*changes, "training.epochs=5"]), run, resume=True)
    assert result["best_epoch"] == 5
    assert kept(run)


@pytest.mark.extended
def test_ending_earlier_keeps_the_last_of_the_epochs_that_are_done(config_file, tmp_path, monkeypatch):
    run, changes = tmp_path / "run", [*CHANGES, "treebank.dev=null"]

    def stopped(self, request):
        if self.training.progress.epoch == 3:
            self._save(request)
            raise StoppedError("two epochs are done", 15)
        train_rest(self, request)

    train_rest = loop.TrainingLoop._train_rest_of_epoch
    monkeypatch.setattr(loop.TrainingLoop, "_train_rest_of_epoch", stopped)
    with pytest.raises(StoppedError):
        train_and_score(read_config(config_file, changes), run)
    monkeypatch.undo()
    result = train_and_score(read_config(config_file, [*changes, "training.epochs=2"]), run, resume=True)
    assert (result["best_epoch"], result["epochs"]) == (2, 2)
    assert kept(run)


@pytest.mark.extended
def test_a_tokenizer_is_trained_without_dev(config_file, tmp_path, capsys):
    pytest.importorskip("ufal.udpipe")
    changes = [*CHANGES, "treebank.dev=null", "tokenizer={kind: udpipe, epochs: 2}"]
    result = train_and_score(read_config(config_file, changes), tmp_path / "run")
    assert result["text"]["words"] == 100
    assert "tokenizer trained in" in capsys.readouterr().out


DEV = read_treebank("data/quickstart/dev.conllu")
ARCS = [
    "treebank.train=data/quickstart/dev.conllu",
    "treebank.dev=data/quickstart/dev.conllu",
    "training.epochs=2",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The result and the folder of a run whose scorer of arcs knows more than its parser."""
    folder = tmp_path_factory.mktemp("run")
    changes = [*ARCS, "treebank.test=null", "tokenizer=null", "parser.network.arcs={loss_weight: 20}"]
    with pytest.MonkeyPatch.context() as patch:  # applies before the fixtures of each test
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("caches")))
        result = train_and_score(read_config(Path("configs/quickstart.yaml"), changes), folder)
    return result, folder / "model"


@pytest.mark.extended
def test_the_best_one_is_kept_with_the_model(run):
    result, folder = run
    model = Model.load(folder, CPU)
    scores = {each: evaluate(with_bonus(model, each), DEV).las for each in (None, *BONUSES)}
    kept = model.settings.network.arcs.bonus
    assert kept is not None
    assert scores[kept] == max(scores.values()) > scores[None]
    assert result["dev"]["las"] == pytest.approx(scores[kept])


@pytest.mark.extended
def test_if_none_is_better_the_trees_are_the_parsers_own(run, tmp_path, monkeypatch):
    model = Model.load(run[1], CPU)
    model.save(tmp_path, {})
    with torch.no_grad():
        for weight in model.network.arcs.parameters():
            weight.normal_()
    own = evaluate(with_bonus(model, None), DEV).las
    monkeypatch.setattr(training_run, "BONUSES", (0.0, 0.1))
    assert fit_bonus(model, DEV, tmp_path).las == own
    assert Model.load(tmp_path, CPU).settings.network.arcs.bonus is None
