"""The names and shapes of a parser's weights, as they follow from its settings and vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from parser.networks.settings import (
    DIRECTIONS,
    FEATURE_WORDS,
    CharacterLSTMSettings,
    CharacterSettings,
    NetworkSettings,
)
from parser.treebank.vocabulary import CHARACTERS, PRETRAINED, TREEBANK, Vocabulary, division_of

Shape = tuple[int, ...]
GATES = 4
"""Of an LSTM: input, forget, cell and output."""
VECTORS = f"tokens.embeddings.{PRETRAINED}.weight"


def weight_shapes(
    settings: NetworkSettings,
    vocabulary: Vocabulary,
    transitions: int,
    vector_size: int,
    transformer: dict[str, Shape],
    transformer_size: int,
) -> dict[str, Shape]:
    """The shape of each weight in the file of a model.

    transitions: number of labelled transitions. vector_size: that of the pretrained vectors. transformer: the
    shapes of the weights of a transformer that are trained, with names as in the file. transformer_size: that
    of its vectors, 0 without one.
    """
    hidden, predicted = settings.hidden_size, {name: len(each) for name, each in vocabulary.predicted.items()}
    columns = {name: len(each) for name, each in vocabulary.columns.items()}
    shapes, joined = dict(transformer), transformer_size
    for column, count in columns.items():
        of_column, size = _embedding(column, count, settings, vector_size)
        shapes |= {f"tokens.embeddings.{column}.{name}": shape for name, shape in of_column.items()}
        joined += size
    shapes |= linear_shapes("tokens.join", joined, settings.token_size)
    token = settings.token_size
    if encoder := settings.sentence_encoder:
        token = 2 * encoder.hidden_size
        shapes |= lstm_shapes(
            "tokens.sentence_encoder", settings.token_size, encoder.hidden_size, encoder.layers, DIRECTIONS
        )
    shapes |= {"tokens.root": (token,), "tokens.end": (token,)}
    if settings.composition:
        shapes |= {"composition.join.weight": (token, 2 * token)}
        shapes |= {"composition.transitions.weight": (transitions + 1, token)}
    shapes["transition_embeddings.weight"] = (transitions + 1, settings.transition_size)
    for lstm, inputs in (("stack", token), ("buffer", token), ("history", settings.transition_size)):
        shapes |= lstm_shapes(lstm, inputs, hidden, settings.layers)
        shapes |= linear_shapes(f"from_{lstm}", hidden, hidden, bias=lstm == "stack")
    if settings.word_features:
        shapes |= linear_shapes("from_words", token, FEATURE_WORDS * hidden, bias=False)
    shapes |= linear_shapes("scores", hidden, transitions)
    for column, count in predicted.items():
        shapes |= linear_shapes(f"tags.{column}", token, count)
    if settings.tags.layers_above:
        size = settings.tags.embedding_size
        for column, count in predicted.items():
            shapes |= linear_shapes(f"layers_above_tags.embeddings.{column}", count, size, bias=False)
        inputs = token + size * len(predicted)
        shapes |= lstm_shapes(
            "layers_above_tags.lstm", inputs, token // 2, settings.tags.layers_above, DIRECTIONS
        )
    if arcs := settings.arcs:
        for name in ("arcs.head", "arcs.dependent", "labels.head"):
            shapes |= linear_shapes(name, token, arcs.size)
        shapes |= linear_shapes("labels.dependent", token, arcs.size, bias=False)
        shapes |= linear_shapes("arcs.attention", arcs.size, arcs.size)
        shapes |= linear_shapes("labels.labels", arcs.size, len(vocabulary.labels))
    return shapes


def _embedding(
    column: str, count: int, settings: NetworkSettings, vector_size: int
) -> tuple[dict[str, Shape], int]:
    """The weights of a column whose lexicon has `count` entries, and the size of a word's vector."""
    if column == CHARACTERS:
        assert settings.characters
        return dict(_characters(settings.characters, count)), settings.characters.vector_size
    if column == PRETRAINED:
        size = vector_size
    elif column == "form":
        size = settings.word_size
    elif column == TREEBANK:
        assert settings.treebank_size
        size = settings.treebank_size
    else:
        size = settings.tag_sizes[column]
    return {"parts.weight" if division_of(column) else "weight": (count, size)}, size


def _characters(settings: CharacterSettings, count: int) -> Iterator[tuple[str, Shape]]:
    if isinstance(settings, CharacterLSTMSettings):
        yield "embedding.weight", (count, settings.size)
        yield from lstm_shapes("lstm", settings.size, settings.hidden_size, 1, DIRECTIONS).items()
        return
    yield "characters.weight", (count + 1, settings.size)
    for number, width in enumerate(settings.widths):
        yield f"filters.{number}.weight", (width * settings.filters, settings.size)
        yield f"biases.{number}", (settings.filters,)


def linear_shapes(name: str, inputs: int, outputs: int, bias: bool = True) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs)} | ({f"{name}.bias": (outputs,)} if bias else {})


def lstm_shapes(
    name: str, inputs: int, hidden: int, layers: int, directions: tuple[str, ...] = ("",)
) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for layer in range(layers):
        of_layer = len(directions) * hidden if layer else inputs
        for direction in directions:
            end = f"l{layer}{direction}"
            shapes[f"{name}.weight_ih_{end}"] = (GATES * hidden, of_layer)
            shapes[f"{name}.weight_hh_{end}"] = (GATES * hidden, hidden)
            shapes |= {f"{name}.bias_{kind}_{end}": (GATES * hidden,) for kind in ("ih", "hh")}
    return shapes
