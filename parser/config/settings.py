"""What an experiment's YAML file may say. The text under a field is its documentation."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticKnownError

from parser.batching import Precision
from parser.config.errors import fault_lines
from parser.config.measures import OF_COLUMNS, Measure
from parser.config.small_treebank import SmallTreebankSettings, of_size
from parser.system.settings import Count, Settings, contradiction_error
from parser.text.tokenizer_kinds import AnyTokenizer
from parser.transitions import SYSTEMS
from parser.treebank.columns import annotation_columns
from parser.treebank.size import TreebankSize

Average = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[int, Field(gt=0, le=65_536)]
"""Of a vector or a layer."""
Layers = Annotated[int, Field(gt=0, le=100)]
Threads = Annotated[int, Field(gt=0, le=1024)]
Width = Annotated[int, Field(gt=0, le=100)]
Files = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
FileOrFiles = Annotated[
    Annotated[str, Tag("<file>")] | Annotated[Files, Tag("<files>")],
    Discriminator(lambda value: "<files>" if isinstance(value, list | tuple) else "<file>"),
]
"""With an error of one of them only."""
Trained = Literal["frozen", "lora", "all"]


def _known(name: str, names: Collection[str]) -> str:
    """The name. Raises the error of a `Literal` if it is not one of the names."""
    if name not in names:
        *others, last = map(repr, names)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


Column = Annotated[
    str,
    AfterValidator(lambda name: _known(name, annotation_columns())),
    WithJsonSchema({"type": "string", "enum": list(annotation_columns())}),
]
"""The name of one, see `annotation_columns`."""


class SilverSettings(Settings):
    """Trees that another parser has made (self-training, or distillation from a larger parser)."""

    files: Files
    """CoNLL-U files, as `stack-parser parse` writes them."""
    epochs: Count | None = None
    """In how many epochs, from the first on, silver trees are trained on; by default in all."""
    share: float = Field(1.0, gt=0, le=1)
    """The part of the silver trees that an epoch draws, anew in each."""
    min_probability: float = Field(0.0, ge=0, le=1)
    """Sentences are left out if the mean probability of their arcs is lower: `ArcProbability`, which
    `stack-parser parse --probabilities` writes."""


class TreebankSettings(Settings):
    train: FileOrFiles
    """CoNLL-U or CoNLL-X file; ${PARSER_DATA} stands for the data folder, `data` unless it is set. A list of
    files trains on several treebanks: dev and test are taken to be of the first, and so is what is parsed
    without `--treebank`."""
    train_sentences: Count | None = None
    """Only so many sentences from the beginning of `train`, or of its first file, are trained on, for
    learning curves over its size. A tokenizer is trained on all of this file."""
    sampling_exponent: float = Field(1.0, ge=0, le=1)
    """An epoch draws as many trees as several treebanks have together, from each in proportion to its number
    of trees to this power. 1: by size, every tree once. 0: evenly, so that small treebanks are repeated."""
    silver: SilverSettings | None = None
    """Trees that another parser has made, trained on in addition."""
    dev: str | None
    """The model with the best score on it is kept, see `training.best_by`. null: there is none, and the model
    of the last epoch is kept, see [without dev](treebanks.md#without-dev)."""
    test: str | None = None
    """Scored once, at the end, with the best model."""
    roots: Literal["refuse", "attach-to-first"] = "refuse"
    """What happens to a tree with several roots, as in treebanks from CoNLL-X. `refuse`: it is an error.
    `attach-to-first`: the other roots become dependents of the first, labelled `dep`."""
    non_projective: Literal["lift", "drop"] = "lift"
    """What happens to non-projective training trees. `lift`: pseudo-projective transformation (Nivre &
    Nilsson 2005), undone after parsing. `drop`: they are left out."""
    partial: bool = False
    """Whether HEAD and DEPREL of training and silver trees may be `_`: the parser then learns from [what is
    known of a tree](treebanks.md#training-on-trees-that-are-known-in-part). Else it is an error."""

    @property
    def train_files(self) -> tuple[str, ...]:
        return (self.train,) if isinstance(self.train, str) else self.train

    @property
    def silver_files(self) -> tuple[str, ...]:
        return self.silver.files if self.silver else ()

    @property
    def files(self) -> tuple[str, ...]:
        """All treebanks that a run reads."""
        return *self.train_files, *self.silver_files, *filter(None, (self.dev, self.test))


class CharacterSettings(Settings):
    """A convolution over the characters of a form."""

    size: Size = 32
    """Size of a character's embedding."""
    filters: Size = 50
    """Number of filters of each width."""
    widths: tuple[Width, ...] = Field((2, 3, 4), strict=False, min_length=1, max_length=20)
    """Widths of the filters, in characters."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On the character embeddings."""


class SentenceEncoderSettings(Settings):
    """A bidirectional LSTM over the words of the sentence (Kiperwasser & Goldberg 2016)."""

    hidden_size: Size = 200
    """Size in each direction."""
    layers: Layers = 2
    """Number of layers."""


class LoraSettings(Settings):
    """With `train: lora`: low-rank matrices that are added to those of the transformer (Hu et al. 2022)."""

    rank: int = Field(8, gt=0, le=1024)
    """Of the matrices."""
    alpha: int = Field(16, gt=0, le=65_536)
    """Their product is multiplied by alpha / rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On the input of the matrices."""


class TransformerSettings(Settings):
    """A pretrained transformer, whose output at the pieces of a word is another vector of the word. Needs
    the extra `transformers`."""

    model: str
    """Folder of a model in the format of Hugging Face's transformers, with its weights as safetensors and a
    `tokenizer.json`; or the name of one on their hub, which is downloaded."""
    layers: int = Field(4, gt=0, le=200)
    """The last layers, whose outputs are averaged with learned weights (Peters et al. 2018, equation 1)."""
    pooling: Literal["mean", "first", "last"] = "mean"
    """The vector of a word is that of its first or last piece, or the mean of all."""
    train: Trained = "frozen"
    """What is trained of the transformer. `frozen`: nothing; the vectors are computed once and kept in the
    cache, in half precision. `lora`: see `lora`. `all`: all weights."""
    learning_rate: float = Field(5e-5, gt=0)
    """Of the transformer after its warm-up; those of the other weights are in `training.learning_rate`, whose
    decay is that of the transformer, too."""
    warmup_epochs: float = Field(1.0, ge=0, le=1_000_000_000)
    """Epochs over which this learning rate increases linearly from 0."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """The learning rate of each layer of the transformer is this times that of the layer above it."""
    max_pieces: Count = 512
    """A sentence of more pieces is read in overlapping windows of this many, or of as many as the transformer
    can read."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On the vectors of words. The transformer's own dropout, where it is trained, is that of its config."""
    gradient_checkpointing: bool = False
    """Whether the activations of the transformer are computed again for the gradient instead of being kept:
    less memory, and about a third slower."""
    lora: LoraSettings = LoraSettings()


class TagSettings(Settings):
    predict: tuple[Column, ...] = Field((), strict=False)
    """Columns that the parser does not read from the input, but learns to predict from the word vectors (as
    in Zhang & Weiss 2016), and writes where the input has none. Lemmas are predicted as edit scripts."""
    weight: float = Field(1.0, gt=0)
    """Of the losses of these columns; that of the transitions has 1."""
    layers_above: int = Field(0, ge=0, le=100)
    """Layers that the sentence encoder has in addition, above the tags. They also read the predicted tags
    (Hashimoto et al. 2017). 0: the parser does not read them."""
    embedding_size: Size = 32
    """Size of the embedding of a predicted value that the layers above read."""


class ArcSettings(Settings):
    """A scorer of arcs over the word vectors (Dozat & Manning 2017), which learns beside the parser, and one
    of labels. Trees are then those that they find together (Sagae & Lavie 2006), and the probabilities of
    arcs are the means of both."""

    size: Size = 100
    """Size of the projections of heads and dependents, for each of the scorers."""
    loss_weight: float = Field(0.5, gt=0)
    """Of the losses of the words' heads and labels; that of the transitions has 1, and a word has two of
    them."""
    bonus: float | None = Field(None, ge=0)
    """Of the parser's own arcs, beside the logarithms of the scorer's probabilities, where both find a tree
    together. Default: what gives the best LAS on dev at the end of training, or the parser's tree alone if
    none does; 2 without dev. Until then it is the parser's tree."""


class NetworkSettings(Settings):
    """The defaults are those of Ding & Koehn 2019, section 5."""

    word_size: Size = 32
    """Size of the trained word embedding."""
    fold_case: bool = False
    """Whether forms that differ only in case share a trained embedding. Characters and pretrained vectors
    keep the case."""
    pretrained: str | None = None
    """File of pretrained word vectors: the text formats of word2vec, GloVe and fastText, `.gz` or not, or
    word2vec's binary as `.bin` or `.bin.gz`. They are stored with the model."""
    train_pretrained: bool = False
    """Whether the pretrained vectors are fine-tuned."""
    tag_sizes: dict[Column, Size] = Field({"upos": 12})
    """The other columns that the parser reads, and the sizes of their embeddings. The embeddings of a word's
    features (FEATS) are summed."""
    characters: CharacterSettings | None = None
    """Whether the parser reads the characters of forms."""
    treebank_size: Size | None = None
    """Size of an embedding of the treebank that a sentence is from, which each word has (Stymne et al. 2018);
    for several `treebank.train` files."""
    transformer: TransformerSettings | None = None
    """Whether the parser reads the vectors of a pretrained transformer, too."""
    tags: TagSettings = TagSettings()
    arcs: ArcSettings | None = None
    """Whether the word vectors also learn to tell the head of each word."""
    token_size: Size = 60
    """Size of a word's vector, computed from all its embeddings."""
    sentence_encoder: SentenceEncoderSettings | None = None
    """Whether a bidirectional LSTM runs over the word vectors first."""
    composition: bool = False
    """Whether a head and its dependent are composed into one vector (Dyer et al. 2015)."""
    word_features: bool = False
    """Whether the scores also see the vectors of the top two words of the stack and of the buffer's front, as
    in Kiperwasser & Goldberg 2016, and not only the states of the LSTMs."""
    hidden_size: Size = 200
    """Size of the LSTMs over stack, buffer and history, and of the hidden layer that joins them."""
    layers: Layers = 2
    """Number of layers of each of these LSTMs."""
    transition_size: Size = 48
    """Size of a transition's embedding in the history."""
    embedding_dropout: float = Field(0.0, ge=0, lt=1)
    """Probability that a word is read without its embedding of a column (or of its characters), drawn for
    each word and column. Those of its other columns are scaled up (Dozat & Manning 2017)."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """On word vectors, between the layers of the LSTMs, and on the inputs of the linear layers."""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> NetworkSettings:
        if faults := list(self._contradictions()):
            raise contradiction_error(faults)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings with which there is no network, also not that of a model, and why."""
        if self.tags.layers_above and not self.tags.predict:
            yield "tags.layers_above", "parser.network.tags.predict is empty: there are no tags"
        if self.tags.layers_above and not self.sentence_encoder:
            yield "tags.layers_above", "there is no parser.network.sentence_encoder"

    @property
    def read_columns(self) -> list[str]:
        """The columns of a file that the parser reads."""
        return ["form", *self.tag_sizes]

    @property
    def columns(self) -> list[str]:
        """The columns of the network's input, in its order."""
        return [
            *self.read_columns,
            *(["characters"] if self.characters else []),
            *(["treebank"] if self.treebank_size else []),
        ]

    @property
    def embeddings(self) -> int:
        """How many each word has, one of each column and of what was trained before."""
        return len(self.columns) + bool(self.pretrained) + bool(self.transformer)


class CalibrationSettings(Settings):
    """What makes a share of right arcs of a probability p (beta calibration, Kull, Silva Filho & Flach 2017,
    equation 5): the logistic function of right ln p - wrong ln(1 - p) + offset. With 1, 1 and 0 it is p."""

    right: float = Field(1.0, ge=0)
    """Of the logarithm of p. Greater than 1: low probabilities become lower."""
    wrong: float = Field(1.0, ge=0)
    """Of the logarithm of 1 - p. Less than 1: high probabilities become lower."""
    offset: float = 0.0
    """Greater than 0: all become higher."""


class ParserSettings(Settings):
    system: Annotated[
        str,
        AfterValidator(lambda name: _known(name, SYSTEMS)),
        WithJsonSchema({"type": "string", "enum": list(SYSTEMS)}),
    ] = "arc-hybrid"
    """The transition system."""
    network: NetworkSettings = NetworkSettings()
    calibration: CalibrationSettings | None = None
    """Of the probabilities of arcs. Default: fitted on dev at the end of training, so that they are shares of
    right arcs, labels included. Until then, and without dev, they are what parser and scorers say."""


Rate = Annotated[float, Field(gt=0)]


class LearningRateSettings(Settings):
    start: Rate = 5e-4
    """At the first step."""
    peak: Rate | Literal["paper"] = "paper"
    """After the warm-up. `paper` is the rule of Ding & Koehn 2019: min(start x batch size, 0.02)."""
    warmup_epochs: int = Field(5, ge=0, le=1_000_000_000)
    """Epochs over which the learning rate increases linearly from `start` to `peak`."""
    decay: Literal["plateau", "linear"] = "plateau"
    """After the warm-up. `plateau`: reduced when the dev loss stops improving (ReduceLROnPlateau), as the
    next three settings say. `linear`: decreases linearly to 0 at the end of the last epoch; the dev loss,
    which takes as long as the dev scores, is not computed."""
    factor: float = Field(0.5, gt=0, lt=1)
    """With `plateau`: the learning rate is multiplied by this after more than `patience` epochs without a
    lower dev loss."""
    patience: int = Field(0, ge=0, le=1_000_000_000)
    """With `plateau`: epochs without a lower dev loss that are tolerated."""
    min_learning_rate: float = Field(1e-5, ge=0)
    """With `plateau`: the learning rate is not reduced below this."""


class OptimizerSettings(Settings):
    name: Literal["adam", "adamw"] = "adam"
    """Adam (Kingma & Ba 2015), or AdamW (Loshchilov & Hutter 2019), whose weight decay is decoupled from the
    gradient."""
    betas: tuple[Average, Average] = Field((0.9, 0.999), strict=False)
    """Decay rates of the moving averages of the gradient and of its square."""
    eps: float = Field(1e-8, gt=0)
    """Added to the denominator for numerical stability."""
    weight_decay: float = Field(1e-6, ge=0)
    """L2 penalty with `adam`, decoupled weight decay with `adamw`. Pretrained vectors have none."""


class ExplorationSettings(Settings):
    """Training with exploration (Goldberg & Nivre 2012): the trajectory follows the parser's own predictions,
    and a dynamic oracle says which transitions are right there. While it is chosen there is no dropout, of
    words neither."""

    from_epoch: Count = 2
    """The first epoch with exploration. Earlier ones follow the gold trajectories."""
    probability: float = Field(0.5, gt=0, le=1)
    """Probability that a batch explores. The other batches follow the gold trajectories."""
    follow: Literal["samples", "errors"] = "samples"
    """What the trajectory follows. `samples`: transitions drawn from the parser's distribution (Ballesteros
    et al. 2016). `errors`: the transition with the best score, also if it is wrong, and sometimes a wrong one
    with nearly the best score, see `aggressive_probability` (Kiperwasser & Goldberg 2016)."""
    sharpness: float = Field(0.75, gt=0)
    """With `samples`: the scores are multiplied by this before a transition is drawn from their softmax (an
    inverse temperature). Below 1 the distribution is flatter, and there are more mistakes to learn from."""
    aggressive_probability: float = Field(0.1, ge=0, le=1)
    """With `errors`: the probability that the best wrong transition is followed although a right one has a
    higher score, by at most 1."""


Objective = Literal["likelihood", "best", "margin"]


class DistillationSettings(Settings):
    """Knowledge distillation: at each transition of the training trees the parser learns what other parsers,
    the teachers, would do (Hinton et al. 2015; for transition-based parsers Liu et al. 2018)."""

    models: Files
    """Folders or packages of the teachers, whose probabilities are averaged. They run once, before training,
    over the gold and the silver trees. Their transition system must be that of the parser; their networks and
    labels may differ."""
    weight: float = Field(1.0, gt=0, le=1)
    """How much of the loss is the cross entropy with the teachers; the rest is that of the trees."""


class TrainingSettings(Settings):
    seed: int = Field(1, ge=-(2**63), lt=2**63)
    """Random seed of the initial weights, the shuffling and the dropout. The same seed gives the same model
    on the same machine; on a GPU only with `deterministic`."""
    deterministic: bool = False
    """On a GPU, use kernels whose sums do not depend on chance, which are slower. On a CPU all are such."""
    cuda_graphs: bool = False
    """On a GPU, pad batches to few shapes, and compute their gradients by a CUDA graph for each shape. Not
    for networks with composition, a sentence encoder, arcs, characters, features or a transformer, nor in
    epochs that explore or with `treebank.partial`. Dropout draws other random numbers than without. A run may
    be resumed without."""
    epochs: Count = 30
    """Largest number of epochs; see `early_stopping_patience`."""
    batch_size: Count = 64
    """In sentences or in words, see `batch_unit`."""
    batch_unit: Literal["sentences", "words"] = "sentences"
    """What `batch_size` counts."""
    max_batch_words: Count = 20_000
    """A batch with more words, padding included, is split, so that memory is bounded. A longer sentence is a
    batch of its own."""
    learning_rate: LearningRateSettings = LearningRateSettings()
    precision: Precision = "float32"
    """Of matrix products in training. float32: exact. tf32: factors of 10 bits, on NVIDIA GPUs since Ampere.
    bfloat16: factors of 7 bits, on these GPUs and on CPUs with amx_bf16 or avx512_bf16. Weights and
    elementwise operations are float32. Parsing is float32, on the dev set too."""
    optimizer: OptimizerSettings = OptimizerSettings()
    max_grad_norm: float = Field(5.0, gt=0, allow_inf_nan=True)
    """Gradient clipping: the largest norm of all gradients together; .inf for none."""
    frozen: tuple[str, ...] = Field((), strict=False)
    """Weights that are not trained: parts of the network, or beginnings of names in `weights.safetensors`, as
    `tokens.embeddings` or `stack`. In fine-tuning, what is new in them keeps its random values."""
    average: float | None = Field(None, gt=0, lt=1)
    """The model is the exponential moving average of the weights with this decay, as 0.999."""
    unknown_probability: float = Field(0.5, ge=0, le=1)
    """Word dropout of words that occur once in training: the probability that such a word is replaced by the
    unknown word. `word_dropout` may replace it more often. Lemmas are treated alike."""
    word_dropout: float = Field(0.0, ge=0)
    """Word dropout by frequency (Kiperwasser & Goldberg 2016): a word that occurs n times in training is
    replaced by the unknown word with probability word_dropout / (word_dropout + n). Lemmas are treated
    alike."""
    tag_dropout: float = Field(0.0, ge=0, le=1)
    """The probability that a UPOS or XPOS tag is replaced by the unknown tag."""
    feature_dropout: float = Field(0.0, ge=0, le=1)
    """The probability that a feature of FEATS is replaced by the unknown feature."""
    objective: Objective = "likelihood"
    """What is minimised where several transitions are right, as in exploration. `likelihood`: the negative
    log-likelihood of all of them together. `best`: that of the most probable one. `margin`: the hinge loss of
    Kiperwasser & Goldberg 2016, by how much the best right score is less than 1 above the best wrong one."""
    exploration: ExplorationSettings | None = None
    """Needs a transition system with a dynamic oracle: arc-hybrid or arc-eager."""
    distillation: DistillationSettings | None = None
    """Learning from other parsers, too. Batches that explore learn from the trees alone."""
    early_stopping_patience: Count | None = None
    """Early stopping: training ends after this many epochs without a better dev score; see `best_by`."""
    best_by: Measure = "las"
    """The dev score by which the best epoch is chosen. Tags and lemmas that are not predicted count as
    right."""


class Config(Settings):
    treebank: TreebankSettings
    parser: ParserSettings = ParserSettings()
    training: TrainingSettings = TrainingSettings()
    initial_model: str | None = None
    """Folder, file or name of a model with the same network, with whose weights training begins, as
    fine-tuning. What the treebank has in addition is added to its vocabulary and labels. `train --from` sets
    it."""
    tokenizer: AnyTokenizer | None = None
    """Whether the model gets a tokenizer, with which it parses [text](text.md), and of which `kind`. A
    finished run gets one by `--resume RUN --set tokenizer.kind=udpipe`."""
    small_treebank: SmallTreebankSettings | None = None
    """What changes for a treebank of few words. The config that a run keeps has the changes."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is CUDA where available."""
    threads: Threads = 1
    """CPU threads. The matrix products are small: a second thread gains a third at best, and nothing on a
    busy machine."""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Config:
        faults = [*_contradictions(self.parser, self.training), *_treebank_contradictions(self)]
        if faults:
            raise contradiction_error(faults)
        return self

    @model_validator(mode="after")
    def _refuse_what_small_treebanks_can_not_have(self) -> Config:
        try:
            of_size(self, TreebankSize(sentences=0, words=0))
        except (ValidationError, TypeError, AttributeError) as error:
            why = fault_lines(error) if isinstance(error, ValidationError) else ["names no setting"]
            raise contradiction_error([("small_treebank.set", "; ".join(why))]) from None
        return self


def _contradictions(parser: ParserSettings, training: TrainingSettings) -> Iterator[tuple[str, str]]:
    """Settings that have no effect or exclude each other, and why."""
    network, exploration = parser.network, training.exploration
    system = SYSTEMS[parser.system]
    if exploration and not system.has_costs:
        yield "training.exploration", f"{system.name} has no dynamic oracle; take another parser.system"
    if exploration and exploration.from_epoch > training.epochs:
        yield "training.exploration.from_epoch", "is after the last epoch: nothing is explored"
    if training.learning_rate.peak == "paper" and training.batch_unit == "words":
        yield "training.learning_rate.peak", "the paper's is for batches in sentences; write a number"
    if training.distillation and training.objective != "likelihood":
        yield "training.objective", "teachers give probabilities, for which it is likelihood"
    if network.train_pretrained and not network.pretrained:
        yield "parser.network.train_pretrained", "there are no parser.network.pretrained vectors"
    predicted = network.tags.predict
    if both := set(predicted) & set(network.tag_sizes):
        yield "parser.network.tags.predict", f"{', '.join(both)} is read: there is nothing to learn"
    if (columns := OF_COLUMNS.get(training.best_by)) and columns.isdisjoint(predicted):
        why = "is of columns that parser.network.tags.predict has not, so each epoch would be the best"
        yield "training.best_by", why
    if len(set(predicted)) < len(predicted):
        yield "parser.network.tags.predict", "names the same column twice"
    if network.embedding_dropout and network.embeddings == 1:
        yield "parser.network.embedding_dropout", "a word has one embedding only; take parser.network.dropout"
    for dropout, kind in (("tag_dropout", "tag"), ("feature_dropout", "features")):
        names = [name for name, column in annotation_columns().items() if column.kind == kind]
        if getattr(training, dropout) and not set(names) & set(network.tag_sizes):
            yield f"training.{dropout}", f"parser.network.tag_sizes has no {' or '.join(names)}"


def _treebank_contradictions(config: Config) -> Iterator[tuple[str, str]]:
    treebank, training = config.treebank, config.training
    if treebank.dev is None and training.learning_rate.decay == "plateau":
        yield "training.learning_rate.decay", "there is no treebank.dev, whose loss it follows; take linear"
    if treebank.dev is None and training.early_stopping_patience:
        yield "training.early_stopping_patience", "there is no treebank.dev by which training could stop"
    if treebank.dev is None and training.best_by != "las":
        yield "training.best_by", "there is no treebank.dev, so that no epoch is the best; leave it out"
    if treebank.sampling_exponent != 1 and len(treebank.train_files) == 1:
        yield "treebank.sampling_exponent", "treebank.train is one file: every tree is drawn once"
    system = SYSTEMS[config.parser.system]
    if treebank.partial and not system.keeps_given_arcs:
        yield (
            "treebank.partial",
            f"it is not known which transitions of {system.name} keep known arcs possible; take another "
            "parser.system, arc-hybrid or arc-eager",
        )
    if treebank.partial and training.distillation:
        yield (
            "treebank.partial",
            "teachers tell what they would do along trajectories of complete trees; let one of them complete "
            "the trees first: stack-parser parse TEACHER FILE --keep given",
        )
    if treebank.silver and (treebank.silver.epochs or 0) > training.epochs:
        yield "treebank.silver.epochs", "is after the last epoch; leave it out for all epochs"


DATA = "data"
"""The data folder, unless PARSER_DATA names another one."""


def data_path(path: str) -> str:
    """A path from a config, with ${PARSER_DATA} replaced.

    What is in no `data/` of the working directory may be in that folder, too: both stand for the same.
    """
    folder = os.environ.get("PARSER_DATA") or DATA
    found = path.replace("${PARSER_DATA}", folder)
    first, _, below = found.partition("/")
    elsewhere = os.path.join(folder, below)
    return elsewhere if first == DATA and not os.path.exists(found) and os.path.exists(elsewhere) else found


def path_in_configs(path: Path) -> str:
    """The path as configs name it, so that a config is the same on other machines: inverse of `data_path`."""
    folder = os.environ.get("PARSER_DATA")
    if folder and path.is_relative_to(folder):
        return f"${{PARSER_DATA}}/{path.relative_to(folder)}"
    return str(path)
