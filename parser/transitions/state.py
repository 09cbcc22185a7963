"""Where a batch of parsers stands: stacks, buffers and the arcs so far, as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.treebank.sentence import NO_HEAD


@dataclass
class State:
    """The configurations of a batch. Changed in place by `Inventory.apply`.

    Words count from 1 in each sentence and ROOT is 0. Facts about words lie in flat tensors [words + 1],
    sentence after sentence; `base` + word is a word's place there, and the last place belongs to no word.
    """

    stack: Tensor
    """[batch, capacity] Words, ROOT at the bottom."""
    depth: Tensor
    """[batch] Height of the stack, ROOT included."""
    front: Tensor
    """[batch] B0, the buffer's first word; length + 1 when the buffer is empty."""
    length: Tensor
    """[batch] Words of the sentence."""
    base: Tensor
    """[batch] Place of the sentence's first word in the flat tensors, less 1."""
    headless: Tensor
    """[batch] Words on the stack, ROOT not counted, that have no head."""
    heads: Tensor
    """[words + 1] Head of every word so far, NO_HEAD for none."""
    labels: Tensor
    """[words + 1] Label of the arc to every word."""

    @classmethod
    def initial(cls, lengths: Tensor, batch: int | None = None, device: torch.device | None = None) -> State:
        """ROOT on the stacks, all words in the buffers.

        lengths: [sentences], on the host, so that nothing waits for the device. The first `batch` sentences,
        all unless said, have states; the flat tensors have room for every sentence.
        """
        total, longest = int(lengths.sum()), int(lengths.max())
        lengths = to_device(lengths, device or lengths.device)
        started = lengths[:batch]
        return cls(
            stack=lengths.new_zeros(len(started), longest + 1),
            depth=torch.ones_like(started),
            front=torch.ones_like(started),
            length=started.clone(),
            base=(lengths.cumsum(0) - lengths - 1)[:batch],
            headless=torch.zeros_like(started),
            heads=lengths.new_full((total + 1,), NO_HEAD),
            labels=lengths.new_zeros(total + 1),
        )

    def top(self, below: int = 0) -> Tensor:
        """[batch] S0, or S1 with `below` 1; ROOT where the stack ends."""
        place = (self.depth - 1 - below).clamp(min=0)
        return self.stack.gather(1, place[:, None]).squeeze(1)

    def on_stack(self) -> Tensor:
        """[batch, capacity] bool, which places of `stack` are filled."""
        return torch.arange(self.stack.shape[1], device=self.depth.device) < self.depth[:, None]

    def has_on_stack(self, word: Tensor) -> Tensor:
        """[batch] Whether the words [batch], or ROOT, are on the stacks."""
        return ((self.stack == word[:, None]) & self.on_stack()).any(1)

    def words(self) -> Tensor:
        """[places, batch] The words at S0, S1, B0 and, -1, nowhere: the order of `system.Place`."""
        nowhere = torch.full_like(self.front, -1)
        return torch.stack([self.top(), self.top(below=1), self.front, nowhere])

    def flat_index(self, word: Tensor) -> Tensor:
        """[..., batch] Places of words [..., batch] in the flat tensors; the last for no word."""
        exists = (word > 0) & (word <= self.length)
        return torch.where(exists, self.base + word, len(self.heads) - 1)

    def head_of(self, word: Tensor) -> Tensor:
        """[batch] Head so far of the words [batch]; NO_HEAD for none."""
        return self.heads[self.flat_index(word)]
