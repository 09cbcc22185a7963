"""A cache of preprocessed treebanks: vocabulary, numbered sentences and oracle trajectories.

The name of a cache file is a hash of its inputs: treebanks, settings and this program. The file starts with a
hash of its content, so that damage is noticed. It contains tensors and JSON, nothing executable.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import load, save
from torch import Tensor

from parser.batching.ragged import Ragged
from parser.config.data_folder import data_path
from parser.models.model import system_of
from parser.models.model_files import digest_of
from parser.models.settings import ParserSettings
from parser.networks.replay.examples import Examples
from parser.networks.replay.flattened import FlatTrajectories
from parser.system.console import say
from parser.system.files import named_errors, write_atomically
from parser.training.config import Config
from parser.training.initial_model import initial_path
from parser.training.teachers import teacher_paths
from parser.training.trees import treebank_names
from parser.transitions.inventory import Inventory
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import Vocabulary

if TYPE_CHECKING:
    from parser.networks.transformer.pretrained import PretrainedTransformer

OTHERS = "gold", "soft_targets", "soft_heads", "facts"
"""Fields of `Examples` that are flat tensors, besides the tokens and the trajectories."""
PROGRAM, SUFFIX = "stack-parser", ".prepared"
KEPT = 20
"""Number of most recently used files to keep. English EWT takes 50 MB, with teachers half as much again."""
STRINGS = "strings-"
VECTORS, PIECES = "vectors", "pieces"
HASH_SIZE = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Prepared:
    """The projective and lifted trees of training and dev as examples for replay, and their vocabulary."""

    vocabulary: Vocabulary
    vectors: Tensor | None
    """[words, size] The pretrained vectors of the vocabulary's words."""
    train: Examples
    dev: Examples
    sizes: dict[str, int]
    """The number of trees by training treebank, in the order of `train`; silver trees come after them."""
    crossing: int
    """The number of non-projective trees in the training treebanks."""

    @property
    def silver(self) -> int:
        return len(self.train) - sum(self.sizes.values())

    def digest(self) -> str:
        """A hash of the vocabulary and of the numbered sentences and trees."""
        digest = hashlib.sha256(self.vocabulary.as_json().encode())
        for examples in (self.train, self.dev):
            # The order of the parts in a cache file is not defined.
            parts = [strings for _, strings in sorted(examples.tokens.parts.items())]
            if examples.tokens.pieces:
                parts.append(examples.tokens.pieces)
            for ragged in (examples.tokens.numbers, *parts, examples.gold):
                for tensor in (ragged.values, ragged.lengths):
                    digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()


def save_prepared(prepared: Prepared, path: Path) -> None:
    """Write the cache file. If that fails, for example because the disk is full, only print a message."""
    tensors = {} if prepared.vectors is None else {VECTORS: prepared.vectors}
    for name, examples in (("train", prepared.train), ("dev", prepared.dev)):
        for part, ragged in _parts(examples).items():
            tensors[f"{name}.{part}.values"] = ragged.values.contiguous()
            tensors[f"{name}.{part}.lengths"] = ragged.lengths.clone()  # parts may share theirs
    vocabulary = prepared.vocabulary.as_json()
    header = {"vocabulary": vocabulary, "sizes": prepared.sizes, "crossing": prepared.crossing}
    content = json.dumps(header).encode()
    content = len(content).to_bytes(8, "little") + content + save(tensors)
    unfinished = path.with_name(f".{os.getpid()}-{path.name}")  # other processes may prepare the same data
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(unfinished, hashlib.sha256(content).digest() + content)
        unfinished.replace(path)
    except OSError as error:
        say(f"{path.parent}: {error.strerror}; the next start will read the treebanks again")
    # This also removes unfinished files of killed processes.
    remove_old(path.parent, f"*{SUFFIX}*", KEPT)


def remove_old(folder: Path, pattern: str, kept: int) -> None:
    """Remove all files that match the pattern except the `kept` most recently used ones."""
    with suppress(OSError):  # another process may be removing them too
        by_age = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
        for old in by_age[:-kept]:
            old.unlink(missing_ok=True)


