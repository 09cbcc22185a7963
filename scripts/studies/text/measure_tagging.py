"""Measure the speed of a parser that predicts tags and lemmas, next to an equally large one that does not.

The other parser has the model's layers and weights, but reads no tags: its trees are worse, but similar.
Both parse the same sentences in turns, reading and writing included. The ratio is the median over the turns,
with its 95 % interval.

python scripts/studies/text/measure_tagging.py MODEL FILE.conllu [--sentences 20000] [--turns 5]
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from parser.models.network_model import NetworkModel, load_network

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import compare, parsed_per_second, write_sentences

from parser.models.settings import ParserSettings
from parser.models.weight_shapes import VECTORS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("treebank", help="its sentences are repeated")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, other = Path(folder) / "input.conllu", Path(folder) / "model"
        write_sentences(given.treebank, given.sentences, text)
        without_tags(load_network(given.model, torch.device("cpu"))).save(other, {})
        parsing = {
            "with tags": partial(parsed_per_second, given.model, text, "--tags=all"),
            "without": partial(parsed_per_second, other, text),
        }
        compare(parsing, given.turns, "with tags over without")


def without_tags(model: NetworkModel) -> NetworkModel:
    """A parser that predicts no tags; its sentence encoder has all layers of the model's."""
    settings = model.settings.model_dump()
    network, below = settings["network"], 0
    if network["sentence_encoder"]:
        below = network["sentence_encoder"]["layers"]
        network["sentence_encoder"]["layers"] += network["tags"]["layers_above"]
    network["tags"] = {}
    vocabulary = replace(model.vocabulary, predicted={})
    weights = {_name_without_tags(name, below): weight for name, weight in model.network.state_dict().items()}
    vectors = weights[VECTORS][1:] if VECTORS in weights else None
    alone = NetworkModel.build(ParserSettings.model_validate(settings), vocabulary, model.device, vectors)
    # The first layer above the tags also reads these, in its last columns.
    alone.network.load_state_dict(
        {
            name: weights[name][:, : weight.shape[1]] if weight.dim() == 2 else weights[name]
            for name, weight in alone.network.state_dict().items()
        }
    )
    alone.network.eval()
    return alone


def _name_without_tags(name: str, below: int) -> str:
    """The name of a weight if the layers above the tags belong to the sentence encoder. below: its layers."""
    if not (match := re.fullmatch(r"layers_above_tags\.lstm\.(\w+_l)(\d+)(\w*)", name)):
        return name
    return f"tokens.sentence_encoder.{match[1]}{below + int(match[2])}{match[3]}"


if __name__ == "__main__":
    main()
