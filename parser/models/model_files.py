"""The files of a model, by their format: in a folder, or in a package made by `stack-parser pack`.

docs/model-format.md describes the files. Code that reads them must expect files from strangers. A package is
a zip file. Its weights are stored as they are; its texts, whose size is limited, are compressed. All files
are read where they are: nothing is extracted. An ensemble has a folder for the files of each model: `model-1`
and so on.
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
from typing import IO, Any, BinaryIO, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from safetensors import safe_open
from safetensors.numpy import load, load_file, save

from parser.models.settings import ParserSettings
from parser.system.console import shortened
from parser.system.files import atomic_file, named_errors, names_in, readable
from parser.system.version import __version__

FORMAT = 1
"""Changes when programs could misread each other's models. No other format is read."""
SETTINGS, VOCABULARY, WEIGHTS, COLUMN_SHARES = (
    "settings.json",
    "vocabulary.json",
    "weights.safetensors",
    "columns.json",
)
NEEDED = SETTINGS, VOCABULARY, WEIGHTS, COLUMN_SHARES
"""Files that every model must have."""
SCORES = "scores.json"
"""For people. Only code that adds to it reads it."""
TOKENIZER = "tokenizer.json"
"""Read when text is parsed. That of a trained kind contains a binary of another library."""
ENHANCED = "enhanced.json"
"""The transducer to enhanced dependencies, of models that have one."""
CONSTRAINTS = "constraints.json"
"""What trees of train never have, of models that have learned that."""
CALIBRATIONS_FILE = "calibrations.json"
"""The calibrations of the probabilities of predicted columns, of models that have them."""
TRANSFORMER_CONFIG, TRANSFORMER_TOKENIZER, TRANSFORMER_WEIGHTS = (
    "transformer/config.json",
    "transformer/tokenizer.json",
    "transformer/model.safetensors",
)
TRANSFORMER_CLASS = "transformer/tokenizer_config.json"
"""For Hugging Face's library, which can read the folder, too. This program does not read the file."""
FILES = (
    *NEEDED,
    SCORES,
    TOKENIZER,
    ENHANCED,
    CONSTRAINTS,
    CALIBRATIONS_FILE,
    TRANSFORMER_CONFIG,
    TRANSFORMER_TOKENIZER,
    TRANSFORMER_CLASS,
    TRANSFORMER_WEIGHTS,
)
CARD, LICENCE = "README.md", "LICENSE.txt"
DOCUMENTS = CARD, LICENCE
"""For people and hubs: what the model is, and the licence of the data that it was trained on."""
MAX_BYTES = {
    CARD: 1 << 20,
    LICENCE: 1 << 20,
    SCORES: 1 << 20,
    SETTINGS: 1 << 18,
    COLUMN_SHARES: 1 << 18,
    VOCABULARY: 1 << 28,
    TOKENIZER: 1 << 26,
    ENHANCED: 1 << 26,
    CONSTRAINTS: 1 << 24,
    CALIBRATIONS_FILE: 1 << 16,
    TRANSFORMER_CONFIG: 1 << 20,
    TRANSFORMER_TOKENIZER: 1 << 28,
    TRANSFORMER_CLASS: 1 << 10,
}
"""Size limits of the texts. Vocabularies with pretrained vectors, and tokenizers, take some ten million."""
ROUNDED = b"\nThe weights were rounded to float16 after these scores were measured.\n"
"""Appended to the card, like a line that begins with the next one."""
ROUNDED_PRODUCTS = b"\nOn a CPU, products of matrices round to 8 bits. "
MEMBER = "model-"
DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members, so that packages of equal models are equal."""
DAMAGED = zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, struct.error
"""Exceptions from reading a package that is damaged, encrypted or compressed in another way."""
HEADER_LENGTH = 8
"""Bytes of the number at the start of a safetensors file."""
Arrays = dict[str, NDArray[Any]]


class StoredArray(NamedTuple):
    type: str
    """By the names of safetensors, such as F32."""
    shape: tuple[int, ...]


class ModelFiles(Protocol):
    name: str
    """The name for messages."""

    def has(self, name: str) -> bool: ...

    def content(self, name: str) -> bytes:
        """The bytes of a file. Raises ValueError if a text is longer than the format allows."""

    def weights(self, name: str) -> Arrays:
        """The arrays of a safetensors file. Raises what the library raises."""

    def stored(self, name: str) -> dict[str, StoredArray]:
        """What the arrays of a safetensors file are, without reading them."""


class Folder:
    def __init__(self, path: Path):
        self._path, self.name = path, str(path)

    def has(self, name: str) -> bool:
        return os.path.isfile(self._path / name)

    def content(self, name: str) -> bytes:
        path = self._path / name
        with named_errors(path), path.open("rb") as file:
            return _read(file, name)

    def weights(self, name: str) -> Arrays:
        return load_file(readable(self._path / name))

    def stored(self, name: str) -> dict[str, StoredArray]:
        with safe_open(readable(self._path / name), "np") as file:
            parts = {key: file.get_slice(key) for key in list(file.keys())}
        return {key: StoredArray(part.get_dtype(), tuple(part.get_shape())) for key, part in parts.items()}


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

    def weights(self, name: str) -> Arrays:
        return load(self.content(name))

    def stored(self, name: str) -> dict[str, StoredArray]:
        with self._opened(name) as package, package.open(name) as file:
            length = int.from_bytes(file.read(HEADER_LENGTH), "little")
            if length > self._members[name].file_size:
                raise ValueError(f"{name} is cut")
            header: dict[str, Any] = json.loads(file.read(length))
        return {
            key: StoredArray(value["dtype"], tuple(value["shape"]))
            for key, value in header.items()
            if key != "__metadata__"
        }

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

    def weights(self, name: str) -> Arrays:
        return self._files.weights(self._inside(name))

    def stored(self, name: str) -> dict[str, StoredArray]:
        return self._files.stored(self._inside(name))

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


def contents(paths: Sequence[Path]) -> dict[str, bytes]:
    """The files of models in folders and packages, as names and contents for a package of all.

    With several models, the documents of the first also become those of the package.
    """
    models = files_of_all(paths)
    folders = [f"{member_folder(number)}/" for number in range(1, len(models) + 1)] if models[1:] else [""]
    packed = {
        f"{folder}{name}": files.content(name)
        for folder, files in zip(folders, models, strict=True)
        for name in (*FILES, *DOCUMENTS)
        if files.has(name)
    }
    documents = {name: models[0].content(name) for name in DOCUMENTS if models[0].has(name)}
    return packed | documents


def in_half_precision(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of one model or of an ensemble, with their weights as float16.

    float16, not bfloat16: weights are small numbers, for which three more bits of precision are worth more
    than a range that none of them needs (`scripts/studies/accuracy/compare_precisions.py`). They are read as
    float32. A frozen transformer stays as it is. Raises ValueError for a weight outside the range of float16.
    """
    changes = {WEIGHTS: _halved, CARD: lambda card: card if ROUNDED in card else card + ROUNDED}
    return {name: changes.get(name_in_model(name), bytes)(content) for name, content in files.items()}


