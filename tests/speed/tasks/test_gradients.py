"""The harness checks the gradients of all methods of all plugins, and detects each kind of wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import plugin_setups
import pytest
import torch
from _pytest.mark import ParameterSet
from extended import COMPILES
from plugin_setups import setup_of
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from parser.speed.tasks.conformance import (
    GivesGradients,
    ParameterGradient,
    gradient_disagreement,
    gradients_of_run,
)
from parser.speed.tasks.discovery import find, installed
from parser.speed.tasks.language_model.network import Text
from parser.speed.tasks.plugin import NO_BATCHING, AnyPlugin

SIZE = 3
Gradients = Sequence[Tensor]


def prepared(name: str, method: str) -> AnyPlugin:
    plugin = find(name)
    if reason := plugin().skip(setup_of(plugin, method, size=SIZE)):
        pytest.skip(reason)
    return plugin_setups.prepared(plugin, method, size=SIZE)


def without_the_last(batch: Any) -> Any:
    """The batch without its last sentence or row. For texts, the last frame repeats the first."""
    if isinstance(batch, (list, Tensor)):
        return batch[:-1]
    if isinstance(batch, Text):
        return Text(*(torch.cat([part[:-1], part[:1]]) for part in batch))
    return type(batch)(*(None if part is None else part[:-1] for part in batch))


def scaled(gradients: Gradients) -> None:
    for gradient in gradients:
        gradient.mul_(-3)


def zero(gradients: Gradients) -> None:
    for gradient in gradients:
        gradient.zero_()


def one_forgotten(gradients: Gradients) -> None:
    max(gradients, key=lambda gradient: gradient.to_dense().norm()).zero_()


def negated(gradients: Gradients) -> None:
    """Negate the gradient of one parameter."""
    min(gradients, key=len).neg_()


MUTANTS: dict[str, Callable[[Gradients], None]] = {
    mutant.__name__: mutant for mutant in (scaled, zero, one_forgotten, negated)
}


def mutated(plugin: AnyPlugin, batch: Any, mutant: Callable[[Gradients], None]) -> list[ParameterGradient]:
    """The gradients that the harness sees of a method whose gradients are wrong."""
    given = plugin.gradients(batch) if isinstance(plugin, GivesGradients) else None
    if given is not None:
        mutant(given)
        plugin.gradients = lambda _: given
        return gradients_of_run(plugin, batch)

    def before(optimizer: torch.optim.Optimizer, *_: object) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        if given := [weight.grad for weight in weights if weight.grad is not None]:
            mutant(given)

    hook = register_optimizer_step_pre_hook(before)
    try:
        return gradients_of_run(plugin, batch)
    finally:
        hook.remove()


def trained_plugins() -> Iterator[ParameterSet]:
    """Each plugin with each method; `make test` runs the first method of two of them."""
    for name in installed():
        methods = [method for method in find(name).methods.get("train", ()) if method != NO_BATCHING]
        for number, method in enumerate(methods):
            extended = COMPILES if method == "compiled" else [pytest.mark.extended]
            is_quick = not number and name in ("bilstm_tagger", "tree_lstm")
            yield pytest.param(name, method, marks=[] if is_quick else extended)


@pytest.mark.parametrize(("name", "method"), [*trained_plugins()])
def test_gradients_of_run(name: str, method: str) -> None:
    reference, plugin = prepared(name, NO_BATCHING), prepared(name, method)
    expected = gradients_of_run(reference, reference.batches()[0])
    batch = plugin.batches()[0]
    assert any(own.positive or own.negative for own in expected)
    assert gradient_disagreement(gradients_of_run(plugin, batch), expected) is None
    assert gradient_disagreement(gradients_of_run(plugin, without_the_last(batch)), expected)
    for mutant in MUTANTS.values():
        assert gradient_disagreement(mutated(prepared(name, method), batch, mutant), expected), mutant


def test_no_parameter_is_changed() -> None:
    plugin = prepared("bilstm_tagger", "agenda")
    before = plugin.check()
    gradients_of_run(plugin, plugin.batches()[0])
    torch.testing.assert_close(plugin.check(), before)
    plugin.run(plugin.batches()[0])
    assert not torch.equal(plugin.check(), before)


def test_the_parameter_whose_gradient_differs_most_is_named() -> None:
    plugin = prepared("bilstm_tagger", "agenda")
    expected = gradients_of_run(plugin, plugin.batches()[0])
    names = [own.name for own in expected]
    assert len({*names}) == len(names)
    assert all(name.startswith("_training._network.") for name in names)
    found = mutated(prepared("bilstm_tagger", "agenda"), plugin.batches()[0], one_forgotten)
    wrong = [own for own, other in zip(expected, found, strict=True) if own != other]  # all zeros
    most = max(wrong, key=lambda own: max(own.positive, own.negative))
    difference = gradient_disagreement(found, expected)
    assert difference.startswith(f"that of {most.name} differs most")
    assert difference.endswith(f"{len(wrong)} of {len(names)} parameters differ")
    assert gradient_disagreement(found[1:], expected).startswith(f"{len(names) - 1} parameters")


def test_a_gradient_that_is_no_number_differs_most() -> None:
    expected = [ParameterGradient("a [1]", 1.0, 0.0), ParameterGradient("b [2]", 1.0, 5.0)]
    found = [ParameterGradient("a [1]", float("nan"), 0.0), ParameterGradient("b [2]", 1.0, 9.0)]
    assert gradient_disagreement(found, expected).startswith("that of a [1] differs most")
    assert gradient_disagreement(found[1:], expected[1:]).startswith("that of b [2] differs most")


def test_parameters_without_a_name_have_their_place() -> None:
    plugin = prepared("recurrent_language_model", "library")
    names = [own.name for own in gradients_of_run(plugin, plugin.batches()[0])]
    assert any(name.startswith(f"parameter 1 of {len(names)} [") for name in names)
