"""The settings of the whole network. Those of a part are beside the part."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticKnownError

from parser.networks.bilstm import SentenceEncoderSettings
from parser.networks.character_encoder import CharacterSettings
from parser.networks.scorers import ArcSettings
from parser.networks.transformer.weights import TransformerSettings
from parser.system.settings import Layers, Settings, Size, contradiction_error
from parser.treebank.sentence import annotation_columns


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
