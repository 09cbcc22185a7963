"""The training trees of a run, from its treebanks and silver files, and the sample that an epoch draws."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Discriminator, Field, Tag
from torch import Tensor

from parser.config.data_folder import data_path
from parser.system.console import say
from parser.system.settings import Count, Settings
from parser.treebank.conllu import Roots, read_treebank
from parser.treebank.conllu_output import arc_probabilities
from parser.treebank.partial_trees import can_be_projective, read_partial_treebank, with_known
from parser.treebank.projectivity import projectivized
from parser.treebank.sentence import NO_HEAD, Sentence
from parser.treebank.set_aside import set_aside

ENDS = re.compile(r"([-_.](ud-)?(train|dev|test))?(\.(conllu|conll|conllx))?(\.gz)?$")
"""The part of a file's name after the name of the treebank, as in `en_ewt-ud-train.conllu`."""


Files = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


FileOrFiles = Annotated[
    Annotated[str, Tag("<file>")] | Annotated[Files, Tag("<files>")],
    Discriminator(lambda value: "<files>" if isinstance(value, list | tuple) else "<file>"),
]
"""One file or several; errors are reported for one of the two types only."""


class SilverSettings(Settings):
    """Trees made by another parser (self-training, or distillation from a larger parser)."""

    files: Files
    """CoNLL-U files, as written by `stack-parser parse`."""
    epochs: Count | None = None
    """Number of epochs, from the first on, that train on silver trees. Default: all epochs."""
    share: float = Field(1.0, gt=0, le=1)
    """Fraction of the silver trees that an epoch trains on. Each epoch draws them anew."""
    min_probability: float = Field(0.0, ge=0, le=1)
    """Leave out sentences whose arcs have a lower mean probability. It is read from `ArcProbability`, which
    `stack-parser parse --probabilities` writes."""


class TreebankSettings(Settings):
    train: FileOrFiles
    """Training file in CoNLL-U or CoNLL-X. ${PARSER_DATA} stands for the data folder, which is `data` unless
    the variable is set. A list of files trains on several treebanks. Dev, test and anything parsed without
    `--treebank` are then taken to belong to the first one, unless `dev` is a list, too."""
    train_sentences: Count | None = None
    """Train only on this many sentences from the beginning of `train`, or of its first file. This is useful
    for learning curves over the size of the treebank. A tokenizer is still trained on the whole file."""
    sampling_exponent: float = Field(1.0, ge=0, le=1)
    """How an epoch samples from several treebanks. It draws as many trees as they contain together, from each
    treebank in proportion to its number of trees to this power. 1: by size, every tree once. 0: equally many
    from each, so that trees of small treebanks are repeated."""
    silver: SilverSettings | None = None
    """Additional training trees that were made by another parser."""
    dev: FileOrFiles | None
    """Dev file. The model with the best score on it is kept, see `training.best_by`. A list has dev files of
    treebanks in `train`, with the same names apart from `train` and `dev`. The mean of their scores counts,
    and whoever parses has to name a treebank. null: there is no dev file, and the model of the last epoch is
    kept, see [without dev](treebanks.md#without-dev)."""
    test: FileOrFiles | None = None
    """Test file. It is scored once, at the end, with the best model. Several files, as in `dev`, are scored
    one by one, too."""
    roots: Literal["refuse", "attach-to-first"] = "refuse"
    """What to do with a tree that has several roots, as in treebanks from CoNLL-X. `refuse`: report an error.
    `attach-to-first`: make the other roots dependents of the first, labelled `dep`."""
    non_projective: Literal["lift", "drop"] = "lift"
    """What to do with non-projective training trees. `lift`: apply the pseudo-projective transformation
    (Nivre & Nilsson 2005), which is undone after parsing. `drop`: leave them out."""
    partial: bool = False
    """Whether HEAD and DEPREL of training and silver trees may be `_`. If true, the parser learns from [what
    is known of a tree](treebanks.md#training-on-trees-that-are-known-in-part). If false, `_` is an error."""

    @property
    def train_files(self) -> tuple[str, ...]:
        return (self.train,) if isinstance(self.train, str) else self.train

    @property
    def silver_files(self) -> tuple[str, ...]:
        return self.silver.files if self.silver else ()

    @property
    def files(self) -> tuple[str, ...]:
        """All treebanks that a run reads."""
        held_out = (*self.dev_files.values(), *self.test_files.values())
        return *self.train_files, *self.silver_files, *held_out

    @property
    def dev_files(self) -> dict[str, str]:
        """The dev file of each treebank that has one, by its name. Raises ValueError, see `_held_out`."""
        return self._held_out("dev", self.dev)

    @property
    def test_files(self) -> dict[str, str]:
        """Like `dev_files`."""
        return self._held_out("test", self.test)

    def _held_out(self, key: str, files: str | tuple[str, ...] | None) -> dict[str, str]:
        """Files by the names of their treebanks. Raises ValueError for a list with a file of another one."""
        names = treebank_names(self.train_files)
        if files is None or isinstance(files, str):
            return {names[0]: files} if files else {}
        own = [re.sub(rf"(^|/){key}$", r"\1train", name) for name in treebank_names(files, key)]
        of_treebanks = dict(zip(own, files, strict=True))
        for name, path in of_treebanks.items():
            if name not in names:
                known = ", ".join(names)
                raise ValueError(f"treebank.{key}: {path}: its treebank {name} is not in train, but {known}")
        return of_treebanks


