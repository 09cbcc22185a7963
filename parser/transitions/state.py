"""Parser states of a batch: stacks, buffers and arcs as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.treebank.sentence import NO_HEAD


@dataclass
class State:
    """The states of a batch of parsers, changed in place by `Inventory.apply`.

    In each sentence ROOT is 0 and words have numbers from 1. Flat tensors [words + 1] have an element for
    each word, sentence by sentence: that of a word has the index `base` + word, and the last element is for
    no word.
    """

    stack: Tensor
    """[batch, capacity] Words on the stack, from ROOT at the bottom."""
    depth: Tensor
    """[batch] Number of words on the stack, including ROOT."""
    front: Tensor
    """[batch] B0, the first word of the buffer; length + 1 if the buffer is empty."""
    length: Tensor
    """[batch] Number of words in the sentence."""
    base: Tensor
    """[batch] Index in flat tensors of the first word of the sentence, minus 1."""
    headless: Tensor
    """[batch] Number of words on the stack, without ROOT, that have no head."""
    heads: Tensor
    """[words + 1] Head of each word; NO_HEAD if it has none yet."""
    labels: Tensor
    """[words + 1] Label of the arc to each word."""

    @classmethod
    def initial(cls, lengths: Tensor, batch: int | None = None, device: torch.device | None = None) -> State:
        """Initial states: ROOT on the stacks, all words in the buffers.

        lengths: [sentences], on the host, to avoid a synchronisation. batch: number of states, for the first
        sentences; by default all. The flat tensors have elements for the words of all sentences.
        """
        total, longest = int(lengths.sum()), int(lengths.max())
        lengths = to_device(lengths, device or lengths.device)
        started = lengths[:batch]
        return cls(
            stack=lengths.new_zeros(len(started), longest + 1),
            depth=torch.ones_like(started),
            front=torch.ones_like(started),
            length=started.clone(),
            base=(lengths.cumsum(0) - lengths - 1)[:batch].clone(),
            headless=torch.zeros_like(started),
            heads=lengths.new_full((total + 1,), NO_HEAD),
            labels=lengths.new_zeros(total + 1),
        )

    def top(self, below: int = 0) -> Tensor:
        """[batch] S0, or S1 for `below` = 1; ROOT if the stack has fewer words."""
        index = (self.depth - 1 - below).clamp(min=0)
        return self.stack.gather(1, index[:, None]).squeeze(1)

    def on_stack(self) -> Tensor:
        """[batch, capacity] bool: the used part of `stack`."""
        return torch.arange(self.stack.shape[1], device=self.depth.device) < self.depth[:, None]

    def has_on_stack(self, word: Tensor) -> Tensor:
        """[batch] bool: the words [batch], or ROOT, are on the stack."""
        return ((self.stack == word[:, None]) & self.on_stack()).any(1)

    def words(self) -> Tensor:
        """[places, batch] The words at S0, S1, B0 and NOWHERE (-1), in the order of `system.Place`."""
        nowhere = torch.full_like(self.front, -1)
        return torch.stack([self.top(), self.top(below=1), self.front, nowhere])

    def flat_index(self, word: Tensor) -> Tensor:
        """[..., batch] Indices in flat tensors of the words [..., batch]; the last index for no word."""
        exists = (word > 0) & (word <= self.length)
        return torch.where(exists, self.base + word, len(self.heads) - 1)

    def head_of(self, word: Tensor) -> Tensor:
        """[batch] Heads of the words [batch]; NO_HEAD for words without heads."""
        return self.heads[self.flat_index(word)]
