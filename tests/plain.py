"""Plain, obviously right versions of what the program does in batches, for tests to compare with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from parser.networks.stack_parser import StackParser
from parser.transitions import SYSTEMS
from parser.transitions.inventory import Inventory
from parser.treebank.sentence import Sentence


def dominates(heads: Sequence[int], ancestor: int, word: int) -> bool:
    """Whether `word` descends from `ancestor`; heads[0] is word 1's."""
    for _ in range(len(heads) + 1):
        if word == ancestor:
            return True
        if word == 0:
            return False
        word = heads[word - 1]
    return False  # a cycle


def is_tree(heads: Sequence[int]) -> bool:
    return heads.count(0) == 1 and all(dominates(heads, 0, word) for word in range(1, len(heads) + 1))


def is_projective(heads: Sequence[int]) -> bool:
    """By the definition: a head dominates every word between it and its dependent."""
    return all(
        dominates(heads, head, between)
        for dependent, head in enumerate(heads, 1)
        for between in range(min(head, dependent) + 1, max(head, dependent))
    )


def all_trees(length: int) -> Iterator[tuple[int, ...]]:
    """Every tree over so many words in which one word hangs on ROOT."""
    for heads in itertools.product(range(length + 1), repeat=length):
        if is_tree(heads):
            yield heads


def projective_trees(length: int) -> list[tuple[int, ...]]:
    return [heads for heads in all_trees(length) if is_projective(heads)]


def sentence(
    heads: Sequence[int], labels: Sequence[str] | None = None, forms: Sequence[str] = ()
) -> Sentence:
    """A sentence with a given tree, its words and tags made up."""
    count = len(heads)
    return Sentence(
        forms=tuple(forms or [f"word{number % 7}" for number in range(count)]),
        upos=tuple(["NOUN", "VERB", "ADP"][number % 3] for number in range(count)),
        xpos=("_",) * count,
        heads=tuple(heads),
        labels=tuple(labels or ["root" if head == 0 else ["subject", "object"][head % 2] for head in heads]),
        identifier="made up",
        line=1,
        lines=(),
        word_lines=(),
    )


@dataclass
class Configuration:
    """Stack, buffer and arcs of one sentence as Python lists, changed as DESIGN's table has it."""

    system: str
    length: int
    stack: list[int] = field(default_factory=lambda: [0])
    buffer: list[int] = field(default_factory=list)
    heads: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.buffer = list(range(1, self.length + 1))

    def finished(self) -> bool:
        return not self.buffer and (self.system == "arc-eager" or self.stack == [0])

    def legal(self) -> set[str]:
        stack, buffer, heads = self.stack, self.buffer, self.heads
        top = stack[-1]
        names = set()
        if self.system == "arc-eager":
            headless = [word for word in stack if word and word not in heads]
            if len(buffer) >= 2:
                names.add("Shift")
            if buffer and heads.get(top, 0) != 0:
                names.add("Reduce")
            if buffer and top and top not in heads:
                names.add("Left-Arc")
            if len(buffer) >= 2 or (len(buffer) == 1 and not headless):
                names.add("Right-Arc" if top else "Root-Arc")
            return names
        if buffer:
            names.add("Shift")
        if self.system == "arc-hybrid" and buffer and top:
            names.add("Left-Arc")
        if self.system == "arc-standard" and len(stack) >= 3:
            names.add("Left-Arc")
        if len(stack) >= 3:
            names.add("Right-Arc")
        if len(stack) == 2 and not buffer:
            names.add("Root-Arc")
        return names

    def apply(self, name: str) -> None:
        stack, buffer = self.stack, self.buffer
        if name == "Shift":
            stack.append(buffer.pop(0))
        elif name == "Reduce":
            stack.pop()
        elif name == "Left-Arc" and self.system == "arc-standard":
            self.heads[stack.pop(-2)] = stack[-1]
        elif name == "Left-Arc":
            self.heads[stack.pop()] = buffer[0]
        elif self.system == "arc-eager":
            self.heads[buffer[0]] = stack[-1]
            stack.append(buffer.pop(0))
        else:
            dependent = stack.pop()
            self.heads[dependent] = stack[-1]

    def tree(self) -> tuple[int, ...]:
        return tuple(self.heads[word] for word in range(1, self.length + 1))


