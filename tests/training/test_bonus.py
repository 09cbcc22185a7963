"""The bonus of the parser's own arcs is the best one on dev."""

from pathlib import Path

import pytest
import torch

from parser.evaluation.evaluate import evaluate
from parser.models.model import Model
from parser.parsing.reparsing import with_bonus
from parser.training import run as training_run
from parser.training.config import read_config
from parser.training.run import BONUSES, fit_bonus, train_and_score
from parser.treebank.conllu import read_treebank

pytestmark = pytest.mark.extended
CPU = torch.device("cpu")
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


def test_the_best_one_is_kept_with_the_model(run):
    result, folder = run
    model = Model.load(folder, CPU)
    scores = {each: evaluate(with_bonus(model, each), DEV).las for each in (None, *BONUSES)}
    kept = model.settings.network.arcs.bonus
    assert kept is not None
    assert scores[kept] == max(scores.values()) > scores[None]
    assert result["dev"]["las"] == pytest.approx(scores[kept])


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
