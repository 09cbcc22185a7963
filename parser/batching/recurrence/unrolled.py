"""A network over streams of frames, chunk by chunk, with truncated backpropagation through time.

BPTT(back + frames; frames) (Williams & Peng 1990): each chunk has `frames` new frames, whose errors go
through these and through at most `back` before them. Values of earlier frames stay as they were computed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from parser.batching.recurrence.backward import backward_tape
from parser.batching.recurrence.components import all_by_frame, components, first_frames, first_values
from parser.batching.recurrence.forward import forward_tape
from parser.batching.recurrence.frames import Frames
from parser.batching.recurrence.gradients import Chunk, WeightGradients
from parser.batching.recurrence.tape import Tape
from parser.batching.recurrence.weights import Weights


class Unrolled:
    """Works on the weights' tensors as they were: after a move to another device, make a new one."""

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
        """frames: new ones in a chunk, of each stream. by_frame: whether every connection is computed frame
        by frame, both ways; gradients_by_frame: and each frame adds its gradients of weights by itself.
        input_errors: whether `error` of inputs is wanted. gradients: for those that share weights.

        Memory: all values and errors of frames + back frames.
        """
        if min(frames, streams) < 1 or back < 0:
            raise ValueError(f"{frames} frames of {streams} streams, errors back {back}: too few")
        assert by_frame or not gradients_by_frame
        self._weights, self._frames, self._back, self._seen = weights, frames, back, 0
        self._gradients, self._gradients_by_frame = gradients or WeightGradients(), gradients_by_frame
        self._in_cycles = components(weights.graph)
        self._parts = all_by_frame(weights.graph) if by_frame else self._in_cycles
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
        """The next chunk. inputs: [frames, streams, size] of each input, of symbols [frames, streams].

        Raises ValueError for other inputs.
        """
        self._check(inputs)
        if self._seen:
            self._values.move()
        for name, rows in inputs.items():
            chunk = self._values.chunk(name)  # [frames, streams, size or 1]
            chunk.copy_(rows.view(chunk.shape))
        self._forward.run()
        self._seen += self._frames

    def output(self, layer: str) -> Tensor:
        """[frames, streams, size] Of the last chunk, a view; the next chunk is written over it."""
        return self._values.chunk(layer)

    def error(self, layer: str) -> Tensor:
        """[frames, streams, size] A view: of an output to be filled before `backward`; of an input that
        chunk's own frames, filled by it. Raises ValueError for layers that have none."""
        if layer not in self._wanted:
            raise ValueError(f"{layer!r}: of inputs there are errors with input_errors, of symbols none")
        return self._errors.chunk(layer)

    @torch.no_grad()
    def backward(self) -> None:
        """Adds to the weights' gradients. The outputs' errors must have been written, and are used up.

        Raises ValueError if no chunk went forward.
        """
        if not self._seen:
            raise ValueError("backward before any forward")
        back = min(self._back, self._seen - self._frames)
        if back not in self._backward:
            # That of the first chunks, before which there is less, is not needed again until `forget`.
            self._backward = {kept: tape for kept, tape in self._backward.items() if kept == self._back}
            self._backward[back] = self._backward_tape(back)
        self._backward[back].run()

    def forget(self) -> None:
        """What comes next is the beginning of other streams."""
        self._values.forget()
        self._seen = 0

    def _check(self, inputs: Mapping[str, Tensor]) -> None:
        wanted = self._weights.graph.inputs
        if inputs.keys() != set(wanted):
            raise ValueError(f"inputs {', '.join(inputs) or 'none'}, but the network has {', '.join(wanted)}")
        for name, rows in inputs.items():
            chunk = self._values.chunk(name)
            symbols = self._weights.graph.layers[name].kind == "symbols"
            shape = chunk.shape[:2] if symbols else chunk.shape
            if rows.shape != shape:
                raise ValueError(f"input {name!r} is {list(rows.shape)}, and should be {list(shape)}")

    def _first_errors(self, back: int) -> dict[str, int]:
        """Of inputs those of the chunk alone: nobody asks for others."""
        graph = self._weights.graph
        first = first_frames(graph, self._in_cycles, back)
        return {
            layer: 0 if graph.layers[layer].is_input else frame
            for layer, frame in first.items()
            if layer in self._wanted
        }

    def _backward_tape(self, back: int) -> Tape:
        chunk = Chunk(self._weights, self._values, self._errors, self._frames, self._first_errors(back))
        return backward_tape(chunk, self._parts, self._gradients, self._gradients_by_frame)