class TrainingTrees(NamedTuple):
    gold: dict[str, list[Sentence]]
    """The trees of each treebank by its name, as returned by `projective`."""
    silver: list[Sentence]
    crossing: int
    """The number of non-projective trees that were changed or left out."""

    @property
    def all(self) -> list[Sentence]:
        return [*chain.from_iterable(self.gold.values()), *self.silver]


def read_training_trees(settings: TreebankSettings) -> TrainingTrees:
    """The training trees of all files.

    Raises TreebankError, FileNotFoundError, and ValueError for files from which nothing can be learnt.
    """
    names = treebank_names(settings.train_files)
    read = [
        [replace(sentence, treebank=name) for sentence in read_training_file(data_path(path), settings)]
        for name, path in zip(names, settings.train_files, strict=True)
    ]
    if len(read[0]) < (settings.train_sentences or 0):
        say(f"{settings.train_files[0]}: has {len(read[0]):,} sentences, fewer than treebank.train_sentences")
    read[0] = read[0][: settings.train_sentences]
    silver = [
        replace(sentence, treebank=names[0])
        for path in settings.silver_files
        for sentence in _read_silver(settings, path)
    ]
    lifts = settings.non_projective == "lift"
    gold = {name: projective(sentences, lifts) for name, sentences in zip(names, read, strict=True)}
    for path, trees in zip(settings.train_files, gold.values(), strict=True):
        if not trees:
            raise ValueError(f"{path}: no projective tree to learn from")
    crossing = sum(not can_be_projective(sentence.heads) for sentence in chain(*read, silver))
    return TrainingTrees(gold, projective(silver, lifts), crossing)


def read_training_file(path: str, settings: TreebankSettings) -> list[Sentence]:
    """The sentences of a training file. Raises what `read_treebank` raises."""
    return (read_partial_treebank if settings.partial else read_treebank)(path, settings.roots)


def read_held_out(files: Mapping[str, str], roots: Roots) -> list[Sentence]:
    """The sentences of the dev or test files of treebanks. Raises what `read_treebank` raises."""
    return [
        replace(sentence, treebank=name)
        for name, path in files.items()
        for sentence in read_treebank(data_path(path), roots)
    ]


def treebank_names(paths: Sequence[str], key: str = "train") -> list[str]:
    """The names of treebanks, from the names of their files: `en_ewt` for `en_ewt-ud-train.conllu`.

    key: the setting, for messages. The folder is included if names would otherwise be equal: `a/train` and
    `b/train`. Raises ValueError if they are still equal.
    """
    short = [ENDS.sub("", name) or name for name in (Path(path).name for path in paths)]
    names = [
        f"{Path(path).parent.name}/{name}" if short.count(name) > 1 else name
        for path, name in zip(paths, short, strict=True)
    ]
    for name, path in zip(names, paths, strict=True):
        if names.count(name) > 1:
            raise ValueError(f"treebank.{key}: {path}: another one is called {name}, too; rename the file")
    return names


