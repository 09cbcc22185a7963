import json
from pathlib import Path

import pytest
import torch

from parser.models.network_model import load_network
from parser.training import data, loop
from parser.training.config import read_config
from parser.training.data import epoch_batches
from parser.training.loop import mean_loss
from parser.training.record import epochs_of
from parser.training.run import train
from parser.training.training_step import TrainingStep
from parser.training.word_dropout import WordDropout

CPU = torch.device("cpu")


def test_learns_a_tiny_treebank_and_keeps_the_best_model(config_file, tmp_path, device):
    scores = train(read_config(config_file), tmp_path / "run", device)
    assert scores.las == 100
    model = load_network(tmp_path / "run" / "model", CPU)
    saved = json.loads((tmp_path / "run" / "model" / "scores.json").read_text())
    assert saved["dev"]["las"] == 100
    assert saved["dev"]["scored_words"] == 16 * 3  # full stops among them
    assert model.vocabulary.columns["form"].number("dogs")


def test_metrics_are_written_for_people_and_programs(config_file, tmp_path):
    train(read_config(config_file, ["training.epochs=2"]), tmp_path / "run", CPU)
    rows = epochs_of(tmp_path / "run")
    assert [row["epoch"] for row in rows] == [1, 2]
    of_training = "loss", "learning_rate", "gradient_norm", "sentences_per_second", "padding_share"
    for name in (*of_training, "dev_loss", "dev_las", "dev_uas"):
        assert isinstance(rows[0][name], float), name
    assert rows[0]["loss"] > rows[1]["loss"] > 0
    assert list((tmp_path / "run" / "tensorboard").iterdir())


@pytest.mark.parametrize("decay", ["plateau", "linear"])
def test_only_a_learning_rate_that_follows_the_dev_loss_has_it_computed(
    config_file, tmp_path, monkeypatch, capsys, decay
):
    calls = []
    monkeypatch.setattr(loop, "mean_loss", lambda *_: calls.append(1) or 0.25)
    changes = ["training.epochs=1", f"training.learning_rate.decay={decay}"]
    train(read_config(config_file, changes), tmp_path / "run", CPU)
    (row,) = epochs_of(tmp_path / "run")
    assert len(calls) == (decay == "plateau")
    assert row.get("dev_loss") == (0.25 if decay == "plateau" else None)
    assert ("dev loss 0.2500" in capsys.readouterr().out) == (decay == "plateau")
    assert row["dev_las"] > 0


@pytest.mark.extended
def test_where_there_is_no_bar_a_line_now_and_then_says_how_far_an_epoch_is(
    config_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_LINES", -1)
    train(read_config(config_file, ["training.epochs=1"]), tmp_path / "run", CPU)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("%")]
    assert lines[-1] == "epoch 1: 100%"
    assert len(lines) >= 4


