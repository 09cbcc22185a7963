"""The config of a training run. The text under a field is its documentation; parts of training have their
settings beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, create_model, model_validator

from parser.batching import Precision
from parser.config.data_folder import data_path
from parser.config.file import ConfigFile, flat, set_in
from parser.evaluation.measures import OF_COLUMNS, Measure
from parser.models.settings import ParserSettings
from parser.networks.loss import Objective
from parser.networks.stepping.exploration import ExplorationSettings
from parser.system.settings import Count, Settings, Threads, contradiction_error, fault_lines
from parser.text.tokenizer_kinds import AnyTokenizer
from parser.training.optimizer import LearningRateSettings, OptimizerSettings
from parser.training.teachers import DistillationSettings
from parser.training.trees import TreebankSettings
from parser.transitions import SYSTEMS
from parser.treebank.conllu import TreebankSize, size_of
from parser.treebank.sentence import annotation_columns


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


class SmallTreebankSettings(Settings):
    """Settings that change for a treebank with few words. They do not apply with `initial_model`, whose
    network is kept."""

    words: Count
    """A treebank is small if its training trees have fewer words than this. The words of files that can be
    read only once, such as pipes, are not counted; such a treebank is taken to be large."""
    steps: Count
    """A small treebank is trained for as many epochs as this number of steps needs, but for at least
    `training.epochs`. A step is one batch. The calculation assumes full batches, so an epoch may have one
    more, smaller batch."""
    set: dict[str, Any] = Field({})
    """Settings for small treebanks, by their full names. They override the config and `--set`. Settings of a
    section that is null have no effect. `--set small_treebank=null` turns the section off."""


class Config(Settings):
    treebank: TreebankSettings
    parser: ParserSettings = ParserSettings()
    training: TrainingSettings = TrainingSettings()
    initial_model: str | None = None
    """Folder, file or name of a model with the same network. Training starts from its weights (fine-tuning).
    Whatever is new in the treebank is added to its vocabulary and labels. `train --from` sets this."""
    tokenizer: AnyTokenizer | None = None
    """Settings of a tokenizer, with which the model can parse [text](text.md); `kind` selects one. null: the
    model gets none. To add one to a finished run, use `--resume RUN --set tokenizer.kind=bilstm`."""
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
        if faults := list(_contradictions(self)):
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


def _contradictions(config: Config) -> Iterator[tuple[str, str]]:
    """Settings that have no effect or exclude each other, and why."""
    treebank, network, training = config.treebank, config.parser.network, config.training
    system, exploration = SYSTEMS[config.parser.system], training.exploration
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
    if treebank.dev is None and training.learning_rate.decay == "plateau":
        yield "training.learning_rate.decay", "there is no treebank.dev, whose loss it follows; take linear"
    if treebank.dev is None and training.early_stopping_patience:
        yield "training.early_stopping_patience", "there is no treebank.dev by which training could stop"
    if treebank.dev is None and training.best_by != "las":
        yield "training.best_by", "there is no treebank.dev, so that no epoch is the best; leave it out"
    if treebank.sampling_exponent != 1 and len(treebank.train_files) == 1:
        yield "treebank.sampling_exponent", "treebank.train is one file: every tree is drawn once"
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


def read_config(path: Path, overrides: Sequence[str] = (), values: Mapping[str, Any] | None = None) -> Config:
    """The config of a training run.

    overrides: such as "training.batch_size=64". values: parsed overrides, by dotted key. Raises ConfigError,
    FileNotFoundError.
    """
    return ConfigFile(path, overrides, values).validated(Config)


def for_its_treebank(config: Config) -> Config:
    """The config for its treebank, without the section `small_treebank`.

    Raises what `size_of` and `of_size` raise.
    """
    return of_size(config, training_size(config.treebank) if config.small_treebank else None)


def training_size(treebank: TreebankSettings) -> TreebankSize | None:
    """The size of the training trees; None if a file is missing, or can be read only once.

    Raises what `size_of` raises.
    """
    paths = [data_path(path) for path in treebank.train_files]
    if not all(Path(path).is_file() for path in paths):
        return None
    # `train_sentences` limits the first file only.
    limits = [treebank.train_sentences, *[None] * (len(paths) - 1)]
    sizes = [size_of(path, most) for path, most in zip(paths, limits, strict=True)]
    return TreebankSize(*map(sum, zip(*sizes, strict=True)))


def of_size(config: Config, size: TreebankSize | None) -> Config:
    """The config for a treebank of this size, without the section `small_treebank`.

    size: the size of the training trees; None if they cannot be counted, in which case the treebank is taken
    to be large. Raises ValidationError for invalid settings.
    """
    rule = config.small_treebank
    if rule is None:
        return config
    content = {**config.model_dump(mode="json"), "small_treebank": None}
    if size is None or size.words >= rule.words or config.initial_model is not None:
        return type(config).model_validate(content)
    for key, value in deepcopy(rule.set).items():
        set_in(content, key, value)
    content["small_treebank"] = None  # also if the rule sets it
    # Validated alone: contradictions with other sections may depend on the epochs.
    section = create_model("Section", training=(type(config.training), ...))
    validated: Any = section.model_validate({"training": content["training"]})
    training = validated.training
    counted = size.words if training.batch_unit == "words" else size.sentences
    batches = max(1, -(-counted // training.batch_size))
    set_in(content, "training.epochs", max(training.epochs, -(-rule.steps // batches)))
    return type(config).model_validate(content)


def changed_settings(config: Config, changed_config: Config) -> str:
    """The settings that `of_size` changed, as text; empty if it changed none.

    config: with the section `small_treebank`. changed_config: what `of_size` made of it.
    """
    assert config.small_treebank
    before, now = flat(config.model_dump()), flat(changed_config.model_dump())
    wanted = [f"{name}." for name in ("training.epochs", *config.small_treebank.set)]
    # A section may be replaced as a whole, or removed.
    keys = dict.fromkeys(key for name in wanted for key in (now | before) if f"{key}.".startswith(name))
    changed = [key for key in keys if before.get(key) != now.get(key)]
    return ", ".join(f"{key} {now[key]}" if key in now else f"no {key}" for key in changed)
