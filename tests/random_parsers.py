"""Small parsers with random weights, and sentences for them."""

import torch
from plain_parser import sentence

from parser.models.network_model import NetworkModel
from parser.models.settings import ParserSettings
from parser.networks.settings import NetworkSettings
from parser.parsing.pytorch.runner import DeviceRunner
from parser.parsing.running import HostRunner
from parser.treebank.vocabulary import Vocabulary

TRAIN = [
    sentence((2, 0, 2, 3), labels=["det", "root", "obj", "det"]),
    sentence((0, 1), labels=["root", "punct"]),
]


SIZES = {"word_size": 5, "tag_sizes": {"upos": 3}, "token_size": 6, "hidden_size": 7, "layers": 2}


def model(system="arc-hybrid", scale=0.8, dtype=torch.float32, device="cpu", train=TRAIN, **options):
    network = NetworkSettings(**SIZES, transition_size=4, dropout=0.3, **options)
    settings = ParserSettings(system=system, network=network)
    built = NetworkModel.build(settings, Vocabulary.build(train, ["form", "upos"]), torch.device(device))
    for weight in built.network.parameters():
        torch.nn.init.normal_(weight, std=scale)
    built.network.to(dtype).eval()
    return built


FORMS = [f"word{number}" for number in range(5)]


def numbered_sentence(number, length):
    """A sentence that differs from those of other numbers."""
    forms = [FORMS[(number * 7 + word * (1 + number % 3)) % len(FORMS)] for word in range(length)]
    return sentence((0, *range(1, length)), forms=forms)


RUNNERS = {"arrays": HostRunner, "PyTorch": DeviceRunner}


def run_by(monkeypatch, runner):
    """Let engines on a CPU parse by arrays, or by PyTorch as on a GPU."""
    if runner == "PyTorch":
        monkeypatch.setattr(NetworkModel, "is_on_cpu", False)


def refuse_bad_words(monkeypatch):
    """Make sentences fail that contain the word `bad`."""
    for runner in RUNNERS.values():
        encode = runner.encode

        def encode_or_fail(this, requests, encode=encode):
            if any("bad" in request.sentence.forms for request in requests):
                raise RuntimeError("no such word")
            return encode(this, requests)

        monkeypatch.setattr(runner, "encode", encode_or_fail)
