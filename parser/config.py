"""What an experiment's YAML file may say. The text under a field is its documentation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from parser.settings import Settings
from parser.transitions import SYSTEMS

Average = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[int, Field(gt=0, le=65_536)]
"""Of a vector or a layer."""
Layers = Annotated[int, Field(gt=0, le=100)]
Count = Annotated[int, Field(gt=0, le=1_000_000_000)]
Threads = Annotated[int, Field(gt=0, le=1024)]


class TreebankSettings(Settings):
    train: str
    """CoNLL-U or CoNLL-X file; ${PARSER_DATA} stands for the data folder, `data` unless it is set."""
    dev: str
    """Its scores choose the best model."""
    test: str | None = None
    """Scored once, at the end, with the best model."""
    roots: Literal["refuse", "attach-to-first"] = "refuse"
    """A tree with several words below ROOT, as treebanks of the CoNLL-X time have them: an error, or all but
    the first of these words are put below the first, labelled `dep` in the place of `root`."""
    non_projective: Literal["lift", "drop"] = "lift"
    """Training trees with crossing arcs: made projective, with marks by which parsed trees get them back
    (Nivre & Nilsson 2005), or left out."""


Width = Annotated[int, Field(gt=0, le=100)]


class CharacterSettings(Settings):
    """A convolution over the characters of a form."""

    size: Size = 32
    """Of a character's embedding."""
    filters: Size = 50
    """For each width; the vector of a form has so many numbers for each."""
    widths: tuple[Width, ...] = Field((2, 3, 4), strict=False, min_length=1, max_length=20)
    """Of the filters, in characters."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On the characters' embeddings."""


class SentenceSettings(Settings):
    """A bidirectional LSTM over the sentence, before stack and buffer (Kiperwasser & Goldberg 2016)."""

    hidden_size: Size = 200
    """Each way."""
    layers: Layers = 2


class NetworkSettings(Settings):
    """The defaults are those of Ding & Koehn 2019, section 5."""

    word_size: Size = 32
    """Of the trained embedding of a word form."""
    fold_case: bool = False
    """Whether forms that differ in case alone share it; characters and pretrained vectors see the case."""
    pretrained: str | None = None
    """File of word vectors (text of word2vec, GloVe or fastText, `.gz` or not; word2vec's binary as `.bin` or
    `.bin.gz`), which are stored with the model."""
    train_pretrained: bool = False
    """Whether these are trained on; else they are kept as they are."""
    tag_sizes: dict[Literal["upos", "xpos", "lemma", "feats"], Size] = Field({"upos": 12})
    """The other columns that the parser sees, and the sizes of their embeddings. Each feature of FEATS has
    its own, and they are summed."""
    characters: CharacterSettings | None = None
    """Whether the parser sees characters of forms."""
    learns_tags: tuple[Literal["upos", "xpos"], ...] = Field((), strict=False)
    """Columns that the parser does not read, but learns to tell from the words' vectors while it learns to
    parse (as Zhang & Weiss 2016 and others have it); to parse it needs no tags then."""
    token_size: Size = 60
    """Of the vector that stands for a word, its parts joined."""
    sentence: SentenceSettings | None = None
    """Whether the words' vectors are read by a bidirectional LSTM first."""
    composition: bool = False
    """Whether a head and its dependent become one vector, as Dyer et al. 2015 have it."""
    shows_words: bool = False
    """Whether the scores see the vectors of the two words on top of the stack and of the buffer's front
    themselves, as in Kiperwasser & Goldberg 2016, and not only the LSTMs over these."""
    hidden_size: Size = 200
    """Of the LSTMs of stack, buffer and history, and of the layer that joins them."""
    layers: Layers = 2
    """Of each LSTM."""
    action_size: Size = 48
    """Of the embedding of a transition in the history."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On word vectors, between the layers of the LSTMs and on what the scores are computed from."""

    @property
    def read_columns(self) -> list[str]:
        """Those of a file that the parser reads."""
        return ["form", *self.tag_sizes]

    @property
    def columns(self) -> list[str]:
        """Those of a treebank that matter: what is read, in the order of the input, then what is learnt."""
        return [*self.read_columns, *(["characters"] if self.characters else []), *self.learns_tags]


def _known_system(name: str) -> str:
    if name not in SYSTEMS:
        raise ValueError(f"it should be {', '.join(map(repr, SYSTEMS))}")
    return name


class ParserSettings(Settings):
    system: Annotated[str, AfterValidator(_known_system)] = "arc-hybrid"
    """The transition system."""
    network: NetworkSettings = NetworkSettings()


Rate = Annotated[float, Field(gt=0)]


