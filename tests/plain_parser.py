"""Plain trees, transition systems and a parser for comparison: one sentence, one operation at a time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import torch
import torch.nn.functional as F

from parser.networks.character_encoder import CharacterEncoder
from parser.networks.character_lstm import CharacterLSTM
from parser.networks.stack_parser import StackParser
from parser.networks.token_encoder import TokenEncoder
from parser.transitions import transition_system
from parser.transitions.inventory import Inventory
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import Tokens


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
    return not crossing(heads)


def crossing(heads: Sequence[int]) -> list[int]:
    """By the definition: the dependents of arcs over a word that does not descend from the head."""

    def dominates_all_between(head: int, dependent: int) -> bool:
        between = range(min(head, dependent) + 1, max(head, dependent))
        return all(dominates(heads, head, word) for word in between)

    return [word for word, head in enumerate(heads, 1) if not dominates_all_between(head, word)]


def lifted_heads(heads: Sequence[int]) -> tuple[int, ...]:
    """The definition of `projectivize`: repeatedly lift the shortest arc."""
    lifted = list(heads)
    while dependents := crossing(lifted):
        dependent = min(dependents, key=lambda word: abs(lifted[word - 1] - word))
        lifted[dependent - 1] = lifted[lifted[dependent - 1] - 1]
    return tuple(lifted)


def level_by_level(heads: Sequence[int], top: int) -> list[int]:
    """All descendants of `top` in breadth-first order."""
    order = [top]
    for word in order:
        order += [dependent for dependent, head in enumerate(heads, 1) if head == word]
    return order[1:]


def deprojectivized_heads(
    heads: Sequence[int], labels: Sequence[str], wanted: Sequence[str]
) -> tuple[int, ...]:
    """The definition of `deprojectivize`: words nearest to the root move first."""
    moved = list(heads)
    waiting = {word for word, label in enumerate(wanted, 1) if label and moved[word - 1]}
    while waiting:
        word = next(word for word in level_by_level(moved, 0) if word in waiting)
        waiting.remove(word)
        head = moved[word - 1]
        below = [other for other in level_by_level(moved, head) if not dominates(moved, word, other)]
        fitting = [other for other in below if labels[other - 1] == wanted[word - 1]]
        moved[word - 1] = fitting[0] if fitting else head
    return tuple(moved)


@cache
def all_trees(length: int) -> Sequence[tuple[int, ...]]:
    """All trees of `length` words with a single root."""
    return tuple(heads for heads in itertools.product(range(length + 1), repeat=length) if is_tree(heads))


@cache
def projective_trees(length: int) -> Sequence[tuple[int, ...]]:
    return tuple(heads for heads in all_trees(length) if is_projective(heads))


def sentence(
    heads: Sequence[int], labels: Sequence[str] | None = None, forms: Sequence[str] = ()
) -> Sentence:
    """A sentence with a given tree and made-up words and tags."""
    count = len(heads)
    return Sentence(
        forms=tuple(forms or [f"word{number % 7}" for number in range(count)]),
        upos=tuple(["NOUN", "VERB", "ADP"][number % 3] for number in range(count)),
        xpos=("_",) * count,
        lemmas=tuple([f"lemma{number % 5}" for number in range(count)]),
        feats=tuple(["Case=Nom|Number=Sing", "_", "Number=Sing"][number % 3] for number in range(count)),
        heads=tuple(heads),
        labels=tuple(labels or ["root" if head == 0 else ["subject", "object"][head % 2] for head in heads]),
        identifier="made up",
        line=1,
        lines=(),
        word_lines=(),
    )


@dataclass
class Configuration:
    """The configuration of one sentence, with stack and buffer as Python lists."""

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

    def after(self, name: str) -> Configuration:
        """A copy to which the transition was applied."""
        copy = replace(self, stack=[*self.stack], heads={**self.heads})
        copy.buffer = [*self.buffer]
        copy.apply(name)
        return copy

    def may_have_root(self, word: int) -> bool:
        """Whether ROOT is the head of the word, or can still become it."""
        if word in self.heads or 0 in self.heads.values():
            return self.heads.get(word) == 0
        below = {"arc-eager": [], "arc-hybrid": self.stack[1:2], "arc-standard": self.stack[1:]}
        return word in self.buffer or word in below[self.system]

    def tree(self) -> tuple[int, ...]:
        return tuple(self.heads[word] for word in range(1, self.length + 1))


class PlainProbabilities:
    """Probabilities of labelled arcs: the transition's, and for ROOT's arcs also of keeping ROOT possible."""

    def __init__(self, length: int):
        self.of_arcs: dict[int, float] = {}
        self._left = dict.fromkeys(range(1, length + 1), 1.0)

    def add(self, before: Configuration, of_kinds: Mapping[str, float], name: str, labelled: float) -> None:
        """of_kinds: the probabilities of all unlabelled transitions. name: the transition that is taken.
        labelled: its probability with its label."""
        after = {kind: before.after(kind) for kind in before.legal()}
        for word in after[name].heads.keys() - before.heads.keys():
            is_from_root = after[name].heads[word] == 0
            self.of_arcs[word] = labelled * self._left[word] if is_from_root else labelled
        for word in self._left:
            self._left[word] *= sum(of_kinds[kind] for kind in after if after[kind].may_have_root(word))


def make_inventory(system: str, labels: int = 4, composition: bool = False) -> Inventory:
    """An inventory in which label 1 is for arcs from ROOT, and labels from 2 are for arcs from words."""
    named = transition_system(system, composition)
    return Inventory.build(named, labels, frozenset(range(2, labels)), frozenset([1]))


def plain_label_scores(scorer, root, words, heads):
    """[words, labels] scores. words: the vectors of one sentence."""
    candidates = [root, *words]
    return torch.stack([
        scorer.labels((scorer.head(candidates[head]) + scorer.dependent(word)).relu())
        for word, head in zip(words, heads, strict=True)
    ])  # fmt: skip


def plain_words(encoder: TokenEncoder, tokens: Tokens) -> list[torch.Tensor]:
    """The word vectors of one sentence, computed word by word."""
    words = []
    for numbers in tokens.values.tolist():
        parts = []
        for column, embedding in enumerate(encoder.embeddings.values()):
            if column not in tokens.parts:
                parts.append(embedding.weight[numbers[column]])
                continue
            string = tokens.parts[column].unflatten()[numbers[column]].tolist()
            parts.append(plain_string(embedding, string))
        words.append(F.relu(encoder.join(torch.cat(parts))))
    if encoder.sentence_encoder is None:
        return words
    return list(encoder.sentence_encoder(torch.stack(words))[0])


def words_above_tags(network: StackParser, words: list[torch.Tensor]) -> list[torch.Tensor]:
    """The vectors of the words of one sentence for a parser that reads the tags predicted from them."""
    inputs = []
    for word in words:
        read = [word]
        for column, classifier in network.tags.items():
            embedding = network.layers_above_tags.embeddings[column].weight.T  # [lexicon, size]
            probabilities = classifier(word).softmax(0)
            read.append(sum(p * row for p, row in zip(probabilities, embedding, strict=True)))
        inputs.append(torch.cat(read))
    return list(network.layers_above_tags.lstm(torch.stack(inputs))[0])


def plain_string(embedding: torch.nn.Module, parts: list[int]) -> torch.Tensor:
    """The vector of a string from its features (summed) or its characters (convolved, or read)."""
    if isinstance(embedding, CharacterLSTM):
        states, size = embedding.lstm(embedding.embedding.weight[parts])[0], embedding.lstm.hidden_size
        return torch.cat([states[-1, :size], states[0, size:]])
    if not isinstance(embedding, CharacterEncoder):
        return sum(
            (embedding.parts.weight[part] for part in parts), torch.zeros_like(embedding.parts.weight[0])
        )
    vectors = embedding.characters.weight
    maxima = []
    for width, filters, bias in zip(embedding.widths, embedding.filters, embedding.biases, strict=True):
        weights = filters.weight.view(width, -1, vectors.shape[1])  # [width, filters, character]
        values = []
        for place in range(len(parts)):
            window = [place + shift - width // 2 for shift in range(width)]
            inside = [parts[p] if 0 <= p < len(parts) else embedding.outside for p in window]
            values.append(sum(weights[n] @ vectors[character] for n, character in enumerate(inside)))
        maxima.append(F.relu(torch.stack(values).max(0).values + bias))
    return torch.cat(maxima)


class PlainParser:
    """The network of `StackParser` over one sentence at a time, its StackLSTM a Python list."""

    def __init__(self, network: StackParser, inventory: Inventory, tokens: Tokens):
        """tokens: the tokens of one sentence."""
        self.network, self.inventory = network, inventory
        encoder = network.tokens
        self.words = plain_words(encoder, tokens)
        if network.layers_above_tags:
            self.words = words_above_tags(network, self.words)
        self.front = [*self.words, encoder.end][0]
        """The vector of B0."""
        self.vectors = [encoder.root]
        """The vectors on the stack."""
        self.states = [self.cell(network.stack, encoder.root, None)]
        self.history = self.cell(network.history, network.transition_embeddings.weight[inventory.no_op], None)
        self.configuration = Configuration(inventory.system.name, tokens.words)

    @staticmethod
    def cell(lstm: torch.nn.LSTM, inputs: torch.Tensor, state: tuple | None) -> tuple:
        _, state = lstm(inputs[None], state)
        return state

    def scores(self) -> torch.Tensor:
        """[transitions] Scores, with -inf for illegal transitions."""
        network = self.network
        later = [self.words[word - 1] for word in self.configuration.buffer[1:]]
        frames = (
            [network.tokens.end, *reversed(later), self.front] if self.configuration.buffer else [self.front]
        )
        buffer = network.buffer(torch.stack(frames))[0][-1]
        stack_top, history_top = self.states[-1][0][-1], self.history[0][-1]
        joined = (
            network.from_stack(stack_top) + network.from_buffer(buffer) + network.from_history(history_top)
        )
        if network.from_words:
            below = self.vectors[-2] if len(self.vectors) > 1 else self.vectors[-1]
            words = (self.vectors[-1], below, self.front)
            for vector, weight in zip(words, network.from_words.weight.chunk(3), strict=True):
                joined = joined + weight @ vector
        scores = network.scores(F.relu(joined))
        return scores.masked_fill(~self.legal(), float("-inf"))

    def legal(self) -> torch.Tensor:
        """[transitions] bool: the legal labelled transitions."""
        names, known = self.configuration.legal(), self.inventory.known
        return torch.tensor(
            [self.name(number) in names and bool(known[number]) for number in range(len(known))]
        )

    def name(self, transition: int) -> str:
        return self.inventory.system.transitions[int(self.inventory.kind[transition])].name

    def take(self, transition: int) -> None:
        name, system = self.name(transition), self.configuration.system
        composed = self.composed(name, transition) if self.network.composition else None
        self.configuration.apply(name)
        if name == "Shift":
            self.push(self.front)
        elif system == "arc-eager" and name in ("Right-Arc", "Root-Arc"):
            self.push(self.front if composed is None else composed)
        elif system == "arc-standard" and name == "Left-Arc":
            top = self.vectors[-1]
            self.pop(2)
            self.push(top if composed is None else composed)
        elif name == "Right-Arc" and composed is not None:
            self.pop(2)
            self.push(composed)
        else:
            self.pop(1)
        buffer = self.configuration.buffer
        if name == "Left-Arc" and system != "arc-standard":
            self.front = self.front if composed is None else composed
        elif name == "Shift" or (system == "arc-eager" and name in ("Right-Arc", "Root-Arc")):
            self.front = self.words[buffer[0] - 1] if buffer else self.network.tokens.end
        self.history = self.cell(
            self.network.history, self.network.transition_embeddings.weight[transition], self.history
        )

    def composed(self, name: str, transition: int) -> torch.Tensor | None:
        """g(head, dependent, transition); None if the transition composes nothing."""
        system, top = self.configuration.system, self.vectors[-1]
        below = self.vectors[-2] if len(self.vectors) > 1 else None
        if name in ("Shift", "Reduce") or (name == "Root-Arc" and system != "arc-eager"):
            return None
        if system == "arc-eager" and name != "Left-Arc":
            head, dependent = top, self.front
        elif name == "Right-Arc":
            head, dependent = below, top
        elif system == "arc-standard":
            head, dependent = top, below
        else:
            head, dependent = self.front, top
        composition = self.network.composition
        joined = composition.join(torch.cat([head, dependent]))
        return torch.tanh(joined + composition.transitions.weight[transition])

    def push(self, vector: torch.Tensor) -> None:
        self.states.append(self.cell(self.network.stack, vector, self.states[-1]))
        self.vectors.append(vector)

    def pop(self, count: int) -> None:
        del self.states[-count:], self.vectors[-count:]

    def loss(self, transitions: Sequence[int]) -> torch.Tensor:
        """The loss of a known trajectory, summed over its transitions."""
        total = torch.zeros((), dtype=self.front.dtype)
        for transition in transitions:
            total = total + self.step_loss([transition])
            self.take(transition)
        return total

    def step_loss(self, optimal: Sequence[int]) -> torch.Tensor:
        """-log p(optimal transitions). An unknown label stands for all labels of the kind of transition."""
        inventory, allowed = self.inventory, set()
        for transition in optimal:
            same = [n for n in range(len(inventory)) if inventory.kind[n] == inventory.kind[transition]]
            allowed |= {transition} if inventory.known[transition] else set(same)
        probabilities = self.scores().softmax(0)
        return -probabilities[sorted(allowed)].sum().log()

    def parse(self) -> tuple[tuple[int, ...], list[int], list[float]]:
        """Parse greedily: heads, label numbers, and the probabilities of the labelled arcs."""
        labels: dict[int, int] = {}
        probabilities = PlainProbabilities(self.configuration.length)
        while not self.configuration.finished():
            shares = self.scores().softmax(0).tolist()
            transition = shares.index(max(shares))
            before = set(self.configuration.heads)
            of_kinds: Counter[str] = Counter()
            for number, share in enumerate(shares):
                of_kinds[self.name(number)] += share
            probabilities.add(self.configuration, of_kinds, self.name(transition), shares[transition])
            self.take(transition)
            for dependent in self.configuration.heads.keys() - before:
                labels[dependent] = int(self.inventory.label[transition])
        heads = self.configuration.tree()
        words = range(1, len(heads) + 1)
        return heads, [labels[word] for word in words], [probabilities.of_arcs[word] for word in words]
