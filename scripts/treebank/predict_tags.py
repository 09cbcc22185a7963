"""Write a treebank with predicted UPOS: words, heads and labels stay the same.

PARSER_DATA=../data python scripts/treebank/predict_tags.py configs/ud-tagger.yaml runs/predicted-tags

The config must be for a parser that predicts UPOS. The training set is tagged in folds, each by a tagger that
was trained on the other folds (jackknifing), so that a parser learns from tags with as many errors as in new
text. Dev and test are tagged by a tagger of the whole training set. The accuracy of each file is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from parser import load, train
from parser.config.data_folder import data_path
from parser.system.files import write_atomically
from parser.training.config import read_config
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import as_conllu, with_tags
from parser.treebank.sentence import Sentence


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path)
    arguments.add_argument("output", type=Path, help="folder for train.conllu, dev.conllu and test.conllu")
    arguments.add_argument("--folds", type=int, default=5, help="of the training set (default: %(default)s)")
    given = arguments.parse_args()
    config = read_config(given.config)
    treebank = config.treebank
    if "upos" not in config.parser.network.tags.predict:
        raise SystemExit(f"{given.config}: parser.network.tags.predict has no upos, so there is no tagger")
    if len(treebank.train_files) > 1:
        raise SystemExit(
            f"{given.config}: treebank.train has several files; name one, which is tagged in folds"
        )
    given.output.mkdir(parents=True, exist_ok=True)
    train_set = list(read_treebank(data_path(treebank.train_files[0])))
    _report(
        given.output / "train.conllu", train_set, in_folds(given.config, given.output, train_set, given.folds)
    )
    model = tagger(given.config, given.output / "whole", train_set)
    for name, files in (("dev", treebank.dev_files), ("test", treebank.test_files)):
        for path in files.values():
            sentences = list(read_treebank(data_path(path)))
            _report(given.output / f"{name}.conllu", sentences, tagged(model, sentences))


def in_folds(config: Path, output: Path, sentences: Sequence[Sentence], folds: int) -> list[Sentence]:
    """Tag the sentences, sentence i by the tagger of fold i modulo `folds`, which was not trained on it."""
    tagged_sentences = list(sentences)
    for fold in range(folds):
        others = [sentence for number, sentence in enumerate(sentences) if number % folds != fold]
        model = tagger(config, output / f"fold-{fold}", others)
        tagged_sentences[fold::folds] = tagged(model, sentences[fold::folds])
    return tagged_sentences


def tagger(config: Path, run: Path, sentences: Sequence[Sentence]) -> Path:
    """Train a tagger on the sentences. Returns the path of its model in the folder of its run."""
    treebank = run.with_suffix(".conllu")
    write_atomically(treebank, as_conllu(sentences))
    return train(read_config(config, [f"treebank.train={treebank}", "treebank.test=null"]), run=run).model


def tagged(model: Path, sentences: Sequence[Sentence]) -> list[Sentence]:
    trees = load(model).parse_all(list(sentence.forms) for sentence in sentences)
    with_tags_of_model = []
    for sentence, tree in zip(sentences, trees, strict=True):
        assert tree.upos
        with_tags_of_model.append(with_tags(sentence, {"upos": tree.upos}, "all")[0])
    return with_tags_of_model


def _report(path: Path, gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> None:
    """Write sentences with predicted tags, and print the accuracy."""
    write_atomically(path, as_conllu(predicted))
    pairs = [
        pair
        for sentence, tagged_again in zip(gold, read_treebank(str(path)), strict=True)
        for pair in zip(sentence.upos, tagged_again.upos, strict=True)
    ]
    right = sum(one == other for one, other in pairs)
    print(f"{path}: {len(pairs):,} words, UPOS {100 * right / len(pairs):.2f} %", flush=True)


if __name__ == "__main__":
    main()
