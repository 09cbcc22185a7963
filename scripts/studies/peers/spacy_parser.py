"""spaCy's parser, compared with ours: trained on UD by its "efficiency" config, and timed on gold words.

python scripts/studies/peers/spacy_parser.py train TRAIN.conllu DEV.conllu FOLDER [--steps N]
python scripts/studies/peers/spacy_parser.py parse FOLDER/model-best TEST.conllu

`parse` prints LAS and the sentences per second of the pipeline, from words to arcs. Reading and writing,
which our `parse` includes in its time, are left out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import spacy
from harness import Tree, las, run, timed, trees
from spacy.tokens import Doc


def train(train: Path, dev: Path, folder: Path, steps: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in (train, dev):
        _run("convert", str(path), str(folder), "--converter", "conllu", "--n-sents", "10")
    config = str(folder / "config.cfg")
    _run("init", "config", config, "--pipeline", "parser", "--optimize", "efficiency", "--force")
    given = {
        "paths.train": folder / train.with_suffix(".spacy").name,
        "paths.dev": folder / dev.with_suffix(".spacy").name,
        "training.max_steps": steps,
    }
    _run("train", config, "--output", str(folder), *(f"--{name}={value}" for name, value in given.items()))


def _run(*command: str) -> None:
    subprocess.run([sys.executable, "-m", "spacy", *command], check=True)


def parse(model: Path, test: Path, together: int) -> None:
    nlp = spacy.load(model)
    gold = trees(test.read_text(encoding="utf-8"))
    # Each is one sentence: only its first word starts one.
    starts = ([number == 0 for number, _ in enumerate(tree.forms)] for tree in gold)
    docs = [
        Doc(nlp.vocab, tree.forms, sent_starts=of_tree) for tree, of_tree in zip(gold, starts, strict=True)
    ]
    parsed, speed = timed(lambda group: list(nlp.pipe(group, batch_size=256)), docs, together)
    print(f"LAS {las(gold, list(map(_tree, parsed))):.2f}, {speed:,.1f} sentences/s")


def _tree(doc: Doc) -> Tree:
    heads = [0 if token.head.i == token.i else token.head.i + 1 for token in doc]
    labels = ["root" if token.dep_ == "ROOT" else token.dep_.split(":")[0] for token in doc]
    return Tree([token.text for token in doc], heads, labels)


if __name__ == "__main__":
    steps_help = "at most so many; 0 for spaCy's early stopping"
    run(__doc__, train, parse, "--steps", 0, steps_help)
