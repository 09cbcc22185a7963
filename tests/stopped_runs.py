"""Runs that are stopped and resumed, and what they leave behind."""

import json
import os
import signal

from parser.training import epoch

RICH = [
    "training.average=0.9",
    "training.exploration={from_epoch: 3, probability: 0.5}",
    "training.word_dropout=0.5",
    "parser.network.composition=true",
    "parser.network.characters={size: 4, filters: 4}",
    "parser.network.sentence_encoder={hidden_size: 8, layers: 2}",
    "parser.network.tags={predict: [xpos, lemma], layers_above: 1}",
    "parser.network.embedding_dropout=0.2",
    "parser.network.arcs={size: 8}",
]
OTHER_TREES = [
    "treebank.train=[FOLDER/tiny.conllu, FOLDER/other.conllu]",
    "treebank.sampling_exponent=0.5",
    "treebank.silver={files: [FOLDER/tiny.conllu], share: 0.4, epochs: 6}",
    "parser.network.treebank_size=4",
    "training.distillation={models: [tests/model], weight: 0.5}",
]
LONG = ["training.epochs=12", "parser.network.dropout=0.3", "training.learning_rate.warmup_epochs=2"]


class Stops:
    """Sends SIGTERM to this process in the training batches whose numbers are in `at`."""

    def __init__(self, monkeypatch):
        self.batches, self.at = 0, set()

        def signal_and_train(*arguments, train_step=epoch.train_step):
            self.batches += 1
            if self.batches in self.at:
                os.kill(os.getpid(), signal.SIGTERM)
            return train_step(*arguments)

        monkeypatch.setattr(epoch, "train_step", signal_and_train)


def left_behind(run):
    """The results of a run, without its speed."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    model = {path.name: path.read_bytes() for path in (run / "model").iterdir()}
    times = dict.fromkeys(("sentences_per_second", "seconds", "preparation_seconds"))
    return [{**row, **times} for row in rows], model


def command(config_file, run, *more):
    changes = [argument for change in LONG for argument in ("--set", change)]
    return ["train", str(config_file), "--run", str(run), *changes, *more]
