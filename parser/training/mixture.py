"""Which of the training trees an epoch draws: those of several treebanks, and silver ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from parser.treebank_settings import TreebankSettings


@dataclass(frozen=True)
class Mixture:
    """Training trees are numbered: those of the first treebank, those of the others, and the silver ones."""

    sizes: Mapping[str, int]
    """Trees of each treebank by its name."""
    silver: int
    """Silver trees."""
    settings: TreebankSettings

    def __str__(self) -> str:
        """The sizes, as the beginning of a list for people; empty if there is one treebank and no silver."""
        told = [f"{name} {size:,}" for name, size in self.sizes.items()]
        silver = [f"silver {self.silver:,}"] if self.silver else []
        return "".join(f"{part}, " for part in [*told, *silver]) if len(told) > 1 or silver else ""

    def draw(self, epoch: int, generator: torch.Generator) -> Tensor:
        """[drawn] The numbers of the trees of an epoch, in no particular order."""
        gold = list(self.sizes.values())
        firsts = accumulate(gold, initial=0)
        sizes = [*gold, self.silver]
        counts = [*drawn_counts(gold, self.settings.sampling_exponent), self._drawn_silver(epoch)]
        parts = [
            first + _draw(size, count, generator)
            for first, size, count in zip(firsts, sizes, counts, strict=True)
        ]
        return torch.cat(parts)

    def _drawn_silver(self, epoch: int) -> int:
        settings = self.settings.silver
        if not settings or (settings.epochs and epoch > settings.epochs):
            return 0
        return max(1, round(settings.share * self.silver))


def drawn_counts(sizes: Sequence[int], exponent: float) -> list[int]:
    """How many trees of each treebank are drawn, of as many in all as there are: see `sampling_exponent`."""
    weights = torch.tensor(sizes, dtype=torch.double) ** exponent
    ends = (weights.cumsum(0) / weights.sum() * sum(sizes)).round().long()
    return torch.diff(ends, prepend=ends.new_zeros(1)).tolist()


def _draw(size: int, count: int, generator: torch.Generator) -> Tensor:
    """[count] Each of `size` numbers as often as any other, up to one."""
    every = torch.arange(size).repeat(count // size if size else 0)
    rest = count - len(every)
    return torch.cat([every, torch.randperm(size, generator=generator)[:rest]]) if rest else every
