"""Truncated backpropagation through time over streams of frames, chunk by chunk.

BPTT(back + frames; frames) (Williams & Peng 1990): each chunk contains `frames` new frames. Their errors are
backpropagated through the chunk and at most `back` earlier frames, whose values are not recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from parser.batching.recurrence.backward import Chunk, WeightGradients, backward_tape
from parser.batching.recurrence.forward import Frames, Tape, forward_tape
from parser.batching.recurrence.layer_graph import (
    all_by_frame,
    components,
    first_frames,
    first_values,
    with_cached_loops,
)
from parser.batching.recurrence.weights import Weights


class Unrolled:
    """Runs a network, forward and backward, chunk by chunk.

    It refers to the tensors of the weights: after moving the weights to another device, create a new object.

    >>> weights = Weights(elman(Layer(size=3, kind="input"), 4))
    >>> unrolled = Unrolled(weights, frames=16, streams=2, back=16)
    >>> unrolled.forward({"input": torch.randn(16, 2, 3)})
    >>> unrolled.error("output").copy_(unrolled.output("output")).shape  # the gradient of half its square
    torch.Size([16, 2, 4])
    >>> unrolled.backward()
    >>> all(weight.grad is not None for weight in weights.parameters())
    True
    """

    def __init__(
        self,
        weights: Weights,
        frames: int,
        streams: int,
        back: int = 0,
        by_frame: bool = False,
        gradients_by_frame: bool = False,
        input_errors: bool = False,
        gradients: WeightGradients | None = None,
    ):
        """frames: new frames per chunk and stream; back: see the module; by_frame: compute every connection
        frame by frame, forward and backward; gradients_by_frame: also accumulate the weights' gradients frame
        by frame; input_errors: compute the errors of inputs; gradients: an object to share with other
        `Unrolled` objects of the same weights.

        The memory is that of the values and errors of frames + back frames.
        """
        if min(frames, streams) < 1 or back < 0:
            raise ValueError(f"need frames, streams >= 1 and back >= 0, not {frames}, {streams}, {back}")
        assert by_frame or not gradients_by_frame
        self._weights, self._frames, self._back, self._seen = weights, frames, back, 0
        self._gradients, self._gradients_by_frame = gradients or WeightGradients(), gradients_by_frame
        self._in_cycles = components(weights.graph)
        if by_frame:
            self._parts = all_by_frame(weights.graph)
        elif weights.like.is_cpu:
            self._parts = with_cached_loops(weights.graph, self._in_cycles, streams)
        else:
            self._parts = self._in_cycles
        self._wanted = frozenset(
            name
            for name, layer in weights.graph.layers.items()
            if not layer.is_input or (input_errors and layer.kind == "input")
        )
        first = first_frames(weights.graph, self._in_cycles, back)
        self._values = Frames(weights, first_values(weights.graph, first), frames, streams)
        self._errors = Frames(weights, self._first_errors(back), frames, streams)
        self._forward = forward_tape(weights, self._parts, self._values, frames)
        self._backward: dict[int, Tape] = {}

    @torch.no_grad()
    def forward(self, inputs: Mapping[str, Tensor]) -> None:
        """Compute the next chunk. inputs: [frames, streams, size] each, or [frames, streams] for symbols.

        Raises ValueError for missing inputs and wrong shapes.
        """
        graph = self._weights.graph
        if inputs.keys() != set(graph.inputs):
            wanted = ", ".join(graph.inputs)
            raise ValueError(f"inputs given: {', '.join(inputs) or 'none'}; inputs of the network: {wanted}")
        chunks = {name: self._values.chunk(name) for name in inputs}  # [frames, streams, size or 1] each
        for name, rows in inputs.items():
            shape = chunks[name].shape[:2] if graph.layers[name].kind == "symbols" else chunks[name].shape
            if rows.shape != shape:
                raise ValueError(f"input {name!r} must have the shape {list(shape)}, not {list(rows.shape)}")
        if self._seen:
            self._values.move()
        for name, rows in inputs.items():
            chunks[name].copy_(rows.view(chunks[name].shape))
        self._forward.run()
        self._seen += self._frames

    def output(self, layer: str) -> Tensor:
        """[frames, streams, size] The values in the last chunk; a view that the next chunk overwrites."""
        return self._values.chunk(layer)

    def error(self, layer: str) -> Tensor:
        """[frames, streams, size] The errors of a layer; a view.

        Fill in the errors of outputs before `backward`, which fills in the errors of inputs. Raises
        ValueError for layers whose errors are not computed.
        """
        if layer not in self._wanted:
            raise ValueError(
                f"{layer!r} has no errors: inputs have them with input_errors=True, symbols never"
            )
        return self._errors.chunk(layer)

    @torch.no_grad()
    def backward(self) -> None:
        """Add to the weights' gradients. The errors of the outputs must be set first, and are overwritten.

        Raises ValueError before the first `forward`.
        """
        if not self._seen:
            raise ValueError("backward before any forward")
        back = min(self._back, self._seen - self._frames)
        if back not in self._backward:
            # The tapes of the first chunks, with fewer earlier frames, are not needed again until `forget`.
            self._backward = {kept: tape for kept, tape in self._backward.items() if kept == self._back}
            first = self._first_errors(back)
            chunk = Chunk(self._weights, self._values, self._errors, self._frames, first)
            self._backward[back] = backward_tape(
                chunk, self._parts, self._gradients, self._gradients_by_frame
            )
        self._backward[back].run()

    def forget(self) -> None:
        """Start new streams: set all earlier frames to zero."""
        self._values.forget()
        self._seen = 0

    def _first_errors(self, back: int) -> dict[str, int]:
        """Like `first_frames`, but for inputs only from the first frame of the chunk itself."""
        graph = self._weights.graph
        first = first_frames(graph, self._in_cycles, back)
        return {
            layer: 0 if graph.layers[layer].is_input else frame
            for layer, frame in first.items()
            if layer in self._wanted
        }


def training_operations(weights: Weights, frames: int, streams: int, back: int) -> float:
    """Return the minimum number of floating-point operations for the products of a training step.

    The arguments are those of `Unrolled`. Errors of inputs are not computed; tables of symbols need no
    products.
    """
    graph = weights.graph
    first = first_frames(graph, components(graph), back)
    total = 0.0
    for each in graph.connections:
        source = graph.layers[each.source]
        if each.weight == "full" and source.kind != "symbols":
            product = 2.0 * streams * source.size * graph.layers[each.target].size
            # The backward pass has one for the weights, and one for the errors of the source.
            total += product * (frames + (frames - first[each.target]) * (1 if source.is_input else 2))
    return total
