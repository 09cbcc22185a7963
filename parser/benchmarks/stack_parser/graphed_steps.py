"""The method `replay-graph`: gradients by CUDA graphs, as `training.cuda_graphs` has them in training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from parser.optimization.graphed_gradients import GraphedGradients, PaddedBatch
from parser.optimization.training_step import Phase, TrainingStep
from parser.replay.batch import Batch
from parser.replay.examples import Examples
from parser.replay.shape import Shape, fitting, shapes_of, shapes_of_epochs


class GraphedSteps:
    def __init__(self, examples: Examples, step: TrainingStep, epochs: Iterable[list[Tensor]], phase: Phase):
        """epochs: batches that tell the shapes, of other epochs than those that are measured."""
        self._examples, self._step, self._phase = examples, step, phase
        self._shapes = shapes_of_epochs(examples, epochs)
        self._graphs = GraphedGradients(step)

    def capture(self, batches: Sequence[Tensor]) -> None:
        """Capture a graph for each shape of the batches. Raises RuntimeError if one can not be captured."""
        of_shape = {
            fitting(self._shapes, own): rows
            for own, rows in zip(shapes_of(self._examples, batches), batches, strict=True)
        }
        for shape, rows in of_shape.items():
            if shape:
                padded = PaddedBatch.of(self._examples.batch(rows), shape)
                for _ in range(2):
                    self._graphs(padded)
        self._step.network.zero_grad()
        if self._graphs.failed:
            raise RuntimeError("a CUDA graph could not be captured")

    def shape_of(self, batch: Batch) -> Shape | None:
        """That to which the batch is padded; None if it has no graph."""
        return fitting(self._shapes, Shape.of(batch))

    def gradients(self, rows: Tensor) -> Tensor:
        """As `TrainingStep.gradients`, the loss alone."""
        with self._phase("scheduling"):
            batch = self._examples.batch(rows)
            shape = self.shape_of(batch)
            padded = PaddedBatch.of(batch, shape) if shape else None
        if padded is None:
            loss, _ = self._step.gradients([batch.to(self._step.inventory.kind.device)])
            return loss
        with self._phase("forward"):  # and backward: the graph has both
            loss, _ = self._graphs(padded)
        return loss

    def checked(self, rows: Tensor) -> Tensor:
        """As `gradients`, by a graph of its own that is captured and replayed, with much padding."""
        batch, graphs = self._examples.batch(rows), GraphedGradients(self._step)
        padded = PaddedBatch.of(batch, Shape.around([Shape.of(batch), *self._shapes[-1:]]))
        for _ in range(3):
            loss, _ = graphs(padded)
        return loss