class PlainParser:
    """The network of `StackParser` over one sentence at a time, its StackLSTM a Python list."""

    def __init__(self, network: StackParser, inventory: Inventory, tokens: torch.Tensor):
        """tokens: [words, columns] of one sentence."""
        self.network, self.inventory = network, inventory
        encoder = network.tokens
        parts = [embedding(tokens[:, column]) for column, embedding in enumerate(encoder.embeddings.values())]
        self.words = F.relu(encoder.join(torch.cat(parts, 1)))
        frames = torch.stack([encoder.end, *self.words.flip(0)])
        self.buffer, _ = network.buffer(frames)  # [words + 1, hidden], from the end
        self.stack = [self.cell(network.stack, encoder.root, None)]
        self.history = self.cell(network.history, network.actions.weight[inventory.wait], None)
        self.configuration = Configuration(inventory.system.name, len(tokens))

    @staticmethod
    def cell(lstm: torch.nn.LSTM, inputs: torch.Tensor, state: tuple | None) -> tuple:
        _, state = lstm(inputs[None], state)
        return state

    def scores(self) -> torch.Tensor:
        """[transitions], minus infinity for what is not legal."""
        network, buffer = self.network, self.buffer[len(self.configuration.buffer)]
        stack_top, history_top = self.stack[-1][0][-1], self.history[0][-1]
        joined = (
            network.from_stack(stack_top) + network.from_buffer(buffer) + network.from_history(history_top)
        )
        scores = network.scores(F.relu(joined))
        legal = self.configuration.legal()
        mask = [
            self.name(number) in legal and bool(self.inventory.known[number]) for number in range(len(scores))
        ]
        return scores.masked_fill(~torch.tensor(mask), float("-inf"))

    def name(self, transition: int) -> str:
        return self.inventory.system.transitions[int(self.inventory.kind[transition])].name

    def take(self, transition: int) -> None:
        name, system = self.name(transition), self.configuration.system
        self.configuration.apply(name)
        pushes = name == "Shift" or (system == "arc-eager" and name in ("Right-Arc", "Root-Arc"))
        if pushes:
            self.push(self.configuration.stack[-1])
        elif name == "Left-Arc" and system == "arc-standard":
            del self.stack[-2:]
            self.push(self.configuration.stack[-1])
        else:
            self.stack.pop()
        self.history = self.cell(self.network.history, self.network.actions.weight[transition], self.history)

    def push(self, word: int) -> None:
        self.stack.append(self.cell(self.network.stack, self.words[word - 1], self.stack[-1]))

    def loss(self, transitions: Sequence[int]) -> torch.Tensor:
        """Sum of the cross entropies of known transitions; those with unknown labels do not count."""
        total = torch.zeros((), dtype=self.words.dtype)
        for transition in transitions:
            if self.inventory.known[transition]:
                total = total - self.scores().log_softmax(0)[transition]
            self.take(transition)
        return total

    def parse(self) -> tuple[tuple[int, ...], list[int]]:
        """The greedy tree and the labels' numbers."""
        labels: dict[int, int] = {}
        while not self.configuration.finished():
            transition = int(self.scores().argmax())
            before = dict(self.configuration.heads)
            self.take(transition)
            for dependent in self.configuration.heads.keys() - before.keys():
                labels[dependent] = int(self.inventory.label[transition])
        heads = self.configuration.tree()
        return heads, [labels[word] for word in range(1, len(heads) + 1)]


def inventory(system: str, labels: int = 4) -> Inventory:
    """Label 1 is for arcs from ROOT, the others for arcs from words."""
    return Inventory.build(SYSTEMS[system], labels, frozenset(range(2, labels)), frozenset([1]))
