"""A recurrent network that reduces lists to digits, by asynchronous messages (Gaunt et al. 2017, section 6).

The lists of a batch have equal length. `none` trains batch by batch; `active-n` has n batches in flight.

The lists contain digits and an operation that reduces them to one digit. In a graph of messages, the position
in the state is (step, steps): the next token, and the number of tokens.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from parser.batching.messages.asynchronous_updates import Updates
from parser.batching.messages.control_flow import ConcatenatePayloads, Condition, Join, Ungroup, add_loop
from parser.batching.messages.message_graph import (
    CONTROLLER,
    Loss,
    Losses,
    MessageGraph,
    MessageState,
    losses_of,
)
from parser.batching.messages.workers import Controller, Entry, Instance
from parser.speed.tasks.message_training import (
    ACTIVE,
    MESSAGE_METHODS,
    MESSAGE_TITLES,
    NEEDS_CPU,
    BatchMessagePlugin,
    LoopMessageSettings,
    MessageTraining,
)
from parser.speed.tasks.operation_training import in_batches
from parser.speed.tasks.plugin import Methods, Plugin, Setup, Work, method, methods_of

RESULT_CLASSES = 10
LONGEST_LIST = 9
"""Maximum number of digits in a list. With the operation's token, a sequence has at most ten tokens."""


DIGIT_TOKENS = 10


class Reduction(NamedTuple):
    operation: int
    """The index of the operation in OPERATIONS."""
    digits: tuple[int, ...]
    result: int
    """A digit."""


def _mean(digits: Sequence[int]) -> Fraction:
    """The exact mean, because rounding a half depends on it; 0 for no digits."""
    return Fraction(sum(digits), len(digits) or 1)


OPERATIONS: tuple[Callable[[Sequence[int]], Fraction | int], ...] = (
    _mean,
    lambda digits: _mean(digits[0::2]) - _mean(digits[1::2]),  # at positions 0, 2, 4 … and at 1, 3, 5 …
    lambda digits: max(digits) - min(digits),
    len,
)


def reduce(operation: int, digits: Sequence[int]) -> int:
    """The exact result, rounded half to even, modulo 10 (in Python, -3 modulo 10 is 7).

    Raises ValueError for an operation that does not exist, an empty list, and numbers that are not digits.
    """
    if not 0 <= operation < len(OPERATIONS):
        raise ValueError(f"there is no operation {operation}: the last is {len(OPERATIONS) - 1}")
    if not digits:
        raise ValueError("a list needs at least one digit")
    for digit in digits:
        if not 0 <= digit <= 9:
            raise ValueError(f"{digit} is not a digit")
    return round(OPERATIONS[operation](digits)) % RESULT_CLASSES


def make_reductions(number: int, seed: int, longest: int = LONGEST_LIST) -> list[Reduction]:
    """Generate lists and their results, determined by the seed.

    Operations, lengths from 1 to `longest`, and digits are uniformly distributed.
    """
    if longest < 1:
        raise ValueError(f"longest must be at least 1, not {longest}")
    draw = random.Random(seed)
    reductions = []
    for _ in range(number):
        operation = draw.randrange(len(OPERATIONS))
        digits = tuple(draw.choices(range(10), k=draw.randint(1, longest)))
        reductions.append(Reduction(operation, digits, reduce(operation, digits)))
    return reductions


class RecurrentCell(nn.Module):
    """ReLU(Linear[hidden; token])"""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.linear = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, hidden: Tensor, token: Tensor) -> Tensor:
        """[lists, hidden] hidden, token: [lists, hidden]"""
        return F.relu(self.linear(torch.cat([hidden, token], dim=1)))


class ListReducer(nn.Module):
    def __init__(self, tokens: int, results: int, hidden_size: int, replicas: int = 1):
        """replicas: the number of cells with equal initial weights. An instance always uses the same one."""
        super().__init__()
        self.hidden_size = hidden_size
        self.tokens = nn.Embedding(tokens, hidden_size)
        self.scores = nn.Linear(hidden_size, results)
        self.cells = [RecurrentCell(hidden_size) for _ in range(replicas)]
        """The replicas of the cell."""
        self._cells = nn.ModuleList(self.cells)
        first, *others = self.cells
        for replica in others:
            replica.load_state_dict(first.state_dict())

    def losses(self, batch: tuple[Tensor, Tensor]) -> Losses:
        """The losses with the first replica. batch: lists [lists, tokens] of equal length, results [lists]"""
        lists, results = batch
        hidden, cell = self._initial_state(len(lists)), self.cells[0]
        for token in self.tokens(lists).unbind(1):
            hidden = cell(hidden, token)
        return losses_of(self.scores(hidden), results)

    def instance(self, number: int, batch: tuple[Tensor, Tensor], training: bool) -> Instance:
        """batch: as in `losses`."""
        lists, results = batch
        steps = lists.shape[1]
        entries = [
            Entry(0, (self._initial_state(len(lists)),), (0, steps)),
            Entry(1, (lists.t().flatten(),), (steps, len(lists))),
            Entry(2, (results,), (steps, steps)),
        ]
        return Instance(number, entries, training=training)

    def graph(self, updates: Updates, workers: int) -> MessageGraph:
        """Replicas are on different workers; the nodes between steps are on the worker of the first replica.

        A cell gets one gradient per step of each instance.
        """

        def tokens_of_steps(state: MessageState) -> list[tuple[MessageState, int]]:
            """For the position (steps, lists), the states of all steps, each with one token per list."""
            steps, lists = state.position
            return [(state.at(step, steps), lists) for step in range(steps)]

        graph, loop, replicas = MessageGraph(), 1 % workers, len(self.cells)
        graph.add(CONTROLLER, Controller(outputs=3))
        graph.add("embedding", updates.of_table(self.tokens))
        graph.add("each step", Ungroup(tokens_of_steps))
        graph.add("with token", ConcatenatePayloads(), loop)
        graph.add("scores", updates.of(self.scores))
        graph.add("loss", Loss(losses_of))
        graph.connect((CONTROLLER, 1), "embedding")
        graph.chain("embedding", "each step")
        graph.connect("each step", ("with token", 1))
        graph.add("which cell", Condition(lambda state: state.instance % replicas, replicas), loop)
        graph.add("any cell", Join(replicas), loop)
        graph.chain("with token", "which cell")
        for number, cell in enumerate(self.cells):
            name = f"cell {number + 1}"
            graph.add(name, updates.of_repeated(cell), (number + 1) % workers)
            graph.connect(("which cell", number), name)
            graph.connect(name, ("any cell", number))
        graph.connect(add_loop(graph, CONTROLLER, "with token", "any cell", loop), "scores")
        graph.chain("scores", "loss", CONTROLLER)
        graph.connect((CONTROLLER, 2), ("loss", 1))
        return graph

    def _initial_state(self, lists: int) -> Tensor:
        """[lists, hidden]"""
        return torch.zeros(lists, self.hidden_size)


