"""The settings of an experiment's YAML file. The text under a field is its documentation."""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
from parser.system import MOST_THREADS
from parser.system.settings import Count, Settings, contradiction_error
from parser.transitions import SYSTEMS
from parser.treebank.columns import annotation_columns
from parser.treebank.size import TreebankSize
from parser.treebank.text.tokenizer_kinds import AnyTokenizer

Average = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[int, Field(gt=0, le=65_536)]
"""Size of a vector or a layer."""
Layers = Annotated[int, Field(gt=0, le=100)]
Threads = Annotated[int, Field(gt=0, le=MOST_THREADS)]
Width = Annotated[int, Field(gt=0, le=100)]
Files = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
FileOrFiles = Annotated[
    Annotated[str, Tag("<file>")] | Annotated[Files, Tag("<files>")],
    Discriminator(lambda value: "<files>" if isinstance(value, list | tuple) else "<file>"),
]
"""One file or several; errors are reported for one of the two types only."""
Trained = Literal["frozen", "lora", "all"]


def _known(name: str, names: Collection[str]) -> str:
    """The name. Raises the same error as a `Literal` if it is not one of the names."""
    if name not in names:
        *others, last = map(repr, names)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


Column = Annotated[
    str,
    AfterValidator(lambda name: _known(name, annotation_columns())),
    WithJsonSchema({"type": "string", "enum": list(annotation_columns())}),
]
"""The name of a column, see `annotation_columns`."""


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
    `--treebank` are then taken to belong to the first one."""
    train_sentences: Count | None = None
    """Train only on this many sentences from the beginning of `train`, or of its first file. This is useful
    for learning curves over the size of the treebank. A tokenizer is still trained on the whole file."""
    sampling_exponent: float = Field(1.0, ge=0, le=1)
    """How an epoch samples from several treebanks. It draws as many trees as they contain together, from each
    treebank in proportion to its number of trees to this power. 1: by size, every tree once. 0: equally many
    from each, so that trees of small treebanks are repeated."""
    silver: SilverSettings | None = None
    """Additional training trees that were made by another parser."""
    dev: str | None
    """Dev file. The model with the best score on it is kept, see `training.best_by`. null: there is no dev
    file, and the model of the last epoch is kept, see [without dev](treebanks.md#without-dev)."""
    test: str | None = None
    """Test file. It is scored once, at the end, with the best model."""
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
    """Dropout on the character embeddings."""


class SentenceEncoderSettings(Settings):
    """A bidirectional LSTM over the words of the sentence (Kiperwasser & Goldberg 2016)."""

    hidden_size: Size = 200
    """Size of the LSTM in each direction."""
    layers: Layers = 2
    """Number of layers."""


class LoraSettings(Settings):
    """Low-rank matrices that are added to the matrices of the transformer (Hu et al. 2022), for `train:
    lora`."""

    rank: int = Field(8, gt=0, le=1024)
    """Rank of the low-rank matrices."""
    alpha: int = Field(16, gt=0, le=65_536)
    """Scale of the low-rank matrices: their product is multiplied by alpha / rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the input of the low-rank matrices."""


class TransformerSettings(Settings):
    """A pretrained transformer. Its output at the pieces of a word gives an additional vector for the word.
    Needs the extra `transformers`."""

    model: str
    """Folder of a model in the format of Hugging Face's transformers, with its weights as safetensors and a
    `tokenizer.json`; or the name of a model on the Hugging Face hub, which is downloaded."""
    layers: int = Field(4, gt=0, le=200)
    """Number of layers, counted from the last, whose outputs are averaged with learned weights (Peters et al.
    2018, equation 1)."""
    pooling: Literal["mean", "first", "last"] = "mean"
    """How the vector of a word is computed: the mean of its pieces, or its first or last piece."""
    train: Trained = "frozen"
    """Which weights of the transformer are trained. `frozen`: none; the vectors are computed once and cached
    in half precision. `lora`: low-rank matrices, see `lora`. `all`: all weights."""
    learning_rate: float = Field(5e-5, gt=0)
    """Learning rate of the transformer after its warm-up. `training.learning_rate` sets that of the other
    weights; its decay also applies to the transformer."""
    warmup_epochs: float = Field(1.0, ge=0, le=1_000_000_000)
    """Number of epochs over which the learning rate of the transformer increases linearly from 0."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Factor between the learning rates of adjacent layers: the rate of a layer of the transformer is this
    times the rate of the layer above it."""
    max_pieces: Count = 512
    """Largest number of pieces to read at once. A longer sentence is read in overlapping windows of this many
    pieces, or of as many as the transformer can read."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the vectors of words. If the transformer is trained, the dropout inside it is set by its own
    config."""
    gradient_checkpointing: bool = False
    """Whether to recompute the activations of the transformer for the gradient instead of keeping them. This
    needs less memory and is slower."""
    lora: LoraSettings = LoraSettings()


class TagSettings(Settings):
    predict: tuple[Column, ...] = Field((), strict=False)
    """Columns that the parser learns to predict from the word vectors instead of reading them from the input
    (as in Zhang & Weiss 2016). It writes the predictions where the input has no value. Lemmas are predicted
    as edit scripts."""
    loss_weight: float = Field(1.0, gt=0)
    """Weight of the losses of these columns. The loss of the transitions has weight 1."""
    layers_above: int = Field(0, ge=0, le=100)
    """Number of additional layers of the sentence encoder, above the tags. They also read the predicted tags
    (Hashimoto et al. 2017). 0: the parser does not read the predicted tags."""
    embedding_size: Size = 32
    """Size of the embedding of a predicted value, which the layers above the tags read."""


class ArcSettings(Settings):
    """A scorer of arcs over the word vectors (Dozat & Manning 2017) and a scorer of labels, both trained
    together with the parser. Trees are then found by the parser and the scorers together (Sagae & Lavie
    2006), and the probability of an arc is the mean of both."""

    size: Size = 100
    """Size of the projections of heads and dependents in each scorer."""
    loss_weight: float = Field(0.5, gt=0)
    """Weight of the losses of the words' heads and labels. The loss of the transitions has weight 1, and each
    word has two transitions."""
    bonus: float | None = Field(None, ge=0)
    """Bonus for the parser's own arcs. It is added to the logarithms of the scorer's probabilities when both
    find a tree together. Default: the value with the best LAS on dev, chosen at the end of training, or the
    parser's tree alone if no value is better; 2 without dev. Until then, the parser's tree is used."""


class NetworkSettings(Settings):
    """The defaults are those of Ding & Koehn 2019, section 5."""

    word_size: Size = 32
    """Size of the trained word embedding."""
    fold_case: bool = False
    """Whether forms that differ only in case share a trained embedding. Characters and pretrained vectors
    keep their case."""
    pretrained: str | None = None
    """File of pretrained word vectors: the text format of word2vec, GloVe or fastText, optionally `.gz`, or
    the binary format of word2vec, `.bin` or `.bin.gz`. The vectors are stored with the model."""
    train_pretrained: bool = False
    """Whether to fine-tune the pretrained vectors."""
    tag_sizes: dict[Column, Size] = Field({"upos": 12})
    """Other columns that the parser reads, and the sizes of their embeddings. The embeddings of a word's
    features (FEATS) are summed."""
    characters: CharacterSettings | None = None
    """Settings for reading the characters of forms. null: they are not read."""
    treebank_size: Size | None = None
    """Size of an embedding of the treebank that a sentence comes from; each word of the sentence has it
    (Stymne et al. 2018). For several `treebank.train` files."""
    transformer: TransformerSettings | None = None
    """Settings for reading the vectors of a pretrained transformer. null: there is no transformer."""
    tags: TagSettings = TagSettings()
    arcs: ArcSettings | None = None
    """Settings for predicting the head of each word from the word vectors, too. null: only the parser
    predicts heads."""
    token_size: Size = 60
    """Size of a word's vector, which is computed from all its embeddings."""
    sentence_encoder: SentenceEncoderSettings | None = None
    """Settings of a bidirectional LSTM that runs over the word vectors first. null: there is none."""
    composition: bool = False
    """Whether to compose a head and its dependent into one vector (Dyer et al. 2015)."""
    word_features: bool = False
    """Whether the scores depend not only on the states of the LSTMs, but also on the vectors of the top two
    words of the stack and the first word of the buffer, as in Kiperwasser & Goldberg 2016."""
    hidden_size: Size = 200
    """Size of the LSTMs over stack, buffer and history, and of the hidden layer that joins them."""
    layers: Layers = 2
    """Number of layers of each LSTM over stack, buffer or history."""
    transition_size: Size = 48
    """Size of a transition's embedding in the history."""
    embedding_dropout: float = Field(0.0, ge=0, lt=1)
    """Probability that a word is read without its embedding of a column (or of its characters), drawn for
    each word and column. The embeddings of its other columns are scaled up (Dozat & Manning 2017)."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on word vectors, between the layers of the LSTMs, and on the inputs of the linear layers."""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> NetworkSettings:
        if faults := list(self._contradictions()):
            raise contradiction_error(faults)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings with which there can be no network, not even that of a model, and why."""
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
        """The number of embeddings of each word: one per column, and one per source of pretrained vectors."""
        return len(self.columns) + bool(self.pretrained) + bool(self.transformer)


class CalibrationSettings(Settings):
    """Calibration of an arc's probability p, so that it is the share of correct arcs among those with the
    same probability (beta calibration, Kull, Silva Filho & Flach 2017, equation 5). The result is the
    logistic function of right ln p - wrong ln(1 - p) + offset. With the defaults 1, 1 and 0, it is p."""

    right: float = Field(1.0, ge=0)
    """Weight of the logarithm of p. Values above 1 make low probabilities lower."""
    wrong: float = Field(1.0, ge=0)
    """Weight of the logarithm of 1 - p. Values below 1 make high probabilities lower."""
    offset: float = 0.0
    """Constant term. Values above 0 make all probabilities higher."""


class ParserSettings(Settings):
    system: Annotated[
        str,
        AfterValidator(lambda name: _known(name, SYSTEMS)),
        WithJsonSchema({"type": "string", "enum": list(SYSTEMS)}),
    ] = "arc-hybrid"
    """The transition system."""
    network: NetworkSettings = NetworkSettings()
    calibration: CalibrationSettings | None = None
    """Calibration of the probabilities of arcs. Default: fitted on dev at the end of training, so that each
    probability is a share of correct arcs, labels included. Until then, and without dev, the probabilities of
    the parser and the scorers are used unchanged."""


Rate = Annotated[float, Field(gt=0)]


class LearningRateSettings(Settings):
    start: Rate = 5e-4
    """Learning rate at the first step."""
    peak: Rate | Literal["paper"] = "paper"
    """Learning rate after the warm-up. `paper` is the rule of Ding & Koehn 2019: min(start x batch size,
    0.02)."""
    warmup_epochs: int = Field(5, ge=0, le=1_000_000_000)
    """Number of epochs over which the learning rate increases linearly from `start` to `peak`."""
    decay: Literal["plateau", "linear"] = "plateau"
    """How the learning rate changes after the warm-up. `plateau`: it is reduced when the dev loss stops
    improving (ReduceLROnPlateau), see the next three settings. `linear`: it decreases linearly to 0 at the
    end of the last epoch; the dev loss, which takes as long as the dev scores, is not computed."""
    factor: float = Field(0.5, gt=0, lt=1)
    """With `plateau`: factor by which the learning rate is multiplied after more than `patience` epochs
    without a lower dev loss."""
    patience: int = Field(0, ge=0, le=1_000_000_000)
    """With `plateau`: number of epochs without a lower dev loss that are tolerated."""
    minimum: float = Field(1e-5, ge=0)
    """With `plateau`: lower limit of the learning rate."""


class OptimizerSettings(Settings):
    name: Literal["adam", "adamw"] = "adam"
    """Optimizer: Adam (Kingma & Ba 2015), or AdamW (Loshchilov & Hutter 2019), whose weight decay is
    decoupled from the gradient."""
    betas: tuple[Average, Average] = Field((0.9, 0.999), strict=False)
    """Decay rates of the moving averages of the gradient and of its square."""
    eps: float = Field(1e-8, gt=0)
    """Constant that is added to the denominator for numerical stability."""
    weight_decay: float = Field(1e-6, ge=0)
    """L2 penalty with `adam`, decoupled weight decay with `adamw`. It does not apply to pretrained
    vectors."""


class ExplorationSettings(Settings):
    """Training with exploration (Goldberg & Nivre 2012): the trajectory follows the parser's own predictions,
    and a dynamic oracle determines which transitions are correct there. While the trajectory is chosen, there
    is no dropout, and no word dropout either."""

    from_epoch: Count = 2
    """First epoch with exploration. Earlier epochs follow the gold trajectories."""
    probability: float = Field(0.5, gt=0, le=1)
    """Probability that a batch explores. The other batches follow the gold trajectories."""
    follow: Literal["samples", "errors"] = "samples"
    """Which transitions the trajectory follows. `samples`: transitions drawn from the parser's distribution
    (Ballesteros et al. 2016). `errors`: the transition with the best score, even if it is wrong, and
    sometimes a wrong transition with nearly the best score, see `aggressive_probability` (Kiperwasser &
    Goldberg 2016)."""
    sharpness: float = Field(0.75, gt=0)
    """With `samples`: factor by which the scores are multiplied before a transition is drawn from their
    softmax (an inverse temperature). Below 1, the distribution is flatter, and there are more mistakes to
    learn from."""
    aggressive_probability: float = Field(0.1, ge=0, le=1)
    """With `errors`: probability of following the best wrong transition even though a correct one has a
    higher score, by at most 1."""


Objective = Literal["likelihood", "best", "margin"]


class DistillationSettings(Settings):
    """Knowledge distillation: at each transition of the training trees, the parser learns what other parsers,
    the teachers, would do (Hinton et al. 2015; for transition-based parsers Liu et al. 2018)."""

    models: Files
    """Folders or packages of the teachers. Their probabilities are averaged. They run once, before training,
    over the gold and silver trees. They must have the parser's transition system; their networks and labels
    may differ."""
    weight: float = Field(1.0, gt=0, le=1)
    """Share of the loss that is the cross entropy with the teachers. The rest is the loss on the trees."""


class TrainingSettings(Settings):
    seed: int = Field(1, ge=-(2**63), lt=2**63)
    """Random seed for the initial weights, shuffling and dropout. The same seed gives the same model on the
    same machine; on a GPU only with `deterministic`."""
    deterministic: bool = False
    """Whether to use only deterministic kernels on a GPU, which are slower. All kernels on a CPU are
    deterministic."""
    cuda_graphs: bool = False
    """Whether to compute gradients with CUDA graphs on a GPU. Batches are padded to a few shapes, and each
    shape has a graph. Not for networks with composition, a sentence encoder, arcs, characters, FEATS or a
    transformer, in epochs that explore, or with `treebank.partial`. Dropout draws other random numbers than
    without graphs. A run can be resumed without them."""
    epochs: Count = 30
    """Maximum number of epochs; see `early_stopping_patience`."""
    batch_size: Count = 64
    """Size of a batch, in sentences or in words; see `batch_unit`."""
    batch_unit: Literal["sentences", "words"] = "sentences"
    """Unit of `batch_size`."""
    max_batch_words: Count = 20_000
    """Maximum number of words in a batch, padding included. Larger batches are split to bound memory. A
    longer sentence is a batch by itself."""
    learning_rate: LearningRateSettings = LearningRateSettings()
    precision: Precision = "float32"
    """Precision of matrix products in training. float32: exact. tf32: factors of 10 bits, on NVIDIA GPUs
    since Ampere. bfloat16: factors of 7 bits, on these GPUs and on CPUs with amx_bf16 or avx512_bf16. Weights
    and elementwise operations are float32. Parsing uses float32, also on the dev set."""
    optimizer: OptimizerSettings = OptimizerSettings()
    max_grad_norm: float = Field(5.0, gt=0, allow_inf_nan=True)
    """Gradient clipping: the largest norm of all gradients together. .inf: no clipping."""
    frozen: tuple[str, ...] = Field((), strict=False)
    """Weights that are not trained: parts of the network, or prefixes of names in `weights.safetensors`, such
    as `tokens.embeddings` or `stack`. In fine-tuning, weights that are added to them keep their random
    values."""
    average: float | None = Field(None, gt=0, lt=1)
    """Decay of an exponential moving average of the weights, such as 0.999. The model then consists of the
    averaged weights."""
    unknown_probability: float = Field(0.5, ge=0, le=1)
    """Word dropout for words that occur once in training: probability that such a word is replaced by the
    unknown word. `word_dropout` may replace it more often. Lemmas are treated the same way."""
    word_dropout: float = Field(0.0, ge=0)
    """Word dropout by frequency (Kiperwasser & Goldberg 2016): a word that occurs n times in training is
    replaced by the unknown word with probability word_dropout / (word_dropout + n). Lemmas are treated the
    same way."""
    tag_dropout: float = Field(0.0, ge=0, le=1)
    """Probability that a UPOS or XPOS tag is replaced by the unknown tag."""
    feature_dropout: float = Field(0.0, ge=0, le=1)
    """Probability that a feature of FEATS is replaced by the unknown feature."""
    objective: Objective = "likelihood"
    """Loss to minimize if several transitions are correct, as in exploration. `likelihood`: the negative
    log-likelihood of all of them together. `best`: that of the most probable one. `margin`: the hinge loss of
    Kiperwasser & Goldberg 2016, the amount by which the best correct score is less than 1 above the best
    wrong one."""
    exploration: ExplorationSettings | None = None
    """Settings for training with exploration. Needs a transition system with a dynamic oracle: arc-hybrid or
    arc-eager."""
    distillation: DistillationSettings | None = None
    """Settings for learning from other parsers, too. Batches that explore learn only from the trees."""
    early_stopping_patience: Count | None = None
    """Early stopping: number of epochs without a better dev score after which training stops; see
    `best_by`."""
    best_by: Measure = "las"
    """Dev score that selects the best epoch. Tags and lemmas that are not predicted count as correct."""


class Config(Settings):
    treebank: TreebankSettings
    parser: ParserSettings = ParserSettings()
    training: TrainingSettings = TrainingSettings()
    initial_model: str | None = None
    """Folder, file or name of a model with the same network. Training starts from its weights (fine-tuning).
    Whatever is new in the treebank is added to its vocabulary and labels. `train --from` sets this."""
    tokenizer: AnyTokenizer | None = None
    """Settings of a tokenizer, with which the model can parse [text](text.md); `kind` selects one. null: the
    model gets none. To add one to a finished run, use `--resume RUN --set tokenizer.kind=udpipe`."""
    small_treebank: SmallTreebankSettings | None = None
    """Settings that change for a treebank with few words. The config that is kept with a run contains the
    changes."""
    device: str = "auto"
    """Device for training: cpu, cuda, cuda:1, ...; auto is CUDA if available."""
    threads: Threads = 1
    """Number of CPU threads. The matrix products are small: a second thread gains little, and nothing
    on a busy machine."""

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
