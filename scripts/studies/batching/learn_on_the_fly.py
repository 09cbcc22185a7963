"""Train a tagger or a Tree-LSTM with several batching methods, to verify that all learn the same.

python scripts/studies/batching/learn_on_the_fly.py tagger train.txt dev.txt --methods agenda none --epochs 2
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from parser.batching.operations.lstm import Grain
from parser.batching.operations.operation_graph import GRAPH_METHODS, Graph
from parser.batching.operations.value import Value
from parser.benchmarks.embedding_tables import optimizers
from parser.benchmarks.operation_training import in_batches
from parser.benchmarks.tagged_text import TagVocabulary, numbered, read_tagged_text
from parser.benchmarks.taggers.bilstm_tagger_plugin import (
    BiLSTMTaggerSettings,
    RecordedTagger,
    Tagger,
    tagger_sizes,
)
from parser.benchmarks.tree_lstm.labelled_trees import read_labelled_trees
from parser.benchmarks.tree_lstm.network import RecordedTreeLSTM, TreeLSTM
from parser.benchmarks.tree_lstm.tree_lstm_plugin import TreeLSTMSettings, prepare_tree

BATCH = 64
LEARNING_RATE = 1e-3


class Task(NamedTuple):
    network: nn.Module
    train: list[Any]
    dev: list[Any]
    record: Callable[[Graph, Any], Sequence[Value]]
    """The losses of an example."""
    predict: Callable[[Graph, Any], tuple[Sequence[Value], Sequence[int]]]
    """The scores of an example's labels, and the labels."""


def tagger(train_file: Path, dev_file: Path, grain: Grain) -> Task:
    """Accuracy is over words."""
    settings = BiLSTMTaggerSettings()
    train, dev = read_tagged_text(train_file), read_tagged_text(dev_file)
    vocabulary = TagVocabulary.of(train, settings.rare)
    network = Tagger(tagger_sizes(settings, vocabulary))
    recorded = RecordedTagger(network, grain)
    train_sentences, dev_sentences = (
        [vocabulary.number(sentence, spell=False) for sentence in sentences] for sentences in (train, dev)
    )
    return Task(
        network,
        train_sentences,
        dev_sentences,
        recorded.losses,
        lambda graph, sentence: (recorded.scores(graph, sentence), sentence.labels),
    )


def trees(train_file: Path, dev_file: Path, grain: Grain) -> Task:
    """Accuracy is over whole sentences."""
    settings = TreeLSTMSettings()
    train, dev = read_labelled_trees(train_file), read_labelled_trees(dev_file)
    words = numbered(word for tree in train for word in tree.words)
    labels = 1 + max(max(tree.labels) for tree in train)
    network = TreeLSTM(len(words) + 1, labels, settings.word_size, settings.hidden_size)
    recorded = RecordedTreeLSTM(network, grain)
    return Task(
        network,
        [prepare_tree(tree, words) for tree in train],
        [prepare_tree(tree, words) for tree in dev],
        recorded.losses,
        lambda graph, tree: ([recorded.scores(graph, tree)], tree.labels[-1:].tolist()),
    )


TASKS = {"tagger": tagger, "trees": trees}


def learn(task: Task, method: str, epochs: int) -> None:
    steps = optimizers(task.network, LEARNING_RATE)
    order = random.Random(1)
    for epoch in range(1, epochs + 1):
        examples = list(task.train)
        order.shuffle(examples)
        began, total, count = time.perf_counter(), 0.0, 0
        for batch in in_batches(examples, BATCH):
            graph = Graph(method, torch.device("cpu"))
            losses = [value for example in batch for value in task.record(graph, example)]
            total, count = total + float(graph.values(losses).sum()), count + len(losses)
            task.network.zero_grad()
            graph.backward(losses)
            for step in steps:
                step.step()
        seconds = time.perf_counter() - began
        print(
            f"{method:>8}  epoch {epoch}  loss {total / count:.4f}  dev accuracy {accuracy(task, method):.2%}"
            f"  {len(examples) / seconds:,.0f} examples/s",
            flush=True,
        )


def accuracy(task: Task, method: str) -> float:
    right = total = 0
    for batch in in_batches(task.dev, BATCH):
        graph = Graph(method, torch.device("cpu"), gradients=False)
        predicted = [task.predict(graph, example) for example in batch]
        scores = graph.values([value for values, _ in predicted for value in values])
        labels = torch.tensor([label for _, own in predicted for label in own])
        right += int((scores.argmax(1) == labels).sum())
        total += len(labels)
    return right / total


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("task", choices=TASKS)
    arguments.add_argument("train", type=Path)
    arguments.add_argument("dev", type=Path)
    arguments.add_argument("--methods", nargs="+", choices=GRAPH_METHODS, default=["agenda", "none"])
    arguments.add_argument("--grain", choices=["cell", "operation"], default="cell")
    arguments.add_argument("--epochs", type=int, default=1)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    for method in given.methods:
        torch.manual_seed(1)
        learn(TASKS[given.task](given.train, given.dev, given.grain), method, given.epochs)


if __name__ == "__main__":
    main()