class ListReductionSettings(LoopMessageSettings):
    lists: int = Field(512, gt=0)
    """Number of generated lists."""
    held_out: int = Field(0, ge=0)
    """Number of additional lists that are held out."""
    longest: int = Field(LONGEST_LIST, gt=0)
    """Maximum length of a list, in digits."""
    hidden_size: int = Field(128, gt=0)
    replicas: int = Field(1, gt=0)
    """Number of replicas of the recurrent cell, on different workers."""


Lists = tuple[Tensor, Tensor]
"""Lists [lists, tokens], whose first token is the operation; and results [lists]."""


TASK = "list_reduction"
METHODS = methods_of(TASK)


@method(TASK, *MESSAGE_METHODS)
def by_batches_or_messages(setup: Setup[ListReductionSettings], network: ListReducer) -> MessageTraining:
    active = ACTIVE.get(setup.method)
    return MessageTraining(setup, network, network, setup.settings.updates, active, network.cells)


class ListReductionPlugin(BatchMessagePlugin):
    name = "list_reduction"
    paper = "Gaunt et al. 2017, Table 1 (list reduction)"
    methods: ClassVar[Methods] = METHODS
    method_titles: ClassVar[dict[str, str]] = MESSAGE_TITLES
    example_name: ClassVar[str] = "lists"
    Settings = ListReductionSettings

    def skip(self, setup: Setup[ListReductionSettings]) -> str | None:
        return METHODS.chosen(setup).skip(setup) if setup.device.type == "cpu" else NEEDS_CPU

    def prepare(self, setup: Setup[ListReductionSettings]) -> None:
        self.setup = setup
        settings = setup.settings
        made = make_reductions(settings.lists + settings.held_out, setup.seed, settings.longest)
        self._lists, self._held_out = made[: settings.lists], made[settings.lists :]
        torch.manual_seed(setup.seed)
        tokens = len(OPERATIONS) + DIGIT_TOKENS
        self._network = ListReducer(tokens, RESULT_CLASSES, settings.hidden_size, settings.replicas)
        self.messages = METHODS.chosen(setup).make(setup, self._network)

    def training_batches(self, seed: int) -> list[Lists]:
        draw = random.Random(seed)
        batches = by_length(draw.sample(self._lists, len(self._lists)), self.setup.batch_size)
        return draw.sample(batches, len(batches))

    def held_out_batches(self) -> list[Lists]:
        return by_length(self._held_out, self.setup.batch_size)

    def checked_batches(self) -> list[Lists]:
        return by_length(self._lists[: self.setup.checked], self.setup.batch_size)

    def work(self, batch: Sequence[Lists]) -> Work:
        lists = sum(len(results) for _, results in batch)
        tokens = sum(read.numel() for read, _ in batch)
        network = self._network
        cell, scores = network.cells[0].linear.weight.numel(), network.scores.weight.numel()
        # The backward pass needs two products for each product of the forward pass.
        return Work(lists, tokens, 6.0 * (tokens * cell + lists * scores), padding=0.0, batches=len(batch))


def by_length(reductions: Sequence[Reduction], size: int) -> list[Lists]:
    """Batches of at most `size` lists of equal length, sorted by length."""
    of_length: dict[int, list[Reduction]] = defaultdict(list)
    for reduction in reductions:
        of_length[len(reduction.digits)].append(reduction)
    return [
        prepare_lists(batch) for length in sorted(of_length) for batch in in_batches(of_length[length], size)
    ]


def prepare_lists(reductions: Sequence[Reduction]) -> Lists:
    """Token numbers: first the operations, then the digits."""
    tokens = [[each.operation, *(len(OPERATIONS) + digit for digit in each.digits)] for each in reductions]
    return torch.tensor(tokens), torch.tensor([each.result for each in reductions])


PLUGIN: type[Plugin[ListReductionSettings]] = ListReductionPlugin
