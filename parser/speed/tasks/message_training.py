"""Training by asynchronous messages, and synchronous training of the same network, batch by batch."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import torch
from pydantic import Field
from torch import Tensor, nn

from parser.batching.messages import workers
from parser.batching.messages.asynchronous_updates import (
    BackwardWeights,
    Updates,
    average,
    mean_staleness,
    parameterised_nodes,
    staleness,
    update_all,
)
from parser.batching.messages.message_graph import Losses, MessageGraph, MessageState
from parser.batching.messages.processes import LocalProcesses
from parser.batching.messages.workers import Instance, Report
from parser.speed.tasks.operation_training import in_batches
from parser.speed.tasks.plugin import MESSAGES, Setup, fingerprints, gradients_of
from parser.system.settings import Settings

ACTIVE = {f"active-{number}": number for number in (1, 4, 16)}
"""The number of batches in flight (max_active_keys) of each method."""
MESSAGE_METHODS = ("none", *ACTIVE)
MESSAGE_TITLES = {
    "none": "batch by batch, without messages",
    **{method: f"asynchronous messages, {number} in flight" for method, number in ACTIVE.items()},
}
NEEDS_CPU = "messages go between threads or processes on a CPU"
"""Why plugins with messages skip a GPU."""
NEVER = 1 << 60
"""A number of gradients that is never reached."""

Workers: TypeAlias = Literal["threads", "processes"]


class AsynchronySettings(Settings):
    """Settings of plugins with asynchronous messages."""

    backward_weights: BackwardWeights = "forward"
    """Weights for the backward pass of a message. `forward`: those of its forward pass. `present`: the
    current ones."""
    workers: Workers = "threads"
    """What workers are: threads of one process, which share an interpreter lock, or processes."""


class MessageSettings(AsynchronySettings):
    """Settings of plugins whose messages are batches."""

    update_after: int = Field(1, gt=0)
    """Number of gradients that a node accumulates before it is updated (min_update_frequency)."""
    together: int = Field(32, gt=0)
    """Number of batches in a measured run."""
    learning_rate: float = Field(1e-3, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    """First beta of Adam. Stale gradients act as momentum themselves (Mitliagkas et al. 2016)."""

    def optimizer(self, weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam for some of the parameters."""
        return torch.optim.Adam(weights, self.learning_rate, (self.momentum, 0.999), fused=True)

    @property
    def updates(self) -> Updates:
        return Updates(self.optimizer, self.update_after, backward_weights=self.backward_weights)


class LoopMessageSettings(MessageSettings):
    """Settings of plugins with a loop."""

    update_in_loop_after: int | None = Field(None, gt=0)
    """`update_after` for the nodes in the loop, which get a gradient for each step of a batch. null: the same
    as for the other nodes."""

    @property
    def updates(self) -> Updates:
        return super().updates._replace(in_loop=self.update_in_loop_after)


class MessageRun(NamedTuple):
    reports: list[Report]
    """In the order of arrival."""
    busy: list[float]
    """The busy seconds of each worker of this process."""

    def of(self, training: bool) -> list[Report]:
        """The reports of training, or those of inference."""
        return [report for report in self.reports if report.training == training]


RunFunction = Callable[..., list[float]]
"""A function with the arguments and the result of `workers.run`."""


class MessageModel(Protocol):
    """A network that can be trained as a whole or, with the same parameters, as a graph of messages."""

    def losses(self, batch: Any) -> Losses: ...

    def graph(self, updates: Updates, workers: int) -> MessageGraph: ...

    def instance(self, number: int, batch: Any, training: bool) -> Instance: ...


