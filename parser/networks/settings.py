"""The settings of the network and of its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticKnownError

from parser.system.settings import Count, Layers, Settings, Size, contradiction_error
from parser.treebank.sentence import annotation_columns

DIRECTIONS = ("", "_reverse")
"""The ends of the names of an LSTM's weights, forwards and backwards."""
FEATURE_WORDS = 3
"""Words that `word_features` adds to the input of the scores: S0, S1 and B0."""


def known(name: str, names: Collection[str]) -> str:
    """The name. Raises the same error as a `Literal` if it is not one of the names."""
    if name not in names:
        *others, last = map(repr, names)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return name


Column = Annotated[
    str,
    AfterValidator(lambda name: known(name, annotation_columns())),
    WithJsonSchema({"type": "string", "enum": list(annotation_columns())}),
]
"""The name of a column, see `annotation_columns`."""


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


Width = Annotated[int, Field(gt=0, le=100)]


class ConvolutionSettings(Settings):
    """A convolution over the characters of a form, and its greatest values (Ma & Hovy 2016)."""

    kind: Literal["convolution"] = "convolution"
    size: Size = 32
    """Size of a character's embedding."""
    filters: Size = 50
    """Number of filters of each width."""
    widths: tuple[Width, ...] = Field((2, 3, 4), strict=False, min_length=1, max_length=20)
    """Widths of the filters, in characters."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the character embeddings."""

    @property
    def vector_size(self) -> int:
        """Size of the vector of a form."""
        return len(self.widths) * self.filters


class CharacterLSTMSettings(Settings):
    """A bidirectional LSTM over the characters of a form, and its last state in each direction (Ling et al.
    2015)."""

    kind: Literal["lstm"]
    size: Size = 32
    """Size of a character's embedding."""
    hidden_size: Size = 100
    """Size of the LSTM in each direction."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout on the character embeddings."""

    @property
    def vector_size(self) -> int:
        """Size of the vector of a form."""
        return len(DIRECTIONS) * self.hidden_size


def _tag_of_characters(settings: Any) -> str | None:
    """The tag by which pydantic chooses the class of the given settings."""
    if isinstance(settings, dict):
        kind = settings.get("kind", "convolution")
    else:
        kind = getattr(settings, "kind", None)
    return f"<{kind}>" if isinstance(kind, str) else None


CharacterSettings = Annotated[
    Annotated[ConvolutionSettings, Tag("<convolution>")] | Annotated[CharacterLSTMSettings, Tag("<lstm>")],
    Discriminator(
        _tag_of_characters,
        custom_error_type="character_kind",
        custom_error_message="input should be {kind: NAME} with one of the names convolution, lstm",
    ),
]


class SentenceEncoderSettings(Settings):
    """A bidirectional LSTM over the words of the sentence (Kiperwasser & Goldberg 2016)."""

    hidden_size: Size = 200
    """Size of the LSTM in each direction."""
    layers: Layers = 2
    """Number of layers."""


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


Trained = Literal["frozen", "lora", "all"]


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
    Training needs the extra `transformers`, and parsing on a CPU only `tokenizers`."""

    model: str
    """Folder of a model in the format of Hugging Face's transformers, with its weights as safetensors and a
    `tokenizer.json`; or the name of a model on the Hugging Face hub, which is downloaded."""
    prune: bool = False
    """Whether to leave out the pieces of words with characters that no form of train has, also from the
    transformer of an `initial_model`. A vocabulary for many languages becomes half as large, or a tenth, and
    with it memory and the model. Words of the other characters are divided as before."""
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
