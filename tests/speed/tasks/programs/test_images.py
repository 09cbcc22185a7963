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


def test_the_shape(path):
    assert Features(path).shape == (6, 3, 4, 5)


@given(st.lists(st.integers(0, 5), max_size=12))
def test_images_in_any_order(path, images):
    found = Features(path).of(images)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.from_numpy(IMAGES[images].reshape(-1, 3, 4, 5)), rtol=0, atol=0)


def test_half_the_precision_becomes_the_whole(h5py, tmp_path):
    found = Features(write(h5py, tmp_path / "half.h5", IMAGES.astype(np.float16))).of([2])
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[0], torch.from_numpy(IMAGES[2]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("image", [6, -1])
def test_an_image_beyond_the_file(path, image):
    with pytest.raises(ValueError, match=f"^{path}: there is no image {image}: it holds 6"):
        Features(path).of([0, image])


def test_a_missing_file(h5py, tmp_path):
    with pytest.raises(ValueError, match=f"^{tmp_path}/none.h5: not a readable HDF5 file"):
        Features(tmp_path / "none.h5")


def test_a_file_of_another_format(h5py, tmp_path):
    path = tmp_path / "features.h5"
    path.write_text("features", encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{path}: not a readable HDF5 file"):
        Features(path)


def test_a_missing_dataset(h5py, tmp_path):
    path = write(h5py, tmp_path / "features.h5", IMAGES, name="images")
    with pytest.raises(ValueError, match=f"^{path}: there is no dataset 'features'"):
        Features(path)


def test_a_group_in_its_place(h5py, tmp_path):
    path = write(h5py, tmp_path / "features.h5", IMAGES, name="features/train")
    with pytest.raises(ValueError, match=f"^{path}: there is no dataset 'features'"):
        Features(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [(IMAGES[0], r"float32 \[3, 4, 5\]"), (np.zeros((6, 3, 4, 5), int), r"int64 \[6, 3, 4, 5\]")],
)
def test_a_dataset_of_something_else(h5py, tmp_path, content, found):
    path = write(h5py, tmp_path / "features.h5", content)
    with pytest.raises(ValueError, match=f"^{path}: 'features' must be numbers .*, and is {found}"):
        Features(path)


def test_without_h5py(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"features\.h5: .* pip install 'h5py>="):
        Features(tmp_path / "features.h5")