def with_files(files: Mapping[str, bytes], added: Mapping[str, str]) -> dict[str, bytes]:
    """The files of one model or of an ensemble, whose first model gets these texts by their names."""
    settings = next(name for name in (SETTINGS, f"{member_folder(1)}/{SETTINGS}") if name in files)
    folder = settings.removesuffix(SETTINGS)
    changed = {**files, **{f"{folder}{name}": text.encode() for name, text in added.items()}}
    if ENHANCED in added:
        parser = settings_from_json(files[settings].decode()).model_copy(update={"enhanced": True})
        changed[settings] = settings_as_json(parser).encode()
    return changed


def with_rounded_products(files: Mapping[str, bytes], comparison: str) -> dict[str, bytes]:
    """Like `in_half_precision`; and products round to 8 bits on a CPU, see `ParserSettings.int8`.

    comparison: what that changes, for the card.
    """

    def settings(content: bytes) -> bytes:
        parser = settings_from_json(content.decode())
        return settings_as_json(parser.model_copy(update={"int8": True})).encode()

    def card(content: bytes) -> bytes:
        return content.partition(ROUNDED_PRODUCTS)[0] + ROUNDED_PRODUCTS + comparison.encode() + b".\n"

    changes = {SETTINGS: settings, CARD: card}
    halved = in_half_precision(files)
    return {name: changes.get(name_in_model(name), bytes)(content) for name, content in halved.items()}


def _halved(content: bytes) -> bytes:
    weights = load(content)
    largest = float(np.finfo(np.float16).max)
    for name, weight in weights.items():
        if (np.abs(weight) > largest).any():
            raise ValueError(f"{name}: has weights above {largest:,.0f}, the largest number of float16")
    return save({name: weight.astype(np.float16) for name, weight in weights.items()})


def files_of_all(paths: Sequence[Path]) -> list[ModelFiles]:
    """The files of each model."""
    return [files for path in paths for files in members_of(model_files(path))]


def model_paths(folder: Path) -> list[Path]:
    """The files of a folder that belong to a model or to an ensemble."""
    folders = folder, *folder.glob(f"{MEMBER}*")
    names = *FILES, *DOCUMENTS
    return [path for each in folders for path in (each / name for name in names) if path.is_file()]


def digest_of(models: Sequence[Path]) -> str:
    """A hash of the files in folders and packages, except those that only people read."""
    digest = hashlib.sha256()
    for model in models:
        paths = sorted(path for path in model.rglob("*") if path.is_file()) if model.is_dir() else [model]
        for path in paths:
            if path.name not in (SCORES, *DOCUMENTS):
                digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class OtherFormatError(Exception):
    """The model may be sound, but this program does not read its format."""


class _AnySettingsFile(BaseModel):
    """The fields that are expected in settings of any format."""

    format: Any = None
    version: Any = None


class _SettingsFile(BaseModel):
    """The JSON of `settings_as_json`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int
    version: str
    """The version of the program that wrote the file."""
    parser: ParserSettings


def settings_as_json(settings: ParserSettings) -> str:
    content = {"format": FORMAT, "version": __version__, "parser": settings.model_dump()}
    return json.dumps(content, indent=2) + "\n"


def settings_from_json(text: str) -> ParserSettings:
    """Inverse of `settings_as_json`. Raises ValidationError, and OtherFormatError."""
    file = _AnySettingsFile.model_validate_json(text)
    number = file.format
    if type(number) is not int or number != FORMAT:
        named = "a format that it does not name" if number is None else f"format {shortened(repr(number))}"
        by = f", {shortened(file.version)}," if isinstance(file.version, str) else ""
        raise OtherFormatError(
            f"{SETTINGS} has {named}, and this program reads format {FORMAT} only: parse with the "
            f"version{by} that made the model, or train it again"
        )
    return _SettingsFile.model_validate_json(text).parser
