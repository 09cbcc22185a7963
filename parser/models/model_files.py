"""The files of a model: in a folder, or in a package made by `stack-parser pack`.

A package is a zip file. Its weights are stored as they are; its texts, whose size is limited, are
compressed. All files are read in place: nothing is extracted. An ensemble has a folder for the files of each
model: `model-1` and so on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

from safetensors import safe_open
from safetensors.torch import load, load_file
from torch import Tensor

from parser.models.model_format import DOCUMENTS, MAX_BYTES, NEEDED, SCORES, SETTINGS
from parser.system.files import atomic_file, named_errors, names_in, readable

MEMBER = "model-"
DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members, so that packages of equal models are equal."""
DAMAGED = zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, struct.error
"""Exceptions from reading a package that is damaged, encrypted or compressed in another way."""
HEADER_LENGTH = 8
"""Bytes of the number at the start of a safetensors file."""
Shapes = dict[str, tuple[int, ...]]


class ModelFiles(Protocol):
    name: str
    """The name for messages."""

    def has(self, name: str) -> bool: ...

    def content(self, name: str) -> bytes:
        """The bytes of a file. Raises ValueError if a text is longer than the format allows."""

    def weights(self, name: str) -> dict[str, Tensor]:
        """The tensors of a safetensors file, on the host. Raises what the library raises."""

    def shapes(self, name: str) -> Shapes:
        """The shapes of the tensors, without reading them."""


class Folder:
    def __init__(self, path: Path):
        self._path, self.name = path, str(path)

    def has(self, name: str) -> bool:
        return os.path.isfile(self._path / name)

    def content(self, name: str) -> bytes:
        path = self._path / name
        with named_errors(path), path.open("rb") as file:
            return _read(file, name)

    def weights(self, name: str) -> dict[str, Tensor]:
        return load_file(readable(self._path / name))

    def shapes(self, name: str) -> Shapes:
        with safe_open(readable(self._path / name), "pt") as file:
            return {key: tuple(file.get_slice(key).get_shape()) for key in list(file.keys())}


class Package:
    def __init__(self, path: Path):
        """Raises ValueError if the file is not a package, and OSError if it cannot be opened."""
        self._path, self.name = readable(path), str(path)
        with self._opened("neither a model's folder nor a package of one") as package:
            self._members = {member.filename: member for member in package.infolist()}
        if not any(name_in_model(name) == SETTINGS for name in self._members):
            raise ValueError(f"{path}: neither a model's folder nor a package of one: it has no {SETTINGS}")
        size = path.stat().st_size
        for member in self._members.values():
            # A file without a size limit could be far larger than the package.
            is_stored = member.compress_type == zipfile.ZIP_STORED
            if is_stored and member.file_size != member.compress_size:
                raise ValueError(f"{path}: {member.filename} has two sizes")
            if not is_stored and member.compress_type != _compression(member.filename):
                raise ValueError(f"{path}: {member.filename} is compressed, as only texts are")
            if member.header_offset + member.compress_size > size:
                raise ValueError(f"{path}: {member.filename} is cut")

    def has(self, name: str) -> bool:
        return name in self._members

    def content(self, name: str) -> bytes:
        with self._opened(name) as package, package.open(name) as file:
            return _read(file, name)

    def weights(self, name: str) -> dict[str, Tensor]:
        return load(self.content(name))

    def shapes(self, name: str) -> Shapes:
        with self._opened(name) as package, package.open(name) as file:
            length = int.from_bytes(file.read(HEADER_LENGTH), "little")
            if length > self._members[name].file_size:
                raise ValueError(f"{name} is cut")
            header: dict[str, Any] = json.loads(file.read(length))
        return {key: tuple(own["shape"]) for key, own in header.items() if key != "__metadata__"}

    @contextmanager
    def _opened(self, what: str) -> Iterator[zipfile.ZipFile]:
        """Open the package. Raises ValueError that mentions `what` if the package is damaged."""
        try:
            with zipfile.ZipFile(self._path) as package:
                yield package
        except DAMAGED as error:
            reason = str(error) or "the file is cut"
            raise ValueError(f"{self._path}: {what}: {reason}") from None