@pytest.mark.extended
def test_the_same_seed_gives_the_same_model(config_file, tmp_path, device):
    changes = ["training.deterministic=true", "training.epochs=2", "parser.network.composition=true"]
    weights = []
    for run, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(read_config(config_file, [*changes, f"training.seed={seed}"]), tmp_path / run, device)
        weights.append(load_network(tmp_path / run / "model", CPU).network.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


@pytest.mark.extended
def test_a_label_that_training_never_saw_leaves_the_dev_loss_finite(config_file, tmp_path):
    dev = tmp_path / "dev.conllu"
    dev.write_text((tmp_path / "tiny.conllu").read_text().replace("\tnsubj\t", "\tnever_seen\t"))
    scores = train(
        read_config(config_file, [f"treebank.dev={dev}", "training.epochs=2"]), tmp_path / "run", CPU
    )
    assert scores.percent("uas") > scores.las
    assert all(0 < row["dev_loss"] < 100 for row in epochs_of(tmp_path / "run"))


def crossing(*arcs):
    """A sentence in CoNLL-U, of four words. Its arcs cross: the heads are 3, 4, 0 and 3."""
    rows = enumerate(zip((3, 4, 0, 3), arcs, strict=True), 1)
    return "".join(f"{word}\tx\tx\tX\tX\t_\t{head}\t{label}\t_\t_\n" for word, (head, label) in rows) + "\n"


@pytest.mark.parametrize(("how", "trained_on"), [("lift", 17), ("drop", 16)])
def test_non_projective_trees(config_file, tmp_path, how, trained_on):
    with (tmp_path / "tiny.conllu").open("a") as file:
        file.write(crossing("a", "b", "root", "c"))
    model, loaded = data.load(read_config(config_file, [f"treebank.non_projective={how}"]), CPU)
    assert loaded.crossing == 1
    assert len(loaded.train) == trained_on
    assert ("b↑c" in model.vocabulary.labels.strings) == (how == "lift")
    assert len(loaded.dev_sentences) == 17  # scored anyway


def test_epochs_differ_and_repeat(config_file):
    config = read_config(config_file)
    _, loaded = data.load(config, CPU)

    def batches(number):
        return [batch.tolist() for batch in epoch_batches(loaded, config.training, number)]

    assert batches(1) == batches(1)
    assert batches(1) != batches(2)


def test_dev_loss_does_not_depend_on_dropout(config_file):
    model, loaded = data.load(read_config(config_file, ["parser.network.dropout=0.5"]), CPU)
    model.network.train()
    assert mean_loss(model, loaded.dev) == mean_loss(model, loaded.dev)


@pytest.mark.extended
def test_a_dev_set_without_projective_trees_has_scores_but_no_loss(config_file, tmp_path):
    dev = tmp_path / "dev.conllu"
    dev.write_text(crossing("nsubj", "punct", "root", "punct"))
    changes = [f"treebank.dev={dev}", "training.epochs=2", "treebank.non_projective=drop"]
    train(read_config(config_file, changes), tmp_path / "run", CPU)
    assert [row["dev_loss"] for row in epochs_of(tmp_path / "run")] == [None, None]


def test_a_treebank_of_single_words_is_refused(config_file, tmp_path):
    (tmp_path / "tiny.conllu").write_text("1\tyes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n")
    with pytest.raises(ValueError, match="no arc between two words"):
        data.load(read_config(config_file), CPU)


def test_each_step_has_its_learning_rate_and_drops_words(config_file, tmp_path, monkeypatch):
    rates, replaced = [], []

    def update(step, update=TrainingStep.update):
        rates.append(step.optimizer.param_groups[0]["lr"])
        return update(step)

    def replace_words(self, tokens, replace_words=WordDropout.__call__):
        replaced.append(tokens.words)
        return replace_words(self, tokens)

    monkeypatch.setattr(TrainingStep, "update", update)
    monkeypatch.setattr(WordDropout, "__call__", replace_words)
    rate = "training.learning_rate={start: 0.1, peak: 0.5, warmup_epochs: 1}"
    changes = [rate, "training.epochs=2", "training.unknown_probability=0.25"]
    train(read_config(config_file, changes), tmp_path / "run", CPU)
    first, *warming = rates[: len(rates) // 2]
    assert first == pytest.approx(0.1)
    assert first < warming[0] < warming[-1] < 0.5
    assert warming == sorted(warming)
    assert rates[len(rates) // 2 :] == pytest.approx([0.5] * (len(rates) // 2))
    assert len(replaced) == len(rates)


@pytest.mark.extended
@pytest.mark.parametrize("trained", [True, False])
def test_pretrained_vectors_of_words_that_training_lacks_are_kept(config_file, tmp_path, trained):
    """They may be among the trained weights, and weight decay would move them to zero."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("dogs 1 2 3\nunseen 4 5 6\n")
    changes = [f"parser.network.pretrained={vectors}", "training.optimizer.weight_decay=0.1"]
    changes.append(f"parser.network.train_pretrained={str(trained).lower()}")
    train(read_config(config_file, changes), tmp_path / "run", CPU)
    vectors.unlink()
    model = load_network(tmp_path / "run" / "model", CPU)
    unknown, dogs, unseen = model.network.tokens.embeddings["pretrained"].weight.tolist()
    assert unseen == [4, 5, 6]
    assert (unknown == [0, 0, 0]) == (dogs == [1, 2, 3]) == (not trained)


@pytest.mark.extended
def test_the_rate_sinks_when_the_dev_loss_does_not(config_file, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "mean_loss", lambda *_: 1.0)
    rate = "training.learning_rate={peak: 0.01, warmup_epochs: 0}"
    train(read_config(config_file, ["training.epochs=4", rate]), tmp_path / "run", CPU)
    rows = epochs_of(tmp_path / "run")
    assert [row["learning_rate"] for row in rows] == pytest.approx([0.01, 0.01, 0.005, 0.0025])


@pytest.mark.extended
@pytest.mark.real_data
def test_learns_english_from_ewt(treebanks, tmp_path):
    folder = treebanks / "UD_English-EWT"
    paths = [f"treebank.{split}={folder}/en_ewt-ud-{split}.conllu" for split in ("train", "dev", "test")]
    config = read_config(Path("configs/ud-english-ewt.yaml"), [*paths, "training.epochs=2"])
    assert train(config, tmp_path / "run", CPU).las > 70
