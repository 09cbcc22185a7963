"""What a run keeps at its end: the model of the last epoch without a dev set, and with one the bonus of the
parser's own arcs that is best on it.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from parser.evaluation.evaluate import evaluate
from parser.models.network_model import load_network
from parser.parsing.reparsing import with_bonus
from parser.system.interruption import StoppedError
from parser.training import loop
from parser.training import run as training_run
from parser.training.config import read_config
from parser.training.run import (
    ANALYSES_BONUSES,
    ARC_BONUS_WITHOUT_DEV,
    BONUSES,
    fit_bonus,
    train_and_score,
    with_analyses_bonus,
)
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
CHANGES = ["training.epochs=3", "training.learning_rate.decay=linear", "parser.network.arcs={loss_weight: 1}"]
NO_DEV = [*CHANGES, "treebank.dev=null"]


def differs_from_last(model, run):
    """The names of the model's weights that are not the last ones of the training."""
    last = load_file(run / "checkpoint.safetensors")
    weights = model.network.state_dict()
    return [name for name, weight in weights.items() if not torch.equal(weight, last[f"network.{name}"])]


@pytest.mark.extended
def test_the_model_of_the_last_epoch_is_kept(config_file, tmp_path):
    """Dev has no part in training: the last weights are those of a run with dev."""
    with_dev, without = tmp_path / "with", tmp_path / "without"
    train_and_score(read_config(config_file, CHANGES), with_dev)
    result = train_and_score(read_config(config_file, NO_DEV), without)
    assert (result["dev"], result["best_epoch"], result["epochs"]) == (None, 3, 3)
    assert result["test"]["scored_words"] == 16 * 3
    model = load_network(without / "model", CPU)
    assert differs_from_last(model, with_dev) == []
    assert model.settings.network.arcs.bonus == ARC_BONUS_WITHOUT_DEV
    assert (model.settings.calibration, model.dev_shares) == (None, {})
    more = read_config(config_file, [*NO_DEV, "training.epochs=5"])
    assert train_and_score(more, without, resume=True)["best_epoch"] == 5
    assert differs_from_last(load_network(without / "model", CPU), without) == []


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
    train_and_score(read_config(config_file, NO_DEV), tmp_path / "run")
    assert saved == checkpoints


def test_what_is_written_and_said_has_no_dev(tmp_path, trained):
    run = tmp_path / "run"
    printed = trained(*NO_DEV)
    assert "best" not in printed
    assert f"\nmodel: {run / 'model'}, epoch 3 of 3, " in printed
    assert "dev" not in (run / "metrics.jsonl").read_text()
    curves = (run / "curves.svg").read_text()
    assert "training" in curves
    assert "dev" not in curves


@pytest.mark.extended
def test_ending_earlier_keeps_the_last_of_the_epochs_that_are_done(config_file, tmp_path, monkeypatch):
    run, train_rest = tmp_path / "run", loop.TrainingLoop._train_rest_of_epoch

    def stopped(self, request):
        if self.training.progress.epoch == 3:
            self._save(request)
            raise StoppedError("two epochs are done", 15)
        train_rest(self, request)

    with monkeypatch.context() as patch:
        patch.setattr(loop.TrainingLoop, "_train_rest_of_epoch", stopped)
        with pytest.raises(StoppedError):
            train_and_score(read_config(config_file, NO_DEV), run)
    result = train_and_score(read_config(config_file, [*NO_DEV, "training.epochs=2"]), run, resume=True)
    assert (result["best_epoch"], result["epochs"]) == (2, 2)
    assert differs_from_last(load_network(run / "model", CPU), run) == []


@pytest.mark.extended
def test_a_tokenizer_is_trained_without_dev(config_file, tmp_path, capsys):
    config = read_config(config_file, [*NO_DEV, "tokenizer={kind: bilstm, most_steps: 20}"])
    assert train_and_score(config, tmp_path / "run")["text"]["words"] == 100
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
    model = load_network(folder, CPU)
    scores = {each: evaluate(with_bonus(model, each), DEV).las for each in (None, *BONUSES)}
    kept = model.settings.network.arcs.bonus
    assert kept is not None
    assert scores[kept] == max(scores.values()) > scores[None]
    assert result["dev"]["las"] == pytest.approx(scores[kept])


@pytest.mark.extended
def test_if_none_is_better_the_trees_are_the_parsers_own(run, tmp_path, monkeypatch):
    model = replace(load_network(run[1], CPU), constraints=None)
    model.save(tmp_path, {})
    with torch.no_grad():
        for weight in model.network.arcs.parameters():
            weight.normal_()
    own = evaluate(with_bonus(model, None), DEV).las
    monkeypatch.setattr(training_run, "BONUSES", (0.0, 0.1))
    fitted, scores = fit_bonus(model, DEV, tmp_path)
    assert scores.las == own
    assert fitted.settings.network.arcs.bonus is None
    assert load_network(tmp_path, CPU).settings.network.arcs.bonus is None


@pytest.mark.extended
def test_the_bonus_of_analyses_suits_dev(run):
    result, folder = run
    model = load_network(folder, CPU)
    scores = {bonus: evaluate(with_analyses_bonus(model, bonus), DEV) for bonus in ANALYSES_BONUSES}
    kept = scores[model.vocabulary.analyses.bonus]
    assert kept.percent("upos") == max(each.percent("upos") for each in scores.values())
    assert result["dev"]["upos"] == pytest.approx(kept.percent("upos"))
    assert result["dev"]["las"] == pytest.approx(kept.las)
