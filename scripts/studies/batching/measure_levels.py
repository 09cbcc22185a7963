"""Count the levels and the steps of replay for each sentence of a treebank, with arc-hybrid.

Non-projective trees are lifted, as in training by default.

python scripts/studies/batching/measure_levels.py en_ewt-ud-train.conllu
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any

from parser.networks.replay.examples import Examples
from parser.transitions import SYSTEMS
from parser.transitions.inventory import Inventory
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import projectivized
from parser.treebank.vocabulary import Vocabulary

SYSTEM = "arc-hybrid"


def counted(path: str) -> dict[str, Any]:
    """The numbers of levels of the stack forest, including ROOT's level, and of transitions."""
    sentences = [projectivized(sentence) for sentence in read_treebank(path)]
    vocabulary = Vocabulary.build(sentences, ["upos"])
    examples = Examples.of(Inventory.of(SYSTEMS[SYSTEM], vocabulary), vocabulary, sentences)
    levels = examples.levels.tolist()
    steps = examples.trajectories.steps.lengths.tolist()
    deepest = [count for count, level in zip(steps, levels, strict=True) if level == max(levels)]
    return {
        "sentences": f"{len(sentences):,}",
        "levels": _spread(levels),
        "steps": _spread(steps),
        "steps of the deepest": ", ".join(map(str, sorted(deepest))),
    }


def _spread(values: Sequence[int]) -> str:
    return f"median {median(values):g}, greatest {max(values)}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("treebank")
    for name, value in counted(arguments.parse_args().treebank).items():
        print(f"{name:<22}{value}")


if __name__ == "__main__":
    main()
