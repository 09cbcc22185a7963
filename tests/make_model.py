"""Trains the model in tests/model, which is kept without its tokenizer, tests/text/tokenizer.json.

Chooses the sentences in its `parsed.conllu`: their trees and tags, which the model gives them, stay the same
if its weights are disturbed a little. So rounding, which differs between machines, does not matter.

python tests/make_model.py
"""

import shutil
import tempfile
from pathlib import Path

import torch

import parser
from parser.models.model_files import FILES, TOKENIZER
from parser.models.network_model import load_network
from parser.parsing.engine import parse
from parser.parsing.part_parser import output_of
from parser.treebank.conllu import read_treebank

MODEL = Path(__file__).parent / "model"
KEPT_TOKENIZER = Path(__file__).parent / "text/tokenizer.json"
DEV = "data/quickstart/dev.conllu"
CONFIG = {
    "treebank": {"train": "data/quickstart/train.conllu", "dev": DEV},
    "parser": {
        "network": {
            "word_size": 16,
            "fold_case": True,
            "tag_sizes": {},
            "characters": {"size": 6, "filters": 8, "widths": [2, 3]},
            "sentence_encoder": {"hidden_size": 16, "layers": 1},
            "tags": {"predict": ["upos", "xpos", "feats", "lemma"], "layers_above": 1, "embedding_size": 4},
            "token_size": 24,
            "word_features": True,
            "hidden_size": 24,
            "layers": 1,
            "transition_size": 8,
            "embedding_dropout": 0.1,
        }
    },
    "training": {
        "epochs": 8,
        "batch_size": 16,
        "learning_rate": {"start": 2e-3, "peak": 5e-3, "warmup_epochs": 1},
    },
    "tokenizer": {
        "kind": "bilstm",
        "character_size": 12,
        "character_hidden_size": 16,
        "form_size": 8,
        "hidden_size": 16,
        "dropout": 0.1,
        "unknown_forms": 0.5,
        "learning_rate": 0.01,
        "least_steps": 300,
        "most_steps": 300,
    },
    "device": "cpu",
}
"""A small network with all parts that a network without tags as input can have."""
DISTURBANCES, SIZE = 5, 1e-3
"""How often the weights are disturbed, and the size of the disturbance relative to each weight."""
KEPT = 40
"""The number of sentences that are kept."""


def steady(model, sentences):
    """The sentences whose trees and tags do not change when the weights are disturbed."""
    before = parse(model, sentences)
    exact = {name: weight.clone() for name, weight in model.network.state_dict().items()}
    same = [True] * len(sentences)
    for seed in range(DISTURBANCES):
        torch.manual_seed(seed)
        disturbed = {
            name: weight * (1 + SIZE * torch.randn_like(weight)) if weight.is_floating_point() else weight
            for name, weight in exact.items()
        }
        model.network.load_state_dict(disturbed)
        for number, tree in enumerate(parse(model, sentences)):
            same[number] &= tree == before[number]
    model.network.load_state_dict(exact)
    return [sentence for sentence, is_same in zip(sentences, same, strict=True) if is_same]


def main():
    with tempfile.TemporaryDirectory() as folder:
        trained = parser.train(CONFIG, run=Path(folder) / "run").model
        shutil.move(trained / TOKENIZER, KEPT_TOKENIZER)
        shutil.rmtree(MODEL, ignore_errors=True)
        MODEL.mkdir()
        for name in FILES:
            if (trained / name).is_file():
                shutil.copy(trained / name, MODEL / name)
    model = load_network(MODEL, torch.device("cpu"))
    sentences = steady(model, read_treebank(DEV))[:KEPT]
    lines = [
        output_of(sentence, tree, tags="all", deps="drop").content
        for sentence, tree in zip(sentences, parse(model, sentences), strict=True)
    ]
    (MODEL / "parsed.conllu").write_bytes(b"".join(lines))
    print(f"{MODEL}: {len(lines)} sentences")


if __name__ == "__main__":
    main()
