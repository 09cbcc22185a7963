"""Write the batches and the weights of an experiment for programs that are compared with ours.

python scripts/studies/batching/write_problem.py configs/speed/on-the-fly.yaml trees FOLDER --batch-size 64

The folder is described in `scripts/same_work.py`. It contains an epoch, the weights before the first
step, and the loss of the first batch before and after a step on it, with which other programs can check that
they compute the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

import same_work

from parser.commands.speed import read_config
from parser.speed.measuring.cells import validated
from parser.speed.tasks.discovery import find
from parser.speed.tasks.feature_parser.dynamic_oracle import FeatureSentence
from parser.speed.tasks.graphs.network import GraphBatch
from parser.speed.tasks.plugin import AnyPlugin, Setup
from parser.speed.tasks.tagged_text import TaggedSentence
from parser.speed.tasks.tree_lstm.network import BinaryTree
from parser.system.console import say

Array = NDArray[Any]
RATES = "learning_rate", "momentum"
"""A plugin's settings for Adam."""


class Written(NamedTuple):
    """What a plugin adds to a problem."""

    ragged: Mapping[str, Sequence[Sequence[float] | Array]]
    """The numbers of each example, or of each batch."""
    arrays: Mapping[str, Array] = {}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path, help="a speed config")
    arguments.add_argument("experiment", help="one of its experiments")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--batch-size", type=int, required=True)
    given = arguments.parse_args()
    plugin, settings = prepared(given.config, given.experiment, "none", given.batch_size)
    if plugin.name not in WRITERS:
        arguments.error(f"no writer for {plugin.name}; there are those of {', '.join(WRITERS)}")
    network: nn.Module = getattr(plugin, "_tagger", None) or plugin._network  # type: ignore[attr-defined]
    batches = plugin.batches()
    written = WRITERS[plugin.name](network, batches)
    weights = {name: weight.numpy().copy() for name, weight in network.state_dict().items()}
    rates = {name: np.array(getattr(settings, name)) for name in RATES if hasattr(settings, name)}
    arrays = {"batch_size": np.array(given.batch_size), "losses": losses(plugin), **rates, **written.arrays}
    same_work.write(given.folder, arrays, written.ragged, weights)
    say(f"{given.folder}: {len(batches)} batches")


def prepared(
    config: Path, experiment: str, method: str, batch_size: int, threads: int = 1
) -> tuple[AnyPlugin, BaseModel]:
    """A plugin prepared for training by a method with the settings of an experiment, and the settings.

    Raises SystemExit if it cannot be measured here.
    """
    speed_config = read_config(config)
    if experiment not in speed_config.experiments:
        sys.exit(f"{config} has no experiment {experiment}; it has {', '.join(speed_config.experiments)}")
    asked = speed_config.experiments[experiment]
    plugin = find(asked.plugin)()
    settings = validated(type(plugin), asked.settings)
    cpu = torch.device("cpu")
    torch.set_num_threads(threads)
    setup = Setup(
        settings, method, "train", batch_size, cpu, speed_config.seed, lambda _: nullcontext(), threads
    )
    if reason := plugin.skip(setup):
        sys.exit(reason)
    plugin.prepare(setup)
    return plugin, settings


def losses(plugin: Any) -> Array:
    """[2] The losses of the first batch, before and after a step on it."""
    messages = getattr(plugin, "messages", None)
    training, first = messages or plugin._training, plugin.batches()[0]
    batch = first[:1] if messages else first  # with messages, several batches are a run

    def loss() -> float:
        given = batch if messages else [batch]
        return float(training.loss_and_gradients(given)[0])

    before = loss()
    plugin.run(batch)
    return np.array([before, loss()])


def trees(network: Any, batches: Sequence[Sequence[BinaryTree]]) -> Written:
    """Binary trees, with nodes numbered as in `BinaryTree`."""
    every = list(chain.from_iterable(batches))
    return Written(
        {name: [getattr(tree, name) for tree in every] for name in ("words", "labels", "left", "right")}
    )


def tagged_sentences(network: Any, batches: Sequence[Sequence[TaggedSentence]]) -> Written:
    """Tagged sentences. `spellings` has the characters of each word, none for words that are not spelled."""
    every = list(chain.from_iterable(batches))
    ragged: dict[str, Any] = {
        "words": [sentence.words for sentence in every],
        "labels": [sentence.labels for sentence in every],
        "spellings": [
            sentence.spellings.get(position, [])
            for sentence in every
            for position in range(len(sentence.words))
        ],
    }
    return Written(ragged)


def feature_sentences(network: Any, batches: Sequence[Sequence[FeatureSentence]]) -> Written:
    """Sentences with the parts of `FeatureSentence`."""
    every = list(chain.from_iterable(batches))
    names = ("words", "tags", "heads", "labels", "chances")
    arrays = {"label_count": np.array(network.labels), "explore": np.array(network.settings.explore)}
    ragged = {name: [getattr(sentence, name) for sentence in every] for name in names}
    return Written(ragged, arrays)


def graphs(network: Any, batches: Sequence[Sequence[GraphBatch]]) -> Written:
    """Each batch is a graph: its edges' sources, kinds and targets, and the rows of `GraphBatch`."""
    every = list(chain.from_iterable(batches))
    ragged = {
        "features": [batch.features.flatten().numpy() for batch in every],
        "graph": [batch.graph.numpy() for batch in every],
        "sources": [torch.cat(batch.sources).numpy() for batch in every],
        "kinds": [
            np.repeat(np.arange(len(batch.sources)), [len(of_kind) for of_kind in batch.sources])
            for batch in every
        ],
        "targets": [batch.targets.numpy() for batch in every],
        "answers": [batch.answers.numpy() for batch in every],
    }
    arrays = {"steps": np.array(network.steps), "kind_count": np.array(len(network.propagation.edges))}
    return Written(ragged, arrays)


WRITERS: dict[str, Callable[[Any, Any], Written]] = {
    "tree_lstm": trees,
    "bilstm_tagger": tagged_sentences,
    "bilstm_char_tagger": tagged_sentences,
    "transition_parser": feature_sentences,
    "graph_network": graphs,
}


if __name__ == "__main__":
    main()
