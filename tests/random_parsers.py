"""Small parsers with random weights."""

import torch
from plain_parser import sentence

from parser.config.settings import NetworkSettings, ParserSettings
from parser.parsing.model import Model
from parser.treebank.vocabulary import Vocabulary

TRAIN = [
    sentence((2, 0, 2, 3), labels=["det", "root", "obj", "det"]),
    sentence((0, 1), labels=["root", "punct"]),
]


def model(system="arc-hybrid", scale=0.8, dtype=torch.float32, device="cpu", **options):
    settings = ParserSettings(
        system=system,
        network=NetworkSettings(
            word_size=5,
            tag_sizes={"upos": 3},
            token_size=6,
            hidden_size=7,
            layers=2,
            transition_size=4,
            dropout=0.3,
            **options,
        ),
    )
    built = Model.build(settings, Vocabulary.build(TRAIN, ["form", "upos"]), torch.device(device))
    for weight in built.network.parameters():
        torch.nn.init.normal_(weight, std=scale)
    built.network.to(dtype).eval()
    return built
