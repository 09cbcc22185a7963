"""Training with a transformer, combined with several processes, teachers, several treebanks and bfloat16."""

import pytest
import torch
from programs import together
from safetensors.torch import load_file
from small_transformers import make_transformer

from parser.batching.functional import computing_in
from parser.config.file import read_config
from parser.distributed.process_group import ALONE
from parser.evaluation.evaluate import evaluate
from parser.parsing.ensemble import ModelChoice, load_models
from parser.parsing.model import Model
from parser.training import data
from parser.training.run import train
from parser.treebank.conllu import read_treebank

pytestmark = pytest.mark.extended

CPU = torch.device("cpu")
NOTHING_RANDOM = "training.unknown_probability=0.0"
MODES = ["frozen", "lora", "all"]


@pytest.fixture
def transformer(tmp_path):
    """A function that gives the setting of a small transformer that is trained in that way.

    It has no dropout: each process would draw its own.
    """
    folder = make_transformer(
        tmp_path / "pretrained", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )

    def setting(mode):
        told = f"{{model: {folder}, layers: 2, train: {mode}, learning_rate: 1e-3}}"
        return f"parser.network.transformer={told}"

    return setting


def trained(processes, path, changes, run):
    return train(read_config(path, changes), run, CPU, processes=processes)


def weights_of(run):
    """Without the biases of attention keys, whose gradient is zero up to rounding, which Adam enlarges."""
    weights = load_file(run / "model" / "weights.safetensors")
    return {name: weight for name, weight in weights.items() if not name.endswith("key.bias")}


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_train_as_one_does(mode, transformer, config_file, tmp_path):
    changes = [transformer(mode), NOTHING_RANDOM, "training.average=0.9", "training.batch_size=4"]
    one = trained(ALONE, config_file, changes, tmp_path / "one")
    first, second = together(2, trained, config_file, changes, tmp_path / "two")
    assert first == second == one
    ours, theirs = (weights_of(tmp_path / run) for run in ("two", "one"))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)  # after 24 steps


@pytest.mark.parametrize("mode", ["frozen", "all"])
def test_a_teacher_with_a_transformer_says_what_it_predicts(mode, transformer, config_file, tmp_path):
    """The labels of the trees are wrong, and only the teacher knows the right ones."""
    fast = "training.learning_rate={start: 2e-2, peak: 2e-2, warmup_epochs: 0}"
    changes = [fast, "training.epochs=12"]
    good = read_config(config_file, [*changes, transformer(mode)])
    assert train(good, tmp_path / "good", CPU).las == 100
    text = (tmp_path / "tiny.conllu").read_text().replace("nsubj", "punct")
    other = "1\tworms\tworm\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tcrawl\tcrawl\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "wrong.conllu").write_text(text + other)
    changes.append(f"treebank.train={tmp_path}/wrong.conllu")
    teachers = f"training.distillation={{models: [{tmp_path}/good/model]}}"
    for run, more, learns in (("taught", [teachers], True), ("untaught", [], False)):
        las = train(read_config(config_file, [*changes, *more]), tmp_path / run, CPU).las
        assert (las == 100) is learns


def test_a_student_with_a_transformer_learns_from_one_without(transformer, config_file, tmp_path):
    train(read_config(config_file, ["training.epochs=2"]), tmp_path / "teacher", CPU)
    taught = [transformer("lora"), f"training.distillation={{models: [{tmp_path}/teacher/model]}}"]
    config = read_config(config_file, taught)
    scores = train(config, tmp_path / "student", CPU)
    model = Model.load(tmp_path / "student" / "model", CPU)
    assert evaluate(model, read_treebank(config.treebank.dev)) == scores


@pytest.mark.parametrize("mode", MODES)
def test_a_parser_of_two_treebanks_follows_the_one_that_is_asked_for(
    mode, transformer, config_file, tmp_path
):
    """Both have the same sentences, and so the same vectors, and other labels. Dev is the one learnt last."""
    text, paths = (tmp_path / "tiny.conllu").read_text(), []
    for name, label, times in (("first", "nsubj", 1), ("second", "agent", 3)):
        path = tmp_path / f"{name}-ud-train.conllu"
        path.write_text(text.replace("nsubj", label) * times)
        paths.append(str(path))
    changes = [
        f"treebank.train=[{', '.join(paths)}]",
        f"treebank.dev={paths[0]}",
        "treebank.test=null",
        "parser.network.treebank_size=16",
        "training.epochs=12",
        "training.average=0.9",
    ]
    train(read_config(config_file, [*changes, transformer(mode)]), tmp_path / "run", CPU)
    for treebank, path in zip(("first", "second"), paths, strict=True):
        model = load_models(ModelChoice((tmp_path / "run" / "model",), treebank), CPU)
        assert evaluate(model, read_treebank(path)).las == 100


@pytest.mark.parametrize("mode", MODES)
def test_bfloat16_learns_what_float32_learns(mode, transformer, config_file, bfloat16):
    changes = [NOTHING_RANDOM, "training.epochs=1", transformer(mode)]
    gradients = []
    for chosen in ("float32", "bfloat16"):
        config = read_config(config_file, [*changes, f"training.precision={chosen}"])
        torch.manual_seed(1)
        model, loaded = data.load(config, CPU)
        batch = loaded.train.batch(torch.arange(16))
        with computing_in(chosen, CPU):
            model.network(batch, model.inventory).total.backward()
        gradients.append(
            torch.cat([w.grad.flatten() for w in model.network.parameters() if w.grad is not None])
        )
    assert not torch.equal(*gradients)
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99
