import gzip
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from parser.speed.tasks.digits.mnist_mlp_plugin import (
    DRAWN_TOGETHER,
    generate_digits,
    read_images,
    read_labels,
)


def idx(shape: Sequence[int], content: bytes) -> bytes:
    header = bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)
    return header + content


def write(folder: Path, content: bytes) -> Path:
    path = folder / "some-idx-ubyte"
    path.write_bytes(content)
    return path


def untouched(content: bytes) -> bytes:
    return content


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from([untouched, gzip.compress]),
    st.randoms(),
)
def test_images_of_any_size(tmp_path_factory, shape, packed, draw):
    pixels = draw.randbytes(math.prod(shape))
    found = read_images(write(tmp_path_factory.mktemp("mnist"), packed(idx(shape, pixels))))
    assert found.dtype == torch.uint8
    assert found.shape == shape
    assert bytes(found.flatten().tolist()) == pixels


@given(st.binary(max_size=9).map(lambda content: bytes(byte % 10 for byte in content)))
def test_labels(tmp_path_factory, digits):
    found = read_labels(write(tmp_path_factory.mktemp("mnist"), idx([len(digits)], digits)))
    assert found.dtype == torch.int64
    assert found.tolist() == list(digits)


def test_images_can_be_written_to(tmp_path):
    found = read_images(write(tmp_path, idx([1, 1, 2], b"\1\2")))
    found += 1
    assert found.tolist() == [[[2, 3]]]


IMAGES = idx([2, 1, 3], bytes(6))
LABELS = idx([3], b"\1\2\3")


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_images, b"", "not an idx file of images: it begins with nothing, not with 00 00 08 03"),
        (read_images, LABELS, "not an idx file of images: it begins with 00 00 08 01, not with 00 00 08 03"),
        (read_labels, IMAGES, "not an idx file of labels: it begins with 00 00 08 03, not with 00 00 08 01"),
        (read_labels, b"\0\0\x0d\1", "not an idx file of labels: it begins with 00 00 0d 01, not with"),
        (read_images, IMAGES[:9], "its header must have 16 bytes, and the file ends after 9"),
        (read_labels, LABELS[:4], "its header must have 8 bytes, and the file ends after 4"),
        (read_images, IMAGES[:-1], "2 x 1 x 3 bytes of images must follow its header, 6 in all, and 5 do"),
        (read_images, IMAGES + b"\0", "2 x 1 x 3 bytes of images must follow its header, 6 in all, and 7 do"),
        (read_labels, LABELS[:-1], "3 bytes of labels must follow its header, 3 in all, and 2 do"),
        (read_labels, LABELS + b"\0", "3 bytes of labels must follow its header, 3 in all, and 4 do"),
        (read_labels, idx([3], b"\1\x0a\x0b"), "label 1, counted from 0, is 10, which is no digit"),
        (read_images, gzip.compress(IMAGES, mtime=0)[:-9], "not a complete gzip file: "),
        (read_images, gzip.compress(IMAGES, mtime=0) + b"more", "not a complete gzip file: "),
        (read_images, gzip.compress(IMAGES, mtime=0)[:10] + b"\xff" * 9, "not a complete gzip file: "),
        (read_images, gzip.compress(IMAGES[:-1], mtime=0), "2 x 1 x 3 bytes of images must follow"),
    ],
)
def test_broken_files(tmp_path, read: Callable[[Path], Tensor], content, message):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        read(path)


@given(st.integers(0, 40), st.integers(0, 1000))
def test_drawn_digits(number, seed):
    images, labels = generate_digits(number, seed)
    assert images.dtype == torch.uint8
    assert images.shape == (number, 28, 28)
    assert labels.dtype == torch.int64
    assert labels.shape == (number,)
    assert ((labels >= 0) & (labels < 10)).all()


def test_every_digit_is_drawn_about_as_often():
    counts = generate_digits(2 * DRAWN_TOGETHER + 1, seed=1)[1].bincount()
    assert len(counts) == 10
    assert counts.min() > 70


def test_the_seed_decides():
    one, again, other = (generate_digits(20, seed) for seed in (1, 1, 2))
    assert torch.equal(one[0], again[0])
    assert torch.equal(one[1], again[1])
    assert not torch.equal(one[0], other[0])


def test_ink_lies_on_a_ground_and_within_the_image():
    images, labels = generate_digits(1000, seed=1)
    assert images[:, ::27].float().mean() < 30
    assert images[:, :, ::27].float().mean() < 30
    ink = images.flatten(1).float().mean(dim=1)
    assert ink[labels == 8].mean() > 1.5 * ink[labels == 1].mean()
    assert images.flatten(1).amax(dim=1).min() > 200


def named(network: nn.Module, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> float:
    """The share of the test digits that the network classifies correctly after training."""
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    images, labels = train[0].float().flatten(1) / 255, train[1]
    for _ in range(8):
        for some in torch.randperm(len(labels)).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[some]), labels[some]).backward()
            optimizer.step()
    found = network(test[0].float().flatten(1) / 255).argmax(dim=1)
    return (found == test[1]).float().mean().item()


@pytest.mark.extended
def test_they_can_be_learned_but_not_by_templates():
    train, test = generate_digits(5000, seed=1), generate_digits(1000, seed=2)
    linear = named(nn.Linear(784, 10), train, test)
    assert 0.6 < linear < 0.9
    assert (
        named(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), train, test) > linear + 0.05
    )


@pytest.mark.real_data
def test_the_original_test_set(treebanks: Path):
    folder = treebanks.parent / "mnist"
    if not folder.is_dir():
        pytest.skip(f"no mnist/ in {treebanks.parent}")
    images = read_images(folder / "t10k-images-idx3-ubyte.gz")
    labels = read_labels(folder / "t10k-labels-idx1-ubyte.gz")
    assert images.shape == (10_000, 28, 28)
    assert labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert labels[:5].tolist() == [7, 2, 1, 0, 4]
    # A 1 is a line, a 0 a ring: the middle tells them apart.
    middle = images[:, 12:16, 12:16].float().mean(dim=(1, 2))
    assert middle[labels == 1].mean() > 150
    assert middle[labels == 0].mean() < 25