def load_prepared(path: Path, settings: ParserSettings) -> Prepared | None:
    """The content of a cache file; None if it does not exist or is damaged."""
    try:
        content = path.read_bytes()
        os.utime(path)  # used now: `remove_old` goes by this time
    except OSError:
        return None
    told_hash, content = content[:HASH_SIZE], content[HASH_SIZE:]
    if hashlib.sha256(content).digest() != told_hash:
        say(f"{path} is damaged: reading the treebanks again")
        return None
    end = 8 + int.from_bytes(content[:8], "little")
    header, tensors = json.loads(content[8:end]), load(content[end:])
    vocabulary = Vocabulary.from_json(header["vocabulary"])
    inventory = Inventory.of(system_of(settings), vocabulary)
    train, dev = (_examples(inventory, name, tensors) for name in ("train", "dev"))
    return Prepared(vocabulary, tensors.get(VECTORS), train, dev, header["sizes"], header["crossing"])


def _parts(examples: Examples) -> dict[str, Ragged]:
    """The tensors of examples by name; the strings of a column are named by its number."""
    strings = {f"{STRINGS}{column}": strings for column, strings in examples.tokens.parts.items()}
    return {
        "tokens": examples.tokens.numbers,
        **strings,
        **({PIECES: examples.tokens.pieces} if examples.tokens.pieces else {}),
        **{name: ragged for name, ragged in examples.trajectories._asdict().items() if ragged is not None},
        **{name: ragged for name in OTHERS if (ragged := getattr(examples, name)) is not None},
    }


def _examples(inventory: Inventory, name: str, tensors: dict[str, Tensor]) -> Examples:
    """The inverse of `_parts`. name: the prefix of the tensors' names."""
    ends = [key.removesuffix(".values") for key in tensors if key.endswith(".values")]
    parts = {
        end.removeprefix(f"{name}."): Ragged(tensors[f"{end}.values"], tensors[f"{end}.lengths"])
        for end in ends
        if end.startswith(f"{name}.")
    }
    strings = {int(part[len(STRINGS) :]): parts[part] for part in parts if part.startswith(STRINGS)}
    tokens = Tokens(parts["tokens"], strings, parts.get(PIECES))
    of_trajectories = {part: parts[part] for part in FlatTrajectories._fields if part in parts}
    others = {part: parts[part] for part in OTHERS if part in parts}
    return Examples(inventory, tokens, trajectories=FlatTrajectories(**of_trajectories), **others)


def cache_folder() -> Path | None:
    """`stack-parser` in XDG_CACHE_HOME, or in ~/.cache; None for a user without a home directory."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(folder):  # the XDG specification says to ignore relative paths
        return Path(folder) / PROGRAM
    try:
        folder = str(Path.home() / ".cache")
    except RuntimeError:
        return None
    return Path(folder) / PROGRAM if os.path.isabs(folder) else None


def cache_file(config: Config, folder: Path, transformer: PretrainedTransformer | None = None) -> Path | None:
    """The cache file of a config; its name depends on the contents of all inputs and of this program.

    Returns None if an input is a pipe, which can be read only once. transformer: the one of the config, whose
    tokenizer divides the words. Raises FileNotFoundError.
    """
    treebank, network = config.treebank, config.parser.network
    initial, distillation = initial_path(config.initial_model), config.training.distillation
    vectors = [network.pretrained] if network.pretrained and not initial else []
    inputs = *treebank.train_files, *treebank.silver_files, *treebank.dev_files.values(), *vectors
    paths = list(map(data_path, inputs))
    if any(Path(path).exists() and not Path(path).is_file() for path in paths):
        return None
    source = sorted(map(str, Path(__file__).parents[1].rglob("*.py")))
    asked = [
        treebank.roots,
        treebank.non_projective,
        treebank.partial,
        treebank.train_sentences,
        treebank_names(treebank.train_files),
        list(treebank.dev_files),
        treebank.silver and treebank.silver.min_probability,
        config.parser.system,
        network.composition,
        network.columns,
        network.tags.predict,
        network.fold_case,
        transformer and transformer.tokenizer,
        digest_of([initial]) if initial else "",
        distillation and [distillation.weight, digest_of(teacher_paths(distillation))],
        # The purpose of each file: the same file can be training data in one run and dev data in another.
        [len(treebank.silver_files), len(vectors)],
        hash_of([*source, *paths]),
    ]
    return folder / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]}{SUFFIX}"


def hash_of(paths: list[str]) -> str:
    """A hash of the contents of files. Raises FileNotFoundError."""
    digest = hashlib.sha256()
    for path in paths:
        of_file = hashlib.sha256()
        with named_errors(path), open(path, "rb") as file:
            while block := file.read(1 << 20):
                of_file.update(block)
        digest.update(of_file.digest())
    return digest.hexdigest()
