"""The interface between tasks and `stack-parser speed`: a plugin is a model, and methods batch it.

A file `parser/speed/tasks/FOLDER/NAME_plugin.py` defines a plugin as `PLUGIN`; other packages add plugins
through the entry-point group `stack_parser.plugins`. The harness creates one object for each cell that it
measures, and calls `skip`, `prepare`, `check`, `batches` (several times, with the same result), `work` for
each batch and, many times, `run`.

A method is a function that is registered for a task, with `@method("bilstm_tagger", "agenda")`, in any file
that is imported: one of the task, one of another package that the entry-point group `stack_parser.methods`
names, or a user's own file with a plugin MODULE:CLASS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import torch
from pydantic import BaseModel
from torch import Tensor

from parser.batching import Precision

Mode = Literal["train", "infer"]
"""A training step, from the examples to the parameter update; or inference, from inputs to outputs."""
Methods: TypeAlias = Mapping[Mode, Sequence[str]]
"""The batching methods of each mode."""

NO_BATCHING = "none"
"""The method that every plugin supports: one example after the other. All methods must give its results."""

CELLS, CELLS_BACKWARD, MESSAGES = "cells", "cells backward", "messages"
PHASES = ("data", "graph", "scheduling", "forward", CELLS, "backward", CELLS_BACKWARD, "update", MESSAGES)
"""The phases of a step, as in Neubig et al. 2017, Figure 2. The rest is reported as `OTHER`.

`messages` includes forward, backward and update, which then run in parallel. The cells are the modules of a
network whose structure differs by example. If they are measured separately, they are not included in
`forward` and `backward`.
"""
OTHER = "other"
"""The time of a step outside of all phases."""

SettingsT = TypeVar("SettingsT", bound=BaseModel)
SettingsT_co = TypeVar("SettingsT_co", bound=BaseModel, covariant=True)
"""The plugin's `Settings`."""


WEIGHTS_SEED = 1
FEW_EXAMPLES = 8
"""Enough to compare methods; those without batching take long for many."""


@dataclass(frozen=True)
class Setup(Generic[SettingsT_co]):
    """What a plugin needs to know about the measured cell."""

    settings: SettingsT_co
    method: str
    mode: Mode
    batch_size: int
    device: torch.device
    seed: int
    """Equal seeds give equal weights and batches, whatever the method."""
    phase: Callable[[str], AbstractContextManager[object]]
    """`with phase("forward"): ...` marks a phase of `run`. It costs next to nothing while speed is measured.

    The time of a nested phase counts only for the inner phase."""
    threads: int = 1
    """CPU threads of PyTorch, or workers of asynchronous messages."""
    checked: int = FEW_EXAMPLES
    """The number of examples that `check` should use, if there are as many."""


AnySetup: TypeAlias = Setup[BaseModel]


@dataclass(frozen=True)
class Work:
    """The work of one batch. Only `padding` and `counts` depend on the method."""

    sentences: int
    """The number of sentences, or of other examples."""
    tokens: int
    operations: float
    """Floating-point operations of the necessary matrix products, in training also of the backward pass. A
    multiplication and its addition count as two. Padding and the parameter update are not included."""
    padding: float | None = None
    """The share of computed rows whose results are not used; None if unknown."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Further counts, by their names in reports, such as the calls of a schedule."""
    batches: int = 1
    """The number of batches of at most `batch_size` examples in one run."""


@dataclass(frozen=True)
class Method:
    """A method of a task."""

    make: Callable[..., Any]
    """What the task says: most are called with the setup and the network, and return a forward pass."""
    title: str | None
    """See `method_titles`."""
    skip: Callable[[Any], str | None]
    """Like `Plugin.skip`, for this method alone."""
    pads: bool
    """Whether it computes rows that are not used, and that nobody counts: `Work.padding` is None."""


class RegisteredMethods(Mapping[Mode, Sequence[str]]):
    """The methods of a task, in the order in which they were registered: see `Methods`."""

    def __init__(self) -> None:
        self._by_mode: dict[Mode, dict[str, Method]] = {}

    def __getitem__(self, mode: Mode) -> tuple[str, ...]:
        return tuple(self._by_mode[mode])

    def __iter__(self) -> Iterator[Mode]:
        return iter(self._by_mode)

    def __len__(self) -> int:
        return len(self._by_mode)

    def add(self, mode: Mode, name: str, method: Method) -> None:
        """Raises ValueError for a second method of this name, unless its module has been run again."""
        named = self._by_mode.setdefault(mode, {})
        if name in named and _origin(named[name]) != _origin(method):
            raise ValueError(f"two methods of {mode} are called {name!r}")
        named[name] = method

    def chosen(self, setup: AnySetup) -> Method:
        """The method of a cell."""
        return self._by_mode[setup.mode][setup.method]

    def titles(self) -> dict[str, str]:
        """The titles of methods that have one."""
        methods = (pair for named in self._by_mode.values() for pair in named.items())
        return {name: method.title for name, method in methods if method.title is not None}


def _origin(method: Method) -> tuple[str, str]:
    """The module and the name of a method's function."""
    function = getattr(method.make, "func", method.make)  # of a `partial`
    return function.__module__, function.__qualname__


@cache
def methods_of(task: str) -> RegisteredMethods:
    """The methods that are registered for a task; a plugin has them as its attribute `methods`."""
    return RegisteredMethods()


