"""A plain parser, one sentence and one operation at a time, with which tests compare the batched network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from plain_transitions import Configuration, PlainProbabilities

from parser.networks.character_encoder import CharacterEncoder
from parser.networks.stack_parser import StackParser
from parser.networks.token_encoder import TokenEncoder
from parser.transitions.inventory import Inventory
from parser.treebank.vocabulary import Tokens


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
    """The vector of a string from its features (summed) or its characters (convolved)."""
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
        found = PlainProbabilities(self.configuration.length)
        while not self.configuration.finished():
            scores = self.scores()
            transition = int(scores.argmax())
            before = set(self.configuration.heads)
            all_probabilities = scores.softmax(0).tolist()
            of_kinds: Counter[str] = Counter()
            for number, probability in enumerate(all_probabilities):
                of_kinds[self.name(number)] += probability
            found.add(self.configuration, of_kinds, self.name(transition), all_probabilities[transition])
            self.take(transition)
            for dependent in self.configuration.heads.keys() - before:
                labels[dependent] = int(self.inventory.label[transition])
        heads = self.configuration.tree()
        words = range(1, len(heads) + 1)
        return heads, [labels[word] for word in words], [found.of_arcs[word] for word in words]
