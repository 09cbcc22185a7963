"""Checks what every plugin must do, and compares the gradients with which its `run` updates its parameters.

Each fault says what to correct.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple, Protocol, get_args, runtime_checkable

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from parser.batching.functional import Precision
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import (
    FEW_EXAMPLES,
    NO_BATCHING,
    PHASES,
    AnyPlugin,
    Mode,
    Setup,
    Work,
    fingerprints,
)
from parser.system.console import LinesError, warn


@runtime_checkable
class GivesGradients(Protocol):
    """A plugin with a method whose gradients do not reach PyTorch's optimizers like those of `none`."""

    def gradients(self, batch: Any) -> Sequence[Tensor] | None:
        """The gradients of `run`, before any update, in the order of the parameters of `none`.

        Returns None if the gradients that PyTorch's optimizers get can be compared.
        """


class ParameterGradient(NamedTuple):
    """The norms of one parameter's gradient, see `fingerprints`."""

    name: str
    """The plugin's name for the parameter, or its place among all parameters; and the shape."""
    positive: float
    negative: float


def gradients_of_run(plugin: AnyPlugin, batch: Any) -> list[ParameterGradient]:
    """The fingerprints of the gradients of all parameters, ordered by shape. No parameter is changed.

    Raises ValueError if no gradient can be compared.
    """
    given = plugin.gradients(batch) if isinstance(plugin, GivesGradients) else None
    if given is None:
        names = {id(parameter): name for name, parameter in _parameters(plugin)}
        sums = _given_to_optimizers(plugin, batch)
        named = [(names.get(id(parameter)), gradient) for parameter, gradient in sums.items()]
    else:
        named = [(None, gradient) for gradient in given]
    if not named:
        raise ValueError(
            "no gradient can be compared, because no optimizer of PyTorch made an update in `run`: update by "
            "one (torch.optim.SGD(parameters, lr)), or add a method `gradients(batch)`, see "
            "parser.speed.tasks.conformance.GivesGradients"
        )
    shapes = [
        (name or f"parameter {place} of {len(named)}", own) for place, (name, own) in enumerate(named, 1)
    ]
    ordered = sorted(shapes, key=lambda pair: tuple(pair[1].shape))
    norms = fingerprints(gradient for _, gradient in ordered).view(-1, 2).tolist()
    return [
        ParameterGradient(f"{name} {list(gradient.shape)}", *parts)
        for (name, gradient), parts in zip(ordered, norms, strict=True)
    ]


