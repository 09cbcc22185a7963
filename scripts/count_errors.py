"""How often a parser errs before its first error in a sentence, and behind it.

    python scripts/count_errors.py runs/*/model --treebank dev.conllu

An error is a transition after which fewer arcs can become right than before, as a dynamic oracle says.
Exploration is for the states behind an error, which gold trajectories never reach. So a parser is counted
twice: as it parses, going on from its errors, and on gold trajectories, where each error is put right before
the next transition. The difference behind the first error is what errors cause; the rest is that some
sentences are harder. A parser that was trained with exploration may leave gold trajectories for others that
are as good, so that only its own count as it parses says something.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from parser.config import ExplorationSettings
from parser.machine import tune_process
from parser.networks.loss import legal_scores
from parser.parsing.model import Model
from parser.replay.examples import Examples
from parser.stepping.rollout import explore
from parser.treebank.conllu import read_treebank
from parser.treebank.pseudo_projective import projectivized
from parser.treebank.ragged import Ragged
from parser.treebank.sentence import Sentence

OWN_TRANSITIONS = ExplorationSettings(follow="errors", aggressive_probability=0.0)
BATCH = 128
"""Sentences."""


def count(model: Model, sentences: Sequence[Sentence]) -> dict[str, Tensor]:
    """[4] By the way of counting: transitions before the first error (which is one of them), those that are
    wrong, and the same behind it. sentences: with projective trees.
    """
    examples = Examples.of(model.inventory, model.vocabulary, sentences)
    found = {"parsing": torch.zeros(4, dtype=torch.long), "gold": torch.zeros(4, dtype=torch.long)}
    for rows in examples.tokens.lengths.argsort().split(BATCH):
        found["parsing"] += sum(map(_counts, _errors_in_parsing(model, examples, rows)))
        found["gold"] += sum(map(_counts, _errors_on_gold_trajectories(model, examples, rows)))
    return found


def _counts(is_wrong: Tensor) -> Tensor:
    """[4] As `count`. is_wrong: [steps] bool, of a sentence."""
    is_behind = is_wrong.cumsum(0) > is_wrong.long()
    return torch.stack(
        [part.sum() for part in (~is_behind, ~is_behind & is_wrong, is_behind, is_behind & is_wrong)]
    )


def _errors_in_parsing(model: Model, examples: Examples, rows: Tensor) -> Iterator[Tensor]:
    """[steps] bool, for each sentence."""
    tokens, gold = examples.tokens.select(rows), examples.gold.select(rows)
    trajectory = explore(model.network, model.inventory, tokens, gold, OWN_TRANSITIONS)
    own = Examples.of_trajectory(model.inventory, tokens, gold, trajectory)
    taken, optimal_labels = own.steps.values[:, 0], own.optimal_labels.values
    yield from _are_wrong(model, taken, optimal_labels, own.steps.lengths)


@torch.no_grad()
def _errors_on_gold_trajectories(model: Model, examples: Examples, rows: Tensor) -> Iterator[Tensor]:
    """[steps] bool, for each sentence."""
    batch = examples.batch(rows)
    best = legal_scores(model.network.replay(batch), batch, model.inventory).argmax(1)  # [S]
    yield from _are_wrong(model, best, batch.optimal_labels, examples.steps.lengths[rows])


def _are_wrong(model: Model, transitions: Tensor, optimal_labels: Tensor, steps: Tensor) -> list[Tensor]:
    """transitions: [S], of all sentences. optimal_labels: [S, kinds]. steps: [sentences] their numbers."""
    is_optimal = model.inventory.with_optimal_labels(optimal_labels)  # [S, transitions]
    is_wrong = ~is_optimal.gather(1, transitions[:, None]).squeeze(1)
    return Ragged(is_wrong, steps).unflatten()


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--treebank", required=True, type=Path)
    given = arguments.parse_args()
    tune_process()
    sentences = [projectivized(sentence) for sentence in read_treebank(str(given.treebank))]
    for path in given.models:
        model = Model.load(path, torch.device("cpu"))
        for name, counts in count(model, sentences).items():
            before, wrong_before, behind, wrong_behind = counts.tolist()
            print(
                f"{path}, {name}: {wrong_before / before:.2%} of {before:,} transitions are wrong up to the "
                f"first error, {wrong_behind / behind:.2%} of {behind:,} behind it"
            )


if __name__ == "__main__":
    main()
