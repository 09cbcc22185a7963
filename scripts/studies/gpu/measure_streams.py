"""A stage: the LSTMs over stack, buffer and history on three streams of one graph, against one stream.

This runs a copy of the training step's forward and backward pass, on batches that are not padded. Each LSTM
fills only a part of a GPU; whether three streams are faster decides whether the program should have them.

python scripts/studies/gpu/measure_streams.py 256 1024
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.runner import report
from gpu_visit.training import Run, batch_sizes

from parser.batching.forest_lstm import lstm_over_forest
from parser.batching.lstm import outputs_of
from parser.batching.ragged import flatten, gather_rows
from parser.networks.replay.batch import Batch
from parser.training.batches import epoch_batches, training_batch

SHARES = 0.25, 0.5, 0.75
"""Which batches of an epoch are run, by their length."""
TURNS, REPLAYS = 9, 20
"""Replays follow each other in a turn."""
LARGEST_DIFFERENCE = 1e-3
"""Of a gradient, as a share of the largest one of its weight."""


def main() -> None:
    sides: list[torch.cuda.Stream] = []
    for visited, rehearse, _, config in batch_sizes(__doc__, graphs=False):
        # PyTorch has only some thirty streams: more would share them with these.
        sides = sides or [torch.cuda.Stream(visited.device) for _ in range(3)]
        run = Run.begin(config, visited.device)
        batches = epoch_batches(run.data, run.config.training, epoch=1)
        lengths = run.data.train.tokens.lengths
        batches.sort(key=lambda rows: float(lengths[rows].float().mean()))
        shares, turns, replays = (SHARES[:1], 1, 1) if rehearse else (SHARES, TURNS, REPLAYS)
        for share in shares:
            batch = training_batch(run.training.step, run.data, batches[int(share * len(batches))])
            one, three = GraphedStep(run, batch, []), GraphedStep(run, batch, sides)
            _compare(one, three, turns, replays)


def _compare(one: GraphedStep, three: GraphedStep, turns: int, replays: int) -> None:
    """Report the times and the gradients of a batch by one stream and by three."""
    batch = one.batch
    # The first turn warms up.
    times = [(one.milliseconds(replays), three.milliseconds(replays)) for _ in range(1 + turns)]
    by_one, by_three = (median(each) for each in zip(*times[1:], strict=True))
    differences = [
        float((gradient - other).abs().max() / gradient.abs().max().clamp(min=1e-12))
        for gradient, other in zip(one.gradients, three.gradients, strict=True)
    ]
    report(
        batch_size=batch.sentences,
        words=batch.tokens.words,
        levels=len(batch.forest.levels),
        milliseconds={"one stream": round(by_one, 4), "three streams": round(by_three, 4)},
        times_as_fast=round(by_one / by_three, 4),
        largest_difference_of_gradients=max(differences),
        is_same=max(differences) < LARGEST_DIFFERENCE,
    )


@dataclass
class GraphedStep:
    """Forward and backward pass of a batch as a graph, on one stream or on three."""

    run: Run
    batch: Batch
    sides: Sequence[torch.cuda.Stream]
    """Three streams, or none for a single one."""
    gradients: Sequence[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        weights = self.run.model.network.parameters()
        self._weights = [weight for weight in weights if weight.requires_grad]
        self._graph = torch.cuda.CUDAGraph()
        self._compute()  # not captured: libraries are initialised
        torch.cuda.synchronize()
        with torch.cuda.graph(self._graph):
            self.gradients = self._compute()

    def milliseconds(self, replays: int) -> float:
        """The mean time of a replay, of several one after the other."""
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        for _ in range(replays):
            self._graph.replay()
        ended.record()
        torch.cuda.synchronize()
        return began.elapsed_time(ended) / replays

    def _compute(self) -> Sequence[Tensor]:
        """The gradients of all weights. Without AccumulateGrad, which would run on another stream."""
        network, batch = self.run.model.network, self.batch
        words = network.encode(batch.tokens)
        # Kept until all streams are joined, so that their memory is not reused before.
        states = self._side_by_side(words.table)
        scores = network.score(states[0] + states[1] + states[2])
        loss = network.loss(scores, words, batch, self.run.model.inventory).total
        gradients = torch.autograd.grad(loss, self._weights, allow_unused=True)
        for side in self.sides:  # their backward passes
            torch.cuda.current_stream().wait_stream(side)
        pairs = zip(gradients, self._weights, strict=True)
        return [torch.zeros_like(weight) if gradient is None else gradient for gradient, weight in pairs]

    def _side_by_side(self, table: Tensor) -> list[Tensor]:
        """[S, hidden] each: the projected states of stack, buffer and history. table: [W + 2, token]"""
        network, batch = self.run.model.network, self.batch

        def stack() -> Tensor:
            nodes = lstm_over_forest(network.stack, gather_rows(table, batch.node_vectors), batch.forest)
            return gather_rows(network.linear_with_dropout(network.from_stack, nodes), batch.top_node)

        def buffer() -> Tensor:
            return gather_rows(network.project_buffer(table, batch.buffer_tokens), batch.buffer_row)

        def history() -> Tensor:
            weight = network.transition_embeddings.weight
            groups = [outputs_of(network.history, gather_rows(weight, group)) for group in batch.history]
            states = gather_rows(flatten(groups), batch.step)
            return network.linear_with_dropout(network.from_history, states)

        parts: list[Callable[[], Tensor]] = [stack, buffer, history]
        main = torch.cuda.current_stream()
        vectors = []
        for number, part in enumerate(parts):
            on_side: AbstractContextManager[object] = nullcontext()
            if self.sides:
                self.sides[number].wait_stream(main)
                on_side = torch.cuda.stream(self.sides[number])
            with on_side:
                vectors.append(part())
        for side in self.sides:
            main.wait_stream(side)
        return vectors


if __name__ == "__main__":
    main()