class MessageTraining:
    """Trains with an update after every batch; or by messages, with separate updates for each node."""

    def __init__(
        self,
        setup: Setup[AsynchronySettings],
        network: nn.Module,
        model: MessageModel,
        updates: Updates,
        active: int | None,
        replicas: Sequence[nn.Module] = (),
    ):
        """model: computes the network; active: the number of batches in flight, or None for no messages;
        replicas: copies of the first of them, for other instances."""
        self._network, self._model, self._workers = network, model, setup.threads
        self._replicas = replicas
        self._max_active, self._backward_weights = active, updates.backward_weights
        self._begun, self._phase = 0, setup.phase
        self._processes: LocalProcesses | None = None
        if self._max_active:
            self.graph = model.graph(updates, setup.threads)
            if setup.settings.workers == "processes" and self.graph.workers > 1:
                make_graph = partial(model.graph, updates, setup.threads)
                self._processes = LocalProcesses(self.graph, make_graph)
                weakref.finalize(self, self._processes.close)
        else:
            self._optimizer = updates.optimizer(network.parameters())

    def run(
        self,
        batches: Sequence[Any],
        training: bool,
        validated: Sequence[Any] = (),
    ) -> MessageRun:
        """Run training or inference on batches, and return the reports.

        validated: batches for inference, mixed evenly with the others; with messages, both are in flight at
        the same time.
        """
        mixed = evenly_mixed(batches, training, validated)
        phase = self._phase
        if not self._max_active:
            reports = []
            for batch, is_trained in mixed:
                self._begun += 1
                with phase("forward"), torch.set_grad_enabled(is_trained):
                    loss, right, examples = self._model.losses(batch)
                if is_trained:
                    with phase("backward"):
                        self._optimizer.zero_grad()
                        loss.backward()
                    with phase("update"):
                        self._optimizer.step()
                number = MessageState(self._begun)
                reports.append(Report(number, is_trained, loss.item(), right, examples))
            return MessageRun(reports, [])
        first, self._begun = self._begun, self._begun + len(mixed)
        runner = self._processes.run if self._processes else workers.run
        with phase(MESSAGES):
            return run_graph(self.graph, self._instances(mixed, first), self._max_active, runner)

    def end_epoch(self) -> None:
        """Update with the remaining gradients, and average the replicas."""
        if not self._max_active:
            return  # synchronous training uses only the first replica
        if self._processes:
            self._processes.update()
            self._processes.share()
        else:
            update_all(self.graph)
        if self._replicas:
            average(self._replicas)
        if self._processes:
            self._processes.share(source=0)
        else:
            for node in parameterised_nodes(self.graph):
                node.refresh()

    def notes(self) -> dict[str, float]:
        """The mean staleness of gradients, in updates."""
        if not self._max_active:
            return {}
        late = self._processes.staleness() if self._processes else staleness(self.graph)
        return {"updates late": mean_staleness(late)} if late else {}

    def loss_and_gradients(self, batches: Sequence[Any]) -> Tensor:
        """[1 + 2 * weights] The sum of the batches' losses, and its gradients' fingerprints."""
        loss, gradients = self._differentiated(batches)
        return torch.cat([torch.tensor([loss]), fingerprints(gradients)])

    def gradients(self, batches: Sequence[Any]) -> Sequence[Tensor] | None:
        """See `GivesGradients`. With messages, some nodes wait for more gradients before their update."""
        return self._differentiated(batches)[1] if self._max_active else None

    def _differentiated(self, batches: Sequence[Any]) -> tuple[float, list[Tensor]]:
        """The sum of the batches' losses, and its gradients, without an update."""
        self._network.zero_grad()
        if self._processes:
            self._processes.share()
        if self._max_active:
            no_updates = Updates(
                partial(torch.optim.SGD, lr=0.0), NEVER, backward_weights=self._backward_weights
            )
            graph = self._model.graph(no_updates, self._workers)
            instances = self._instances([(batch, True) for batch in batches], 0)
            ran = run_graph(graph, instances, self._max_active)
            loss = sum(report.loss for report in ran.reports)
            for node in parameterised_nodes(graph):
                node.give_gradients()
            for first, *others in zip(*(module.parameters() for module in self._replicas), strict=True):
                for copied in others:
                    if copied.grad is not None:
                        first.grad = copied.grad if first.grad is None else first.grad + copied.grad
                        copied.grad = None
        else:
            total = torch.stack([self._model.losses(batch).loss for batch in batches]).sum()
            total.backward()
            loss = total.item()
        gradients = list(gradients_of(self._network.parameters()))
        self._network.zero_grad()
        return loss, gradients

    def _instances(self, batches: Sequence[tuple[Any, bool]], first: int) -> list[Instance]:
        return [self._model.instance(number, *each) for number, each in enumerate(batches, first)]


def evenly_mixed(batches: Sequence[Any], training: bool, validated: Sequence[Any]) -> list[tuple[Any, bool]]:
    """The batches, evenly mixed with those to validate on, each with whether it is for training."""
    both = [
        ((place + 0.5) / len(own), (batch, kind))
        for own, kind in ((batches, training), (validated, False))
        for place, batch in enumerate(own)
    ]
    return [each for _, each in sorted(both, key=itemgetter(0))]


class BatchMessagePlugin(ABC):
    """Base class of plugins whose messages are batches."""

    messages: MessageTraining
    """Set by `prepare`, like `setup`."""
    setup: Setup[Any]

    @abstractmethod
    def training_batches(self, seed: int) -> list[Any]:
        """All batches to train on, in a random order that depends only on the seed."""

    @abstractmethod
    def held_out_batches(self) -> list[Any]:
        """The batches that are scored."""

    @abstractmethod
    def checked_batches(self) -> list[Any]:
        """The batches on which the methods must agree."""

    def batches(self) -> list[list[Any]]:
        return in_batches(self.training_batches(self.setup.seed), self.setup.settings.together)

    def run(self, batch: Sequence[Any]) -> None:
        self.messages.run(batch, training=True)

    def check(self) -> Tensor:
        return self.messages.loss_and_gradients(self.checked_batches())

    def gradients(self, batch: Sequence[Any]) -> Sequence[Tensor] | None:
        return self.messages.gradients(batch)

    def learn(self, epoch: int) -> None:
        self.messages.run(self.training_batches(epoch), training=True)
        self.messages.end_epoch()

    def score(self) -> float:
        """The accuracy on the held-out batches. Raises ValueError if there are none."""
        return accuracy(self.messages.run(self.held_out_batches(), training=False).reports)

    def notes(self) -> dict[str, float]:
        return self.messages.notes()


def run_graph(
    graph: MessageGraph,
    instances: Sequence[Instance],
    max_active: int,
    runner: RunFunction = workers.run,
) -> MessageRun:
    reports: list[Report] = []
    return MessageRun(reports, runner(graph, instances, max_active, reports.append))


def accuracy(reports: Sequence[Report | Losses]) -> float:
    """The share of correct examples. Raises ValueError if there are no examples."""
    examples = sum(report.examples for report in reports)
    refuse_nothing_held_out(examples)
    return sum(report.right for report in reports) / examples


def refuse_nothing_held_out(examples: int) -> None:
    if not examples:
        raise ValueError("held_out: nothing is held out that could be scored")
