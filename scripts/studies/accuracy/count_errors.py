"""Count a parser's errors up to its first error in a sentence, and after it.

    python scripts/studies/accuracy/count_errors.py runs/*/model --treebank dev.conllu

An error is a transition after which fewer arcs can become correct than before, according to a dynamic oracle.
Exploration is meant for the states after an error, which gold trajectories never reach. So errors are counted
twice: in parsing, which continues from the errors, and on gold trajectories, where each error is corrected
before the next transition. The difference after the first error is caused by errors; the rest is due to
sentences being harder than others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from parser.batching.ragged import Ragged
from parser.models.network_model import NetworkModel, load_network
from parser.networks.loss import legal_scores
from parser.networks.replay.examples import Examples
from parser.networks.stepping.exploration import ExplorationSettings, explore
from parser.system.pytorch import tune_process
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import DynamicOracle, Trajectory, record
from parser.transitions.state import State
from parser.treebank.batches import batches_by_length
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import projectivized

OWN_TRANSITIONS = ExplorationSettings(follow="errors", aggressive_probability=0.0)
CPU = torch.device("cpu")


def count(model: NetworkModel, examples: Examples) -> dict[str, Tensor]:
    """[4] By what is followed: the number of transitions up to the first error, the number of wrong ones, and
    the same two numbers after it. Raises ValueError without a dynamic oracle.
    """
    sums = {"parsing": torch.zeros(4, dtype=torch.long), "gold": torch.zeros(4, dtype=torch.long)}
    for rows in batches_by_length(examples.tokens.lengths):
        tokens, gold = examples.tokens.select(rows), examples.gold.select(rows)
        followed = {
            "parsing": explore(model.network, model.inventory, tokens, gold, OWN_TRANSITIONS),
            "gold": gold_trajectory(model.inventory, gold, examples.trajectories.steps.select(rows)),
        }
        for name, trajectory in followed.items():
            along = Examples.of_trajectory(model.inventory, tokens, gold, trajectory)
            sums[name] += sum(map(counts, _errors_along(model, along)))
    return sums


def gold_trajectory(inventory: Inventory, gold: Ragged, steps: Ragged) -> Trajectory:
    """A trajectory with all optimal transitions at each step. gold, steps: as in `Examples`."""
    heads, labels = (Ragged(column, gold.lengths) for column in gold.values.unbind(1))
    oracle = DynamicOracle(inventory, heads, labels, CPU)
    transitions = pad_sequence(
        [of_sentence[:, 0] for of_sentence in steps.unflatten()], padding_value=inventory.no_op
    )
    step = iter(transitions)  # [steps, batch]

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        return next(step), oracle.optimal_labels(state, legal)

    return record(inventory, State.initial(gold.lengths), choose)


@torch.no_grad()
def _errors_along(model: NetworkModel, examples: Examples) -> list[Tensor]:
    """[steps] bool for each sentence: whether the parser's best transition is wrong."""
    batch = examples.batch(torch.arange(len(examples)))
    best = legal_scores(model.network.replay(batch), batch, model.inventory).argmax(1)  # [S]
    is_optimal = model.inventory.with_optimal_labels(batch.optimal_labels)  # [S, transitions]
    is_wrong = ~is_optimal.gather(1, best[:, None]).squeeze(1)
    return Ragged(is_wrong, examples.trajectories.steps.lengths).unflatten()


def counts(is_wrong: Tensor) -> Tensor:
    """[4] The numbers of `count` for a sentence. is_wrong: [steps] bool."""
    is_after = is_wrong.cumsum(0) > is_wrong.long()
    parts = ~is_after, ~is_after & is_wrong, is_after, is_after & is_wrong
    return torch.stack([part.sum() for part in parts])


def in_words(before: int, wrong_before: int, after: int, wrong_after: int) -> str:
    return (
        f"{wrong_before / max(1, before):.2%} of {before:,} transitions are wrong up to the first error, "
        f"{wrong_after / max(1, after):.2%} of {after:,} after it"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--treebank", required=True, type=Path)
    given = arguments.parse_args()
    tune_process()
    sentences = [projectivized(sentence) for sentence in read_treebank(str(given.treebank))]
    for path in given.models:
        try:
            model = load_network(path, torch.device("cpu"))
            counted = count(model, Examples.of(model.inventory, model.vocabulary, sentences))
        except ValueError as error:
            sys.exit(f"{path}: {error}")
        for name, of_model in counted.items():
            print(f"{path}, {name}: {in_words(*of_model.tolist())}")


if __name__ == "__main__":
    main()