class LearningRateSettings(Settings):
    start: Rate = 5e-4
    """At the first step."""
    peak: Rate | Literal["paper"] = "paper"
    """After warming up; the paper's is min(start x batch size, 0.02)."""
    warmup_epochs: int = Field(5, ge=0, le=1_000_000_000)
    """It grows linearly over so many epochs."""
    then: Literal["plateau", "linear"] = "plateau"
    """After that it is lowered where the dev loss stops sinking, as the next three say, or falls linearly, to
    nothing at the end of the last epoch."""
    factor: float = Field(0.5, gt=0, lt=1)
    """It is multiplied by this after more than `patience` epochs without a better dev loss."""
    patience: int = Field(0, ge=0, le=1_000_000_000)
    smallest: float = Field(1e-5, ge=0)
    """It is not lowered below, unless it falls linearly."""


class ExplorationSettings(Settings):
    """Training goes where the parser itself would go, and learns what is right there (Ballesteros et al.
    2016)."""

    from_epoch: Count = 2
    """Before that it goes where the gold trees are built."""
    probability: float = Field(0.5, gt=0, le=1)
    """Of a batch to go where the parser does; the others go where the gold trees are built."""
    sharpness: float = Field(0.75, gt=0)
    """The distribution that is drawn from is that of the scores times this: below 1 it is flatter, and there
    are more mistakes to learn from."""


class TrainingSettings(Settings):
    seed: int = Field(1, ge=-(2**63), lt=2**63)
    """Of the weights, the shuffling, the dropout. The same seed gives the same model on the same machine."""
    epochs: Count = 30
    batch_size: Count = 64
    """In sentences or in words, see `batch_unit`."""
    batch_unit: Literal["sentences", "words"] = "sentences"
    most_words: Count = 20_000
    """A batch that has more, padding included, is cut, so that memory is bounded; a longer sentence is a
    batch of its own."""
    learning_rate: LearningRateSettings = LearningRateSettings()
    betas: tuple[Average, Average] = Field((0.9, 0.999), strict=False)
    """Adam's averages of the gradient and of its square."""
    l2: float = Field(1e-6, ge=0)
    """Added to the gradients, times the weights; not for pretrained vectors."""
    clip: float = Field(5.0, gt=0, allow_inf_nan=True)
    """Largest norm of the gradients; .inf for any."""
    average: float | None = Field(None, gt=0, lt=1)
    """The model is the moving average of the weights, of which each step keeps so much, as 0.999."""
    unknown_probability: float = Field(0.5, ge=0, le=1)
    """How often a word that training has only once is taken for an unknown one, unless the next says more
    often; so for lemmas."""
    word_dropout: float = Field(0.0, ge=0)
    """A word that training has n times is taken for an unknown one with probability this / (this + n); so for
    lemmas."""
    tag_dropout: float = Field(0.0, ge=0, le=1)
    """How often a UPOS or an XPOS is."""
    feature_dropout: float = Field(0.0, ge=0, le=1)
    """How often a feature of FEATS is."""
    exploration: ExplorationSettings | None = None
    """Whether it explores; only with systems whose costs are known, of which arc-standard is none."""
    stop_after: Count | None = None
    """End when so many epochs have brought no better dev LAS."""


class Config(Settings):
    treebank: TreebankSettings
    parser: ParserSettings = ParserSettings()
    training: TrainingSettings = TrainingSettings()
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto takes CUDA where there is one."""
    threads: Threads = 1
    """CPU threads. The products are small: a second thread brings a third at best, and on a machine that is
    busy with other things the two wait for each other most of the time."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Keys whose values do nothing or can not be beside the others', and why."""
        network, training = self.parser.network, self.training
        exploration, rate = training.exploration, training.learning_rate
        system = SYSTEMS[self.parser.system]
        if exploration and not system.has_costs:
            yield "training.exploration", f"{system.name} has no dynamic oracle; take another parser.system"
        if exploration and exploration.from_epoch > training.epochs:
            yield "training.exploration.from_epoch", "is after the last epoch: nothing is explored"
        if rate.peak == "paper" and training.batch_unit == "words":
            yield "training.learning_rate.peak", "the paper's is for batches in sentences; write a number"
        if network.train_pretrained and not network.pretrained:
            yield "parser.network.train_pretrained", "there are no parser.network.pretrained vectors"
        if both := set(network.learns_tags) & set(network.tag_sizes):
            yield "parser.network.learns_tags", f"{', '.join(both)} is read: there is nothing to learn"
        if len(set(network.learns_tags)) < len(network.learns_tags):
            yield "parser.network.learns_tags", "names the same column twice"
        if training.tag_dropout and not {"upos", "xpos"} & set(network.tag_sizes):
            yield "training.tag_dropout", "parser.network.tag_sizes has neither upos nor xpos"
        if training.feature_dropout and "feats" not in network.tag_sizes:
            yield "training.feature_dropout", "parser.network.tag_sizes has no feats"


def data_path(path: str) -> str:
    """A path from a config, with ${PARSER_DATA} replaced."""
    return path.replace("${PARSER_DATA}", os.environ.get("PARSER_DATA", "data"))
