"""Files of image features."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.speed.tasks.programs.examples import Features

IMAGES = np.random.default_rng(1).normal(size=(6, 3, 4, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def h5py() -> ModuleType:
    return pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def path(h5py, tmp_path_factory) -> Path:
    return write(h5py, tmp_path_factory.mktemp("features") / "features.h5", IMAGES)


def write(h5py: ModuleType, path: Path, content: object, name: str = "features") -> Path:
    with h5py.File(path, "w") as file:
        file[name] = content
    return path


@given(st.lists(st.integers(0, 5), max_size=12))
def test_images_in_any_order(path, images):
    found = Features(path).of(images)
    assert Features(path).shape == (6, 3, 4, 5)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.from_numpy(IMAGES[images].reshape(-1, 3, 4, 5)), rtol=0, atol=0)


def test_half_the_precision_becomes_the_whole(h5py, tmp_path):
    found = Features(write(h5py, tmp_path / "half.h5", IMAGES.astype(np.float16))).of([2])
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[0], torch.from_numpy(IMAGES[2]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (None, "", "not a readable HDF5 file"),
        (b"features", "", "not a readable HDF5 file"),
        (IMAGES, "images", "there is no dataset 'features'"),
        (IMAGES, "features/train", "there is no dataset 'features'"),
        (IMAGES[0], "features", r"'features' must be numbers .*, and is float32 \[3, 4, 5\]"),
        (np.zeros((6, 3, 4, 5), int), "features", r"'features' must be .*, and is int64 \[6, 3, 4, 5\]"),
    ],
)
def test_what_is_no_file_of_features(h5py, tmp_path, content, name, message):
    path = tmp_path / "features.h5"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        write(h5py, path, content, name)
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        Features(path)


@pytest.mark.parametrize("image", [6, -1])
def test_an_image_beyond_the_file(path, image):
    with pytest.raises(ValueError, match=f"^{path}: there is no image {image}: it holds 6"):
        Features(path).of([0, image])


def test_without_h5py(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"features\.h5: .* pip install 'h5py>="):
        Features(tmp_path / "features.h5")