MakeT = TypeVar("MakeT", bound=Callable[..., Any])


def method(
    task: str,
    *names: str,
    modes: Sequence[Mode] = ("train",),
    title: str | None = None,
    skip: Callable[[Any], str | None] = lambda setup: None,
    pads: bool = False,
) -> Callable[[MakeT], MakeT]:
    """Register the decorated function for a task, as one method or several, which differ by `Setup.method`.

    Arguments and result of the function are up to the task; see `Method` for the others. Raises ValueError
    for a name that another method of the task has.
    """

    def register(make: MakeT) -> MakeT:
        for mode in modes:
            for name in names:
                methods_of(task).add(mode, name, Method(make, title, skip, pads))
        return make

    return register


class Plugin(Protocol[SettingsT]):
    """A model to measure. It is created without arguments, and `prepare` prepares it for one cell.

    Optional class attributes: `method_titles`, `example_name`, `layer_sizes`, `grid_over` and `precisions`,
    see the functions below.
    """

    name: str
    paper: str
    """The paper and its table or figure."""
    methods: ClassVar[Methods]
    """The batching methods of each mode, including `none`: those of `methods_of`, or names by mode."""
    Settings: type[SettingsT]
    """The settings of a config, as a class attribute. Defaults must work with the project's files alone."""

    def skip(self, setup: Setup[SettingsT]) -> str | None:
        """Return why this cell cannot be measured here, or None."""

    def prepare(self, setup: Setup[SettingsT]) -> None:
        """Load data and build the model on the device. Not timed."""

    def batches(self) -> Sequence[Any]:
        """Return one epoch in batches of `batch_size`, with the same examples for every method.

        In training, the first batch of an epoch is the same for every method.

        In inference, a batch can contain more examples, of which `batch_size` are processed at the same time.
        In training, it can consist of several batches; `Work.batches` is their number.
        """

    def run(self, batch: Any) -> None:
        """Run one training step, or inference. Only this is timed.

        In training, the gradients that PyTorch's optimizers get in it are compared with the gradients without
        batching. If this is impossible for a method, see `parser.speed.tasks.conformance.GivesGradients`.
        """

    def check(self) -> Tensor:
        """Return the loss or outputs on `Setup.checked` examples, in batches of `batch_size`.

        They are computed with the current weights.

        All methods and batch sizes must return the same numbers, except for rounding.
        """

    def work(self, batch: Any) -> Work:
        """Return the work of a batch."""


AnyPlugin: TypeAlias = Plugin[BaseModel]
"""A plugin with any settings, such as one found by its name."""


@runtime_checkable
class Learner(Protocol):
    """A plugin with learning curves: after `prepare`, it trains epochs, and each epoch is scored."""

    def learn(self, epoch: int) -> None:
        """Train one epoch with the setup's method, in an order that depends on `epoch`. This is timed."""

    def score(self) -> float:
        """Return the score on held-out examples. Higher is better."""

    def notes(self) -> Mapping[str, float]:
        """Return further figures about the epochs, by their names in reports."""


def method_titles(plugin: type[AnyPlugin]) -> Mapping[str, str]:
    """The titles of methods in plots: "one by one", and those of the plugin's optional attribute
    `method_titles` and of its registered methods.
    """
    methods = plugin.methods
    registered = methods.titles() if isinstance(methods, RegisteredMethods) else {}
    return {NO_BATCHING: "one by one", **getattr(plugin, "method_titles", {}), **registered}


def precisions_of(plugin: type[AnyPlugin]) -> Sequence[Precision]:
    """The precisions of the plugin's products: the optional attribute `precisions`, else float32 alone.

    Products in other precisions must be computed by `parser.batching.functional` and `parser.batching.lstm`.
    """
    return getattr(plugin, "precisions", ("float32",))


def examples_counted(plugin: type[AnyPlugin]) -> str:
    """The name of what speed counts: the plugin's optional attribute `example_name`, else "sentences"."""
    return getattr(plugin, "example_name", "sentences")


def layer_sizes(plugin: type[AnyPlugin]) -> Sequence[str]:
    """The settings that are sizes of layers, to show utilisation over: the optional attribute `layer_sizes`.

    Networks that differ only in these settings are shown together, over the first of them.
    """
    return getattr(plugin, "layer_sizes", ())


def grid_over(plugin: type[AnyPlugin]) -> str | None:
    """The numeric setting that forms a grid with the batch size: the optional attribute `grid_over`.

    Experiments that differ only in this setting are shown together.
    """
    return getattr(plugin, "grid_over", None)


def gradients_of(parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the `.grad` of each parameter, or zeros."""
    for parameter in parameters:
        yield torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def fingerprints(gradients: Iterable[Tensor]) -> Tensor:
    """[2 * gradients] Weighted norms of the positive and the negative part of each gradient.

    The parts reveal wrong signs. Fixed random weights reveal wrong positions, for example rows that are
    shifted by one.
    """
    norms = [torch.zeros(0)]
    for gradient in gradients:
        flat = (gradient.to_dense() if gradient.is_sparse else gradient).flatten()
        drawn = torch.rand(len(flat), generator=torch.Generator().manual_seed(WEIGHTS_SEED))
        flat = flat * (0.5 + drawn).to(flat)
        norms.append(torch.stack([flat.clamp(min=0).norm(), flat.clamp(max=0).norm()]).cpu())
    return torch.cat(norms)
