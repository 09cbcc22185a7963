"""Image features by image number: from a file of features, painted from scenes, or random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from parser.speed.tasks.programs.scenes import Scene, paint
from parser.system.version import to_install

DATASET = "features"


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


class Features:
    """Reads features on demand, because a whole data set does not fit into memory."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError if the file or its dataset is missing or malformed."""
        self._path = path
        self._features = _open(path)
        if self._features.ndim != 4 or self._features.dtype.kind != "f":
            raise ValueError(
                f"{path}: {DATASET!r} must be numbers [images, channels, height, width], and is "
                f"{self._features.dtype} {list(self._features.shape)}"
            )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The numbers of images and channels, the height, and the width."""
        return self._features.shape

    def of(self, images: Sequence[int]) -> Tensor:
        """[len(images), channels, height, width] Raises ValueError for an image that is not in the file."""
        # HDF5 requires increasing indices without repetitions.
        distinct, places = np.unique(np.array(images, dtype=np.int64), return_inverse=True)
        for image in distinct:
            if not 0 <= image < len(self._features):
                raise ValueError(f"{self._path}: there is no image {image}: it holds {len(self._features)}")
        features = self._features[distinct].astype(np.float32, copy=False)
        return torch.from_numpy(features)[torch.from_numpy(places)]


def _open(path: Path) -> Any:
    """Open the dataset, which keeps its file open."""
    try:
        import h5py
    except ImportError:
        raise ValueError(f"{path}: reading it takes h5py: {to_install('clevr')}") from None
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path}: not a readable HDF5 file: {error}") from None
    if not isinstance(dataset := file.get(DATASET), h5py.Dataset):
        raise ValueError(f"{path}: there is no dataset {DATASET!r} in it")
    return dataset
