"""Image features in an HDF5 file, as written by the original extract_features.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

DATASET = "features"


class Features:
    """Reads features on demand, because a data set does not fit into memory."""

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
        """Images, channels, height, width."""
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
    """The dataset. It keeps its file open."""
    try:
        import h5py
    except ImportError:
        raise ValueError(f"{path}: reading it takes h5py: pip install -e '.[clevr]'") from None
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path}: not a readable HDF5 file: {error}") from None
    if not isinstance(dataset := file.get(DATASET), h5py.Dataset):
        raise ValueError(f"{path}: there is no dataset {DATASET!r} in it")
    return dataset
