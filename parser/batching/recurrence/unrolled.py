"""A network over streams of frames, chunk by chunk, with truncated backpropagation through time.

BPTT(back + frames; frames) (Williams & Peng 1990): each chunk has `frames` new frames, whose errors go
through these and through at most `back` before them. Values of earlier frames stay as they were computed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from parser.batching.recurrence.backward import Chunk, backward_tape
from parser.batching.recurrence.components import all_by_frame, components, first_frames, first_values
from parser.batching.recurrence.forward import forward_tape
from parser.batching.recurrence.frames import Frames
from parser.batching.recurrence.gradients import Gradients
from parser.batching.recurrence.tape import Tape
from parser.batching.recurrence.weights import Weights


class Unrolled:
    def __init__(
        self,
        weights: Weights,
        frames: int,
        streams: int,
        back: int = 0,
        by_frame: bool = False,
        input_errors: bool = False,
        gradients: Gradients | None = None,
    ):
        """frames: new ones in a chunk, of each stream. by_frame: whether every connection is computed frame
        by frame. input_errors: whether `error` of inputs is wanted. gradients: for those that share weights.

        Memory: all values and errors of frames + back frames.
        """
        self._weights, self._frames, self._back = weights, frames, back
        self._seen = 0
        self._gradients = gradients or Gradients()
        graph = weights.graph
        self._in_cycles = components(graph)
        self._parts = all_by_frame(graph) if by_frame else self._in_cycles
        wanted = [
            name
            for name, layer in graph.layers.items()
            if not layer.is_input or (input_errors and layer.kind == "input")
        ]
        self._wanted = frozenset(wanted)
        first = first_frames(graph, self._in_cycles, back)
        self._values = Frames(weights, first_values(graph, first), frames, streams)
        self._errors = Frames(weights, {name: first[name] for name in wanted}, frames, streams)
        self._forward = forward_tape(weights, self._parts, self._values, frames)
        self._backward: dict[int, Tape] = {}

    @torch.no_grad()
    def forward(self, inputs: Mapping[str, Tensor]) -> None:
        """The next chunk. inputs: [frames, streams, size] of each input, of symbols [frames, streams]."""
        if self._seen:
            self._values.move()
        for name in self._weights.graph.inputs:
            chunk = self._values.chunk(name)  # [frames, streams, size or 1]
            chunk.copy_(inputs[name].view(chunk.shape))
        self._forward.run()
        self._seen += self._frames

    def output(self, layer: str) -> Tensor:
        """[frames, streams, size] Of the last chunk; the next one is written over it."""
        return self._values.chunk(layer)

    def error(self, layer: str) -> Tensor:
        """[frames, streams, size] Of an output: to be filled before `backward`; of an input: filled by it."""
        return self._errors.chunk(layer)

    @torch.no_grad()
    def backward(self) -> None:
        """Adds to the weights' gradients. The outputs' errors must have been written, and are used up."""
        back = min(self._back, self._seen - self._frames)
        if back not in self._backward:
            self._backward[back] = self._backward_tape(back)
        self._backward[back].run()

    def forget(self) -> None:
        """What comes next is the beginning of other streams."""
        self._values.forget()
        self._seen = 0

    def _backward_tape(self, back: int) -> Tape:
        first = first_frames(self._weights.graph, self._in_cycles, back)
        chunk = Chunk(
            self._weights,
            self._values,
            self._errors,
            self._frames,
            {layer: frame for layer, frame in first.items() if layer in self._wanted},
        )
        return backward_tape(chunk, self._parts, self._gradients)
