"""Measure how fast a recurrent network could train, and does: products, elementwise passes, and all.

The bound is the time of the products alone, at the shapes of the network, plus one pass for each elementwise
operation of the graph, on tensors that stay in the cache. MFU is the rate of product operations as a share of
the speed of large products. All are measured in turns; the best CPU times count.

python scripts/studies/batching/measure_recurrence_bound.py --network peephole-lstm --sizes 512 --streams 64
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import in_turns, large_products, processor_seconds

from parser.batching.functional import add_transposed_product, write_product
from parser.batching.recurrence.backward import ACTIVATION_GRADIENTS
from parser.batching.recurrence.examples import EXAMPLES, with_scores
from parser.batching.recurrence.forward import ACTIVATIONS, is_only_added
from parser.batching.recurrence.layer_graph import Layer, LayerGraph, components, first_frames
from parser.batching.recurrence.unrolled import training_operations
from parser.batching.recurrence.weights import Weights
from parser.speed.tasks.language_model.network import RECURRENCE_METHODS, LayeredModel

FRAMES = 1024
"""The number of frames of all streams in a step."""
CACHED = 32 * 1024
"""Elements of a tensor that stays in the cache."""
TURNS, REPETITIONS = 15, 5
Call = Callable[[], object]


class Product(NamedTuple):
    rows: int
    inner: int
    columns: int
    times: int
    """The number of such products in a step."""
    over_rows: bool
    """Whether the product is the gradient of a weight, summed over the rows."""


@torch.no_grad()
def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--network", choices=EXAMPLES, default="peephole-lstm")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[128, 256, 512, 1024])
    arguments.add_argument("--streams", type=int, nargs="+", default=[64])
    given = arguments.parse_args()
    torch.set_num_threads(1)
    columns = ("products", "elementwise", "bound", "measured", "possible MFU", "MFU", "of the bound")
    print(f"{'units':>6}{'streams':>8}" + "".join(f"{name:>14}" for name in columns))
    for size in given.sizes:
        for streams in given.streams:
            measure(given.network, size, streams)


def measure(network: str, size: int, streams: int) -> None:
    graph = with_scores(EXAMPLES[network](Layer(size=size, kind="symbols"), size), size)
    weights, frames = Weights(graph), FRAMES // streams
    products = [(product.times, call_of(product)) for product in products_of(weights, frames, streams)]
    elements = elements_of(weights, frames, streams)
    kernels = {name: kernel_of(name) for name in elements}
    model = LayeredModel(weights, frames, streams, frames, RECURRENCE_METHODS["both"])
    words = torch.randint(size, (2, frames, streams))  # [inputs and targets, frames, streams]
    work: dict[str, Callable[[], float]] = {
        "products": lambda: sum(times * processor_seconds(call, 1) for times, call in products),
        "elementwise": lambda: sum(
            processor_seconds(kernels[name], REPETITIONS) * count / CACHED for name, count in elements.items()
        ),
        "whole": lambda: processor_seconds(partial(step, model, weights, words), 1),
    }
    large = large_products()
    turns = list(in_turns({**work, "large": large}, TURNS))
    multiplied, passed, whole = (min(found[name] for found in turns) for name in work)
    fastest, speed = multiplied + passed, max(found["large"] for found in turns)
    needed = training_operations(weights, frames, streams, frames) / speed
    times = "".join(f"{1e3 * each:>11.2f} ms" for each in (multiplied, passed, fastest, whole))
    shares = "".join(f"{each:>14.3f}" for each in (needed / fastest, needed / whole, fastest / whole))
    print(f"{size:>6}{streams:>8}{times}{shares}")


def step(model: LayeredModel, weights: Weights, words: Tensor) -> None:
    model.forward(words[0])
    model.loss(words[1])
    for parameter in weights.parameters():
        parameter.grad = None
    model.backward()


def products_of(weights: Weights, frames: int, streams: int) -> Iterator[Product]:
    graph = weights.graph
    first = first_frames(graph, components(graph), frames)
    for bundle in weights.bundles:
        reached = frames - min(first[layer] for layer in bundle.layers)
        for source in bundle.sources:
            if weights.is_table(source):
                continue
            size = graph.layers[source.layer].size
            times, rows = (frames, streams) if source.in_cycle else (1, frames * streams)
            yield Product(rows, size, bundle.width, times, False)
            if not graph.layers[source.layer].is_input:
                times, rows = (reached, streams) if source.in_cycle else (1, reached * streams)
                yield Product(rows, bundle.width, size, times, False)
            yield Product(reached * streams, bundle.width, size, 1, True)


def call_of(product: Product) -> Call:
    left = torch.randn(product.rows, product.inner)
    if product.over_rows:
        right = torch.randn(product.rows, product.columns)
        return partial(add_transposed_product, torch.zeros(product.inner, product.columns), left, right)
    right, outputs = torch.randn(product.columns, product.inner), torch.empty(product.rows, product.columns)
    return partial(write_product, outputs, left, right)


def elements_of(weights: Weights, frames: int, streams: int) -> Counter[str]:
    """The elements of a step by the name of their kernel: the least that the graph's definition needs."""
    graph, found = weights.graph, Counter[str]()
    first = first_frames(graph, components(graph), frames)
    for name, layer in graph.layers.items():
        if layer.is_input:
            continue
        forward, backward = layer.size * frames * streams, layer.size * (frames - first[name]) * streams
        into = graph.into(name)
        symbols = sum(graph.layers[each.source].kind == "symbols" for each in into)
        diagonal = sum(each.weight == "diagonal" for each in into)
        found["rows of a table"] += forward * symbols
        products = sum(is_only_added(graph, each.source) for each in into)
        terms = sum(each.weight != "full" for each in into) - products
        first_is_free = products == 0 and terms == len(into)
        found["multiplication and addition"] += forward * (terms - first_is_free) + backward * diagonal
        found["multiplication and addition"] += backward * _passes_of_errors(graph, name)
        found["sum"] += backward * graph.has_bias(name)
        if layer.activation != "identity":
            found[layer.activation] += forward
            found[f"backward {layer.activation}"] += backward
        if layer.output:
            found["logarithm of softmax"] += forward
            found["exponential"] += forward
    return found


def _passes_of_errors(graph: LayerGraph, layer: str) -> int:
    """Multiplications and additions for the errors of a layer; one contribution without a factor is free."""
    out = graph.out_of(layer)
    passes = sum(each.weight != "full" for each in out)
    plain = any(each.weight == "identity" and graph.layers[each.target].kind == "additive" for each in out)
    return passes - (plain and passes == len(out))


def kernel_of(name: str) -> Call:
    """A pass over `CACHED` elements."""
    tensors = torch.rand(4, CACHED // 512, 512)  # [operands, rows, columns]
    first, second, third, out = tensors
    if name in ACTIVATIONS:
        return partial(ACTIVATIONS[name], first, out)
    if name.startswith("backward "):
        return partial(ACTIVATION_GRADIENTS[name.removeprefix("backward ")], first, second, out)
    return {
        "rows of a table": partial(torch.index_select, first, 0, torch.arange(len(first)), out=out),
        "multiplication and addition": partial(torch.addcmul, first, second, third, out=out),
        "sum": partial(torch.sum, first, 0),
        "logarithm of softmax": partial(torch.log_softmax, first, -1, out=out),
        "exponential": partial(torch.exp, first, out=out),
    }[name]


if __name__ == "__main__":
    main()
