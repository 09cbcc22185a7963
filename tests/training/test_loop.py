import json

import torch

from parser.config_file import read_config
from parser.parsing.model import Model
from parser.training import data
from parser.training.loop import epoch_batches, forget_rare_forms, mean_loss, train

CPU = torch.device("cpu")


def test_learns_a_tiny_treebank_and_keeps_the_best_model(config_file, tmp_path):
    scores = train(read_config(config_file), tmp_path / "run", CPU)
    assert scores.las == 100
    model = Model.load(tmp_path / "run" / "model", CPU)
    saved = json.loads((tmp_path / "run" / "model" / "scores.json").read_text())
    assert saved["dev"]["las"] == 100
    assert model.vocabulary.columns["form"].number("dogs")


def test_metrics_are_written_for_people_and_programs(config_file, tmp_path):
    train(read_config(config_file, ["training.epochs=2"]), tmp_path / "run", CPU)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2]
    for name in (
        "loss",
        "dev_loss",
        "dev_las",
        "dev_uas",
        "learning_rate",
        "gradient_norm",
        "sentences_per_second",
        "padding_share",
    ):
        assert isinstance(rows[0][name], float), name
    assert rows[0]["loss"] > rows[1]["loss"] > 0
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_the_same_seed_gives_the_same_model(config_file, tmp_path):
    weights = []
    for run, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(read_config(config_file, [f"training.seed={seed}", "training.epochs=2"]), tmp_path / run, CPU)
        weights.append(Model.load(tmp_path / run / "model", CPU).network.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_stops_when_dev_las_gets_no_better(config_file, tmp_path):
    config = read_config(config_file, ["training.epochs=50", "training.stop_after=2"])
    train(config, tmp_path / "run", CPU)
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(rows) < 50


def test_a_label_that_training_never_saw_leaves_the_dev_loss_finite(config_file, tmp_path):
    dev = tmp_path / "dev.conllu"
    dev.write_text((tmp_path / "tiny.conllu").read_text().replace("\tnsubj\t", "\tnever_seen\t"))
    config = read_config(config_file, [f"treebank.dev={dev}", "training.epochs=2"])
    scores = train(config, tmp_path / "run", CPU)
    assert scores.uas > scores.las
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(0 < row["dev_loss"] < 100 for row in rows)


def test_non_projective_training_trees_are_left_out(config_file, tmp_path):
    crossing = "".join(
        f"{word}\tx\tx\tX\tX\t_\t{head}\t{label}\t_\t_\n"
        for word, (head, label) in enumerate([(3, "a"), (4, "b"), (0, "root"), (3, "c")], 1)
    )
    with (tmp_path / "tiny.conllu").open("a") as file:
        file.write(crossing + "\n")
    _, loaded = data.load(read_config(config_file), CPU)
    assert len(loaded.train_sentences) == 17
    assert len(loaded.train) == 16
    assert len(loaded.dev_sentences) == 17  # scored all the same


def test_epochs_differ_and_repeat(config_file):
    config = read_config(config_file)
    _, loaded = data.load(config, CPU)

    def epoch(number):
        return [batch.tolist() for batch in epoch_batches(loaded.train, config.training, number)]

    assert epoch(1) == epoch(1)
    assert epoch(1) != epoch(2)


def test_words_seen_once_become_unknown_at_random(config_file, tmp_path):
    with (tmp_path / "tiny.conllu").open("a") as file:
        file.write("1\trare\trare\tX\tX\t_\t0\troot\t_\t_\n\n")
    model, loaded = data.load(read_config(config_file), CPU)
    rare = model.vocabulary.columns["form"].number("rare")
    assert loaded.rare_forms.nonzero().flatten().tolist() == [rare]
    batch = loaded.train.batch(torch.arange(len(loaded.train)))
    forgotten = sum(
        not (forget_rare_forms(batch, loaded.rare_forms, 0.5).tokens[:, 0] == rare).any() for _ in range(200)
    )
    assert 60 < forgotten < 140
    kept = forget_rare_forms(batch, loaded.rare_forms, 0.0)
    assert torch.equal(kept.tokens, batch.tokens)
    assert torch.equal(forget_rare_forms(batch, loaded.rare_forms, 1.0).tokens[:, 1], batch.tokens[:, 1])


def test_dev_loss_does_not_depend_on_dropout(config_file):
    model, loaded = data.load(read_config(config_file, ["parser.network.dropout=0.5"]), CPU)
    model.network.train()
    assert mean_loss(model, loaded.dev) == mean_loss(model, loaded.dev)
