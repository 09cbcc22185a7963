"""How many trees change if the weights of a model are stored in 16 bits.

python scripts/studies/accuracy/compare_precisions.py MODEL DEV.conllu
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from parser.parsing.model import Model
from parser.parsing.parse import parse
from parser.treebank.conllu import read_treebank
from parser.treebank.labels import without_subtype
from parser.treebank.sentence import Sentence

PRECISIONS = torch.float16, torch.bfloat16
Arcs = list[tuple[int, str]]
"""Head and label of each word."""


def arcs_of(model: Model, sentences: list[Sentence]) -> Arcs:
    trees = parse(model, sentences)
    return [arc for tree in trees for arc in zip(tree.heads, tree.labels, strict=True)]


def rounded(path: Path, precision: torch.dtype) -> Model:
    """The model with its weights as they are after having been stored."""
    model = Model.load(path, torch.device("cpu"))
    weights = {name: weight.to(precision).float() for name, weight in model.network.state_dict().items()}
    model.network.load_state_dict(weights)
    return model


def las(arcs: Arcs, gold: Arcs) -> float:
    """That of CoNLL 2018, in per cent."""
    pairs = zip(arcs, gold, strict=True)
    right = sum(
        head == gold_head and without_subtype(label) == without_subtype(gold_label)
        for (head, label), (gold_head, gold_label) in pairs
    )
    return 100 * right / len(gold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("treebank")
    options = parser.parse_args()
    sentences = read_treebank(options.treebank)
    gold = [arc for sentence in sentences for arc in zip(sentence.heads, sentence.labels, strict=True)]
    exact = arcs_of(Model.load(options.model, torch.device("cpu")), sentences)
    print(f"float32: LAS {las(exact, gold):.3f}")
    for precision in PRECISIONS:
        found = arcs_of(rounded(options.model, precision), sentences)
        changed = sum(one != other for one, other in zip(found, exact, strict=True))
        print(
            f"{precision}: LAS {las(found, gold):.3f}, head or label of {changed:,} "
            f"of {len(exact):,} words changed, {100 * changed / len(exact):.4f} %"
        )


if __name__ == "__main__":
    main()
