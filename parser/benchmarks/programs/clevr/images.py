"""Image features by image number, without a file of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from parser.benchmarks.programs.clevr.scenes import Scene, paint


class Images(Protocol):
    def of(self, images: Sequence[int]) -> Tensor:
        """[len(images), channels, side, side] The features of these images."""


class PaintedImages:
    """Features rendered from scene annotations, as a perfect feature extractor would produce them."""

    def __init__(self, scenes: Mapping[int, Scene], channels: int, side: int, seed: int):
        self._scenes, self._channels, self._side, self._seed = scenes, channels, side, seed

    def of(self, images: Sequence[int]) -> Tensor:
        return paint([self._scenes[image] for image in images], self._channels, self._side, self._seed)


class RandomImages:
    """Noise, for measuring speed only."""

    DIFFERENT = 16

    def __init__(self, channels: int, side: int, seed: int):
        generator = torch.Generator().manual_seed(seed)
        self._features = torch.randn(self.DIFFERENT, channels, side, side, generator=generator)

    def of(self, images: Sequence[int]) -> Tensor:
        return self._features[torch.tensor(images) % self.DIFFERENT]