def projective(sentences: Sequence[Sentence], lifts: bool) -> list[Sentence]:
    """If `lifts`, all sentences, with non-projective trees lifted; otherwise only those that can have a
    projective tree.

    In a partly known tree, the head to which a word would be lifted may be unknown. In such trees, heads that
    cross others become unknown instead.
    """
    if not lifts:
        return [sentences[number] for number in projective_rows(sentences, lifts)]
    lifted = []
    for sentence in sentences:
        if NO_HEAD in sentence.heads:
            aside = set_aside(sentence.heads)
            lifted.append(with_known(sentence, [word not in aside for word in range(1, len(sentence) + 1)]))
        else:
            lifted.append(projectivized(sentence))
    return lifted


def projective_rows(sentences: Sequence[Sentence], lifts: bool) -> list[int]:
    """The numbers of the sentences that `projective` returns."""
    return [number for number, sentence in enumerate(sentences) if lifts or can_be_projective(sentence.heads)]


def _read_silver(settings: TreebankSettings, path: str) -> list[Sentence]:
    """The silver trees of a file whose mean probability is high enough.

    Raises ValueError if there are none, or if the file does not contain probabilities.
    """
    assert settings.silver
    sentences = read_training_file(data_path(path), settings)
    if not (least := settings.silver.min_probability):
        return sentences
    kept = []
    for sentence in sentences:
        if not (probabilities := arc_probabilities(sentence)):
            raise ValueError(
                f"{path}, sentence {sentence.identifier}: its arcs have no probabilities, which "
                "treebank.silver.min_probability needs; parse with --probabilities"
            )
        if sum(probabilities) / len(probabilities) >= least:
            kept.append(sentence)
    say(f"{path}: {len(kept):,} of {len(sentences):,} trees have a mean probability of {least:g} or more")
    if not kept:
        raise ValueError(f"{path}: treebank.silver.min_probability leaves no tree; take a lower one")
    return kept


@dataclass(frozen=True)
class Mixture:
    """Draws the trees of each epoch.

    Trees are numbered: first those of the first treebank, then those of the others, then the silver trees.
    """

    sizes: Mapping[str, int]
    """The number of trees of each treebank, by its name."""
    silver: int
    """The number of silver trees."""
    settings: TreebankSettings

    def __str__(self) -> str:
        """The sizes, as the start of a list in a message; empty for one treebank without silver trees."""
        gold = [f"{name} {size:,}" for name, size in self.sizes.items()]
        silver = [f"silver {self.silver:,}"] if self.silver else []
        return "".join(f"{part}, " for part in [*gold, *silver]) if len(gold) > 1 or silver else ""

    def draw(self, epoch: int, generator: torch.Generator) -> Tensor:
        """[drawn] The numbers of the trees of an epoch, in no particular order."""
        gold, silver = list(self.sizes.values()), self.settings.silver
        counts = [*drawn_counts(gold, self.settings.sampling_exponent), 0]
        if silver and epoch <= (silver.epochs or epoch):
            counts[-1] = max(1, round(silver.share * self.silver))
        parts: list[Tensor] = []
        for first, size, count in zip(accumulate(gold, initial=0), [*gold, self.silver], counts, strict=True):
            # Each number is drawn equally often, up to a difference of one.
            every = torch.arange(size).repeat(count // size if size else 0)
            parts.append(first + every)
            if rest := count - len(every):
                parts.append(first + torch.randperm(size, generator=generator)[:rest])
        return torch.cat(parts)


def drawn_counts(sizes: Sequence[int], exponent: float) -> list[int]:
    """How many trees to draw from each treebank; as many in total as there are. See `sampling_exponent`."""
    weights = torch.tensor(sizes, dtype=torch.double) ** exponent
    ends = (weights.cumsum(0) / weights.sum() * sum(sizes)).round().long()
    return torch.diff(ends, prepend=ends.new_zeros(1)).tolist()