class MemberFiles:
    """The files of one model of an ensemble."""

    def __init__(self, files: ModelFiles, folder: str):
        self._files, self._folder = files, folder
        self.name = f"{files.name}, {folder}"

    def has(self, name: str) -> bool:
        return self._files.has(self._inside(name))

    def content(self, name: str) -> bytes:
        return self._files.content(self._inside(name))

    def weights(self, name: str) -> dict[str, Tensor]:
        return self._files.weights(self._inside(name))

    def shapes(self, name: str) -> Shapes:
        return self._files.shapes(self._inside(name))

    def _inside(self, name: str) -> str:
        return f"{self._folder}/{name}"


def _read(file: IO[bytes], name: str) -> bytes:
    most = _most_bytes(name)
    content = file.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise ValueError(f"{name}: longer than {most:,} bytes")
    return content


def name_in_model(name: str) -> str:
    """The name of a file without the folder of a model of an ensemble."""
    return re.sub(rf"^{MEMBER}\d+/", "", name)


def _most_bytes(name: str) -> int | None:
    """The size limit of a text; None for weights."""
    return MAX_BYTES.get(name_in_model(name))


def _compression(name: str) -> int:
    """The compression of a member of a package: texts shrink to a third, weights hardly at all."""
    return zipfile.ZIP_STORED if _most_bytes(name) is None else zipfile.ZIP_DEFLATED


def text_of(files: ModelFiles, name: str) -> str:
    """The text of a file. Raises ValueError if it is not UTF-8 or longer than the format allows."""
    try:
        return files.content(name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not UTF-8: {error.reason} at byte {error.start:,}") from None


def model_files(path: Path) -> ModelFiles:
    """The files of a folder or a package. Raises ValueError for a file that is not a package."""
    return Package(path) if os.path.isfile(path) else Folder(path)


def refuse_without_model(files: ModelFiles) -> None:
    """Raises ValueError if there is no model; the message names a subfolder that contains one."""
    if files.has(SETTINGS) or files.has(f"{member_folder(1)}/{SETTINGS}"):
        return
    if not os.path.lexists(files.name):
        raise ValueError(
            f"{files.name}: there is no such file or folder, nor a model of that name: installed, in "
            "the folder that PARSER_MODELS names, or in models/ of the checkout"
        )
    names = [] if os.path.isfile(files.name) else names_in(files.name)
    inside = [name for name in names if files.has(f"{name}/{SETTINGS}")]
    meant = f"; did you mean {Path(files.name, inside[0])}?" if inside else ""
    raise ValueError(f"{files.name}: not a model's folder, {missing_files(files)}{meant}")


def missing_files(files: ModelFiles) -> str:
    """The missing files of a model, as a part of a message; empty if none is missing."""
    names = [name for name in NEEDED if not files.has(name)]
    return f"{', '.join(names)} missing" if names else ""


def members_of(files: ModelFiles) -> list[ModelFiles]:
    """The files of each model of an ensemble, or of the only model."""
    folders = takewhile(lambda folder: files.has(f"{folder}/{SETTINGS}"), map(member_folder, count(1)))
    return [MemberFiles(files, folder) for folder in folders] or [files]


def member_folder(number: int) -> str:
    """The folder of a model of an ensemble. number: starts at 1."""
    return f"{MEMBER}{number}"


def pack(files: Mapping[str, bytes], output: Path) -> None:
    """Write a package. It appears under its name when it is complete."""
    with atomic_file(str(output)) as file:
        write_package(files, file)


def write_package(files: Mapping[str, bytes], file: BinaryIO) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as package:
        for name, content in files.items():
            package.writestr(zipfile.ZipInfo(name, DATE), content, _compression(name))


def digest_of(models: Sequence[Path]) -> str:
    """A hash of the files in folders and packages, except those that only people read."""
    found = hashlib.sha256()
    for model in models:
        paths = sorted(path for path in model.rglob("*") if path.is_file()) if model.is_dir() else [model]
        for path in paths:
            if path.name not in (SCORES, *DOCUMENTS):
                found.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
