"""Scores of enhanced dependencies that are learned from one file, on another one: from gold trees, and with a
model from its trees of the gold words. `the tree itself` takes the tree for the graph.

python scripts/studies/accuracy/measure_enhanced.py TRAIN.conllu TEST.conllu
python scripts/studies/accuracy/measure_enhanced.py TRAIN.conllu TEST.conllu --model english-ewt
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from parser.enhanced.graph import EdgeCounts, Graph, collapsed_edges
from parser.enhanced.transducer import Transducer
from parser.enhanced.tree import AnnotatedTree
from parser.evaluation.evaluate import evaluate
from parser.models.loading import ModelChoice, load_models
from parser.models.named_models import find_model
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("train")
    arguments.add_argument("test")
    arguments.add_argument("--model", help="also from the trees of this model")
    options = arguments.parse_args()
    began = time.process_time()
    transducer = Transducer.learned(read_treebank(options.train))
    if transducer is None:
        arguments.error(f"{options.train}: no word has a value in DEPS")
    print(f"learned in {time.process_time() - began:.1f} CPU s")
    test = read_treebank(options.test)
    tell(
        "the tree itself",
        counted(test, ([[arc] for arc in zip(one.heads, one.labels, strict=True)] for one in test)),
    )
    began = time.process_time()
    graphs = list(of_gold_trees(transducer, test))
    seconds = time.process_time() - began
    tell("from gold trees", counted(test, graphs))
    print(f"{1e6 * seconds / sum(map(len, test)):.1f} CPU us a word")
    if options.model:
        model = load_models(ModelChoice((find_model(options.model),)))
        scores = evaluate(replace(model, transducer=transducer), test)
        tell(f"from trees of {options.model} with LAS {scores.las:.2f}", scores.enhanced)


def of_gold_trees(transducer: Transducer, sentences: Iterable[Sentence]) -> Iterator[Graph]:
    for sentence in sentences:
        yield transducer(AnnotatedTree.of(sentence, sentence.heads, sentence.labels))


def counted(test: Sequence[Sentence], graphs: Iterable[Graph]) -> EdgeCounts:
    gold = [edges for sentence in test for edges in collapsed_edges(sentence)]
    return EdgeCounts.of(gold, [edges for graph in graphs for edges in graph])


def tell(how: str, counts: EdgeCounts) -> None:
    print(f"{how}: ELAS {counts.elas:.2f}, EULAS {counts.eulas:.2f}")


if __name__ == "__main__":
    main()
