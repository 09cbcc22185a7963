"""Count the heads and labels that change if the weights of a model are stored in 16 bits.

python scripts/studies/accuracy/compare_precisions.py MODEL DEV.conllu
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from parser.evaluation.scores import score
from parser.models.network_model import NetworkModel, load_network
from parser.parsing.engine import parse
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.conllu import read_treebank

PRECISIONS = torch.float16, torch.bfloat16


def arcs_of(trees: Sequence[ParsedTree]) -> list[tuple[int, str]]:
    """The head and the label of each word."""
    return [arc for tree in trees for arc in zip(tree.heads, tree.labels, strict=True)]


def rounded(path: Path, precision: torch.dtype) -> NetworkModel:
    """The model with weights as they would be after storing them in this precision."""
    model = load_network(path, torch.device("cpu"))
    weights = {name: weight.to(precision).float() for name, weight in model.network.state_dict().items()}
    model.network.load_state_dict(weights)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("treebank")
    options = parser.parse_args()
    sentences = read_treebank(options.treebank)
    trees = parse(load_network(options.model, torch.device("cpu")), sentences)
    exact = arcs_of(trees)
    print(f"float32: LAS {score(sentences, trees).las:.3f}")
    for precision in PRECISIONS:
        trees = parse(rounded(options.model, precision), sentences)
        changed = sum(one != other for one, other in zip(arcs_of(trees), exact, strict=True))
        print(
            f"{precision}: LAS {score(sentences, trees).las:.3f}, head or label of {changed:,} "
            f"of {len(exact):,} words changed, {100 * changed / len(exact):.4f} %"
        )


if __name__ == "__main__":
    main()