def _parameters(owner: object, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters in a plugin's attributes and in their own attributes, with names."""
    for attribute, value in vars(owner).items():
        own = f"{name}.{attribute}" if name else attribute
        if isinstance(value, nn.Module):
            yield from value.named_parameters(own)
        elif isinstance(value, Tensor):
            yield own, value
        elif not name and hasattr(value, "__dict__"):
            yield from _parameters(value, own)


def _given_to_optimizers(plugin: AnyPlugin, batch: Any) -> dict[Tensor, Tensor]:
    """The gradients by parameter that PyTorch's optimizers get in `run`.

    They are summed over all updates in `run`; no update is made.
    """
    sums: dict[Tensor, Tensor] = {}
    hidden: list[tuple[Tensor, Tensor]] = []

    def before(optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                total = sums.setdefault(parameter, torch.zeros_like(parameter, requires_grad=False))
                if parameter.grad is not None:
                    total += parameter.grad
                    hidden.append((parameter, parameter.grad))
                    parameter.grad = None  # so that the optimizer leaves the parameter as it is

    def after(*_: object) -> None:
        while hidden:
            parameter, gradient = hidden.pop()
            parameter.grad = gradient

    hooks = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        plugin.run(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return sums


ROUNDING: dict[Precision, float] = {"float32": 2e-4, "tf32": 1e-2, "bfloat16": 5e-2}
"""Relative difference of results up to which it counts as rounding."""


def numbers(results: Tensor | Sequence[float]) -> list[float]:
    """The results of a plugin's `check` as a flat list."""
    return torch.as_tensor(results).detach().double().flatten().tolist()


def disagreement(
    results: Sequence[float] | None, expected: Sequence[float] | None, rounding: float = ROUNDING["float32"]
) -> str | None:
    """Describe how results differ by more than rounding from those without batching; None if they don't."""
    if results is None or expected is None or len(results) != len(expected):
        return f"{len(results or ())} results, but {len(expected or ())} without batching"
    for number in _different(results, expected, rounding):
        return f"result {number} is {results[number]:.9g}, but {expected[number]:.9g} without batching"
    return None


def gradient_disagreement(
    gradients: Sequence[ParameterGradient],
    expected: Sequence[ParameterGradient],
    rounding: float = ROUNDING["float32"],
) -> str | None:
    """Like `disagreement`, for the gradients of all parameters. Names the one that differs most."""
    if len(gradients) != len(expected):
        return f"{len(gradients)} parameters have gradients, but {len(expected)} without batching"
    ours, theirs = ([norm for parameter in each for norm in parameter[1:]] for each in (gradients, expected))
    different = _different(ours, theirs, rounding)
    if not different:
        return None
    distances = {number: abs(ours[number] - theirs[number]) for number in different}
    most = max(different, key=lambda at: math.inf if math.isnan(distances[at]) else distances[at])
    part = ParameterGradient._fields[1 + most % 2]
    return (
        f"that of {gradients[most // 2].name} differs most: the weighted norm of its {part} part is "
        f"{ours[most]:.9g}, but {theirs[most]:.9g} without batching; "
        f"{len({number // 2 for number in different})} of {len(gradients)} parameters differ"
    )


def _different(results: Sequence[float], expected: Sequence[float], rounding: float) -> list[int]:
    """The indices of results that differ by more than rounding."""
    smallest = rounding**2 * max(map(abs, expected), default=0.0)  # smaller differences are rounding, too
    pairs = enumerate(zip(results, expected, strict=True))
    return [
        number
        for number, (one, other) in pairs
        if not abs(one - other) <= rounding * abs(other) + smallest  # written so that NaN differs
    ]


SIZES = (1, 3)
"""Batch sizes to check. With 3 the last batch of most epochs is smaller."""
FUNCTIONS = ("skip", "prepare", "batches", "run", "check", "work")


def check_plugin(name: str, checked: int = FEW_EXAMPLES) -> str:
    """Check a plugin, and return a message if it passes. Raises ValueError with a line for each fault.

    checked: see `Setup`. Says on standard error what it checks.
    """
    faults = faults_of(find(name), checked, lambda cell: warn(f"{name}: checking {cell}"))
    if faults:
        raise LinesError(*(f"{name}: {fault}" for fault in faults))
    return f"{name}: no fault found"


def faults_of(
    plugin: type[AnyPlugin],
    checked: int = FEW_EXAMPLES,
    progress: Callable[[str], object] = lambda cell: None,
) -> list[str]:
    """The faults of the plugin with the defaults of its settings; an empty list if there are none.

    checked: see `Setup`; progress: called with each mode and method before it is checked.
    """
    faults = list(_faults_of_description(plugin))
    if faults:
        return faults  # the rest cannot be checked without a correct description
    for mode, methods in plugin.methods.items():
        try:
            trial = partial(_Trial, plugin, checked, mode)
            faults += _faults_in_mode(trial, mode, list(methods), progress)
        except Exception as error:  # whatever the plugin's code raises
            faults.append(f"{mode}: {type(error).__name__}: {error}")
    return faults


def _faults_of_description(plugin: type[AnyPlugin]) -> Iterator[str]:
    for name in ("name", "paper"):
        if not isinstance(getattr(plugin, name, None), str):
            yield f"`{name}` must be a string of the class"
    settings = getattr(plugin, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, BaseModel)):
        yield "`Settings` must be a pydantic model with defaults, as those of parser.system.settings"
    for name in FUNCTIONS:
        if not callable(getattr(plugin, name, None)):
            yield f"it has no method `{name}`; parser.speed.tasks.plugin.Plugin says what it must do"
    methods = getattr(plugin, "methods", None)
    if not isinstance(methods, Mapping) or not methods or not methods.keys() <= set(get_args(Mode)):
        yield "`methods` must give the batching methods of `train`, of `infer`, or of both"
        return
    for mode, names in methods.items():
        if NO_BATCHING not in names:
            yield f"`methods` of {mode!r} lack {NO_BATCHING!r}, with which all others are compared"


def _faults_in_mode(
    make_trial: Callable[[str, int], _Trial],
    mode: Mode,
    methods: list[str],
    progress: Callable[[str], object],
) -> list[str]:
    """make_trial: prepares the plugin for a method and a batch size, in this mode."""
    faults: list[str] = []
    progress(f"{mode}, {NO_BATCHING}, with which other methods are compared")
    reference = make_trial(NO_BATCHING, 1)
    if reference.skipped:
        return [
            f"{mode}: skipped with the defaults of `Settings` ({reference.skipped}); they must work anywhere"
        ]
    expected, expected_works = reference.results(), reference.works()
    gradients = {size: make_trial(NO_BATCHING, size).gradients() for size in SIZES}
    if not expected or not all(map(torch.isfinite, torch.tensor(expected))):
        faults.append(f"{mode}: `check` must return finite numbers, at least one")
    for method in sorted(methods, key=lambda name: name != NO_BATCHING):
        for size in SIZES:
            cell = f"{mode}, {method} at {size}"
            progress(cell)
            trial = make_trial(method, size)
            if not trial.skipped:  # some methods need kernels that not every machine has
                faults += [f"{cell}: {fault}" for fault in trial.faults(expected, expected_works)]
                fresh = make_trial(method, size)  # its weights are the first, too
                if difference := gradient_disagreement(fresh.gradients(), gradients[size]):
                    faults.append(f"{cell}: `run` must have the gradients without batching: {difference}")
    return faults


class _Trial:
    """A plugin prepared for one cell on the CPU."""

    def __init__(self, plugin: type[AnyPlugin], checked: int, mode: Mode, method: str, size: int):
        self._phases: set[str] = set()
        self._mode, self._size = mode, size
        cpu = torch.device("cpu")
        setup = Setup(plugin.Settings(), method, mode, size, cpu, 1, self._phase, 2, checked)
        self._plugin = plugin()
        self.skipped = self._plugin.skip(setup)
        if not self.skipped:
            self._plugin.prepare(setup)

    def _phase(self, name: str) -> AbstractContextManager[Any]:
        self._phases.add(name)
        return nullcontext()

    def results(self) -> list[float]:
        return numbers(self._plugin.check())

    def gradients(self) -> list[ParameterGradient]:
        """The gradients of the first batch, in training."""
        return gradients_of_run(self._plugin, self._plugin.batches()[0]) if self._mode == "train" else []

    def works(self) -> list[Work]:
        """The work of each batch of an epoch."""
        return [self._plugin.work(batch) for batch in self._plugin.batches()]

    def faults(self, expected: list[float], expected_works: list[Work]) -> Iterator[str]:
        results = self.results()
        if difference := disagreement(results, expected):
            yield f"`check` must return what it returns without batching, in batches of 1: {difference}"
        if disagreement(self.results(), results):  # the last bits depend on the memory layout
            yield "`check` returns other results the second time; it must change nothing and use no dropout"
        works = self.works()
        for name in ("sentences", "tokens", "operations"):
            here, elsewhere = (
                sum(getattr(work, name) for work in epoch) for epoch in (works, expected_works)
            )
            if not math.isclose(here, elsewhere):
                yield (
                    f"`batches` must hold the same {name} for every method and size, "
                    f"not {here:g} instead of {elsewhere:g}"
                )
        if self._mode == "train" and any(work.sentences > self._size * work.batches for work in works):
            yield f"`batches` must have at most `batch_size` examples each, here {self._size}"
        if any(work.sentences < 1 or work.tokens < 1 or work.operations <= 0 for work in works):
            yield "`work` must count the sentences, tokens and operations of every batch; none may be 0"
        if any(work.padding is not None and not 0 <= work.padding < 1 for work in works):
            yield "`work` must give the padding as a share from 0 to 1, or None"
        self._phases.clear()
        self._plugin.run(self._plugin.batches()[0])
        if unknown := self._phases - set(PHASES):
            yield f"`run` names the phases {', '.join(sorted(unknown))}; known are {', '.join(PHASES)}"
        if not self._phases:
            yield "`run` must name its phases: `with setup.phase('forward'): ...`"
        after = self.results()
        if after == results if self._mode == "train" else disagreement(after, results):
            yield "`run` must change the results of `check` in training, and must not in inference"
