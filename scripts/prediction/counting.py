"""Counts of training steps and of parsing, on the simulated GPU or on this CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from measuring import least_seconds
from simulated_cuda.device import SimulatedCuda
from simulated_cuda.kernels import LAUNCHES_NOTHING, name_of
from simulated_cuda.work import OperatorCall, call_of
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd import Function
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from parser.models.settings import ParserSettings
from parser.networks.replay.making import Selection
from parser.speed.tasks.plugin import Mode, Setup
from parser.speed.tasks.stack_parser.stack_parser_plugin import (
    REPLAY_GRAPH,
    StackParserPlugin,
    StackParserSettings,
)
from prediction.model import Step

PAPER_NETWORK = {
    "word_size": 32,
    "tag_sizes": {"upos": 12},
    "token_size": 60,
    "hidden_size": 200,
    "layers": 2,
    "transition_size": 48,
}
"""The network sizes of Ding & Koehn 2019."""
PERCENTILES = 0.1, 0.3, 0.5, 0.7, 0.9
"""Percentiles of the lengths of batches at which batches are counted."""
PREPARATION_SECONDS = 0.5
"""The least time spent on measuring the preparation of a batch."""


class Cell:
    """A method of the StackLSTM parser with a batch size, on a device."""

    def __init__(
        self, method: str, mode: Mode, size: int, device: torch.device, settings: StackParserSettings
    ):
        self.setup = Setup(settings, method, mode, size, device, 1, lambda name: nullcontext())
        self.plugin = StackParserPlugin()
        self.plugin.prepare(self.setup)

    def chosen(self) -> list[Tensor]:
        """Batches of different lengths."""
        batches, lengths = self.plugin.batches(), self.plugin._examples.tokens.lengths
        if self.setup.mode == "infer":
            return batches[:1]
        by_length = sorted(batches, key=lambda rows: float(lengths[rows].float().mean()))
        return [by_length[int(share * len(by_length))] for share in PERCENTILES]

    def repetitions(self, rows: Tensor) -> tuple[int, int]:
        """The number of levels in a batch's stack forest, and the number of its steps."""
        examples = self.plugin._examples
        return int(examples.levels[rows].max()), int(examples.trajectories.steps.lengths[rows].max())

    def preparation(self, rows: Tensor) -> float:
        """Seconds that this machine needs for the host's part of making a batch, with the copy for the
        upload."""
        if self.setup.mode == "infer":
            return 0.0
        with _disable_current_modes(), torch._C.DisableTorchFunction():  # simulating the GPU takes time
            return least_seconds(lambda: self._prepared(rows).map(torch.clone), PREPARATION_SECONDS)

    def _prepared(self, rows: Tensor) -> Selection:
        examples = self.plugin._examples
        own = examples.shape(rows)
        common = self.plugin._graphed.shape_for(own) if self.setup.method == REPLAY_GRAPH else None
        return examples.select(rows, own, common)


def stack_parser_settings(treebank: str, network: Mapping[str, Any]) -> StackParserSettings:
    parser = ParserSettings.model_validate({"network": dict(network)})
    return StackParserSettings(treebank=treebank, parser=parser, trained_batches=0)


def count_on_gpu(cell: Cell, cuda: SimulatedCuda, rows: Tensor) -> Step:
    """Counts of the cell's second run: the first makes the optimizer's state."""
    cell.plugin.run(rows)
    preparation = cell.preparation(rows)
    assert cuda.recorded is not None
    cuda.recorded.clear()
    cuda.replayed.clear()
    with counted_functions() as functions:
        cell.plugin.run(rows)
    return Step(list(cuda.recorded), len(functions), preparation, in_graph=list(cuda.replayed))


def count_on_cpu(cell: Cell, rows: Tensor) -> Step:
    cell.plugin.run(rows)
    recorder = _Recorder()
    with counted_functions() as functions, recorder:
        cell.plugin.run(rows)
    return Step(recorder.calls, len(functions), 0.0)


class _Recorder(TorchDispatchMode):
    """Records all operators that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[OperatorCall] = []

    def __torch_dispatch__(
        self,
        operator: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        result = operator(*args, **kwargs)
        if not (operator.is_view or name_of(operator) in LAUNCHES_NOTHING):
            self.calls.append(call_of(operator, args, kwargs, result))
        return result


@contextmanager
def counted_functions() -> Iterator[list[None]]:
    """Yields a list that grows by one element for each pass through an autograd function in Python."""
    passes: list[None] = []
    apply = Function.__dict__["apply"].__func__

    def counted(kind: type[Function], *args: Any, **kwargs: Any) -> Any:
        result = apply(kind, *args, **kwargs)
        has_backward = any(isinstance(each, Tensor) and each.requires_grad for each in _outputs(result))
        if not kind.__module__.startswith("simulated_cuda"):
            passes.extend([None] * (2 if has_backward else 1))
        return result

    with mock.patch.object(Function, "apply", classmethod(counted)):
        yield passes


def _outputs(result: Any) -> Sequence[Any]:
    return result if isinstance(result, tuple) else (result,)
