"""A language model whose network is a graph of layers (Hwang & Sung 2015).

`none` loops over streams and frames: every connection runs frame by frame, forward and backward, and
gradients of weights are accumulated in every frame. `streams` does the same for all streams at once;
`late-gradients` also computes the gradient of each weight by one product over all frames. `components` runs
only cycles frame by frame, stream by stream; `both` does so for all streams at once. `library` is `nn.RNN` or
`nn.LSTM` over all frames, then one linear layer.
The batch size is the number of streams; a step has `frames` frames in total.
"""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import torch
from pydantic import Field, model_validator
from torch import Tensor

from parser.batching import PRECISIONS
from parser.batching.recurrence.examples import EXAMPLES, with_scores
from parser.batching.recurrence.layer_graph import Layer, LayerGraph
from parser.batching.recurrence.unrolled import training_operations
from parser.batching.recurrence.weights import Weights
from parser.config.data_folder import data_path
from parser.speed.tasks.language_model.network import (
    INPUT,
    LAYERS,
    SCORES_LAYER,
    LanguageModel,
    LayeredModel,
    LibraryModel,
    Text,
    with_embedding,
)
from parser.speed.tasks.operation_training import missing_file, optimizers
from parser.speed.tasks.plugin import (
    AnySetup,
    Methods,
    Plugin,
    Setup,
    Work,
    fingerprints,
    gradients_of,
    method,
    methods_of,
)
from parser.speed.tasks.tagged_text import UNKNOWN, read_tagged_text
from parser.system.settings import Settings
from parser.treebank.conllu import stream_sentences

END = "</s>"
"""The word after each sentence."""
TREEBANK_SUFFIXES = (".conllu", ".conllx", ".conll")
ZIPF_EXPONENT = 1.0
FOLLOWS = 0.6
"""The share of generated words that are determined by the previous word."""


def read_words(paths: Iterable[str]) -> list[str]:
    """The lower-cased words of treebanks and of files with sentences of `word|label`.

    Raises FileNotFoundError, and ValueError with the line for malformed files.
    """
    words: list[str] = []
    for path in paths:
        if path.removesuffix(".gz").endswith(TREEBANK_SUFFIXES):
            sentences = (list(sentence.forms) for sentence in stream_sentences(path, tree=False))
        else:
            sentences = ([word.word for word in sentence] for sentence in read_tagged_text(Path(path)))
        for sentence in sentences:
            words += [word.lower() for word in sentence]
            words.append(END)
    return words


def generate_words(count: int, vocabulary: int, seed: int) -> list[str]:
    """Generate words with Zipf-distributed frequencies; each word often has the same successor."""
    draw = random.Random(seed)
    weights = list(accumulate(1 / rank**ZIPF_EXPONENT for rank in range(1, vocabulary + 1)))
    words = list(range(vocabulary))
    successors = draw.choices(words, cum_weights=weights, k=vocabulary)
    row = [0]
    while len(row) < count:
        row.append(
            successors[row[-1]] if draw.random() < FOLLOWS else draw.choices(words, cum_weights=weights)[0]
        )
    return [f"w{word}" for word in row]


def ranks(words: Iterable[str]) -> dict[str, int]:
    """The frequency rank of each word, from 1 on; ties in order of first occurrence."""
    return {word: number for number, (word, _) in enumerate(Counter(words).most_common(), start=1)}


def replace_rare(numbers: Iterable[int], limit: int) -> list[int]:
    """Replace numbers that are not below `limit` by UNKNOWN."""
    return [number if number < limit else UNKNOWN for number in numbers]


class Corpus(NamedTuple):
    """The words as inputs and as targets, whose vocabularies can differ in size."""

    inputs: Tensor
    """[words]"""
    targets: Tensor
    """[words]"""

    def chunks(self, frames: int, streams: int) -> list[Text]:
        """Contiguous streams of equal length, the longest that can be cut into whole chunks."""
        number = (len(self.inputs) - 1) // (frames * streams)
        length = number * frames
        if not number:
            raise ValueError(
                f"{len(self.inputs)} words are too few for {frames} frames of {streams} streams: "
                "use more `words` or fewer `frames`"
            )
        inputs = self.inputs[: length * streams].view(streams, length).T.contiguous()  # [length, streams]
        targets = self.targets[1 : length * streams + 1].view(streams, length).T.contiguous()
        return [Text(*both) for both in zip(inputs.split(frames), targets.split(frames), strict=True)]


def split_corpus(
    words: Sequence[str], sizes: tuple[int, int], held_out: int, most: int | None, device: torch.device
) -> tuple[Corpus, Corpus]:
    """The words to train on, and those that are held out.

    sizes: the sizes of the vocabularies of inputs and targets, by frequency in the training words.

    held_out: the number of words at the end; most: the maximum number of training words, from the beginning.
    Raises ValueError if none are left.
    """
    until = len(words) - held_out
    if until < 2:
        raise ValueError(f"{held_out} of {len(words)} words are held out: none is left")
    trained, rest = words[: min(until, most or until)], words[until:]
    found = ranks(trained)

    def corpus(part: Sequence[str]) -> Corpus:
        numbers = [found.get(word, UNKNOWN) for word in part]
        return Corpus(*(torch.tensor(replace_rare(numbers, size), device=device) for size in sizes))

    return corpus(trained), corpus(rest)


def unigram_perplexity(trained: Corpus, chunks: Sequence[Text], symbols: int) -> float:
    """The perplexity of the chunks' targets, by add-one smoothed frequencies in the training text."""
    counts = torch.bincount(trained.targets, minlength=symbols) + 1  # [symbols]
    shares = (counts / counts.sum()).log()  # [symbols]
    targets = torch.cat([chunk.targets.flatten() for chunk in chunks])  # [words]
    return math.exp(-shares[targets].mean().item())


LayeredModels: TypeAlias = Callable[[int, int, int], LanguageModel]
CHECKED_STREAMS, CHECKED_FRAMES, CHECKED_CHUNKS = 4, 5, 3
"""The sizes of the text on which the methods must agree, for every batch size."""
SCORED_STREAMS, SCORED_FRAMES = 16, 32
OF_EXAMPLES = ("network", "inputs", "hidden_size", "outputs", "embedding_size")
"""Settings that must not be combined with `graph`."""


class MadeText(Settings):
    words: int = Field(2000, gt=0)
    vocabulary: int = Field(200, gt=0)


class RecurrentLanguageModelSettings(Settings):
    data: list[str] = Field([])
    """Files of text: treebanks, or sentences of `word|label`. ${PARSER_DATA} stands for the data folder.
    Empty: generated text, see `made`."""
    made: MadeText = MadeText()
    words: int | None = Field(None, gt=0)
    """Maximum number of words in an epoch."""
    held_out: int = Field(600, gt=0)
    """Number of words at the end that are held out."""
    network: str = "elman"
    """Name of an example in `parser/batching/recurrence/examples.py`."""
    graph: LayerGraph | None = None
    """Custom network from the layer `input`, of symbols, to the layer `scores`. It replaces `network` and the
    sizes."""
    inputs: int = Field(200, gt=1)
    """Size of the input vocabulary."""
    hidden_size: int = Field(32, gt=0)
    outputs: int = Field(100, gt=1)
    """Size of the output vocabulary."""
    embedding_size: int = Field(0, ge=0)
    """Size of word embeddings. 0: words are connected directly to the layers of the network."""
    frames: int = Field(96, gt=0)
    """Number of frames in a step, over all streams."""
    window: Literal[1, 2] = 2
    """Number of chunks for backpropagation: BPTT(window * h; h) for h frames per stream and step."""
    learning_rate: float = Field(1e-3, gt=0)

    @model_validator(mode="after")
    def _suits(self) -> RecurrentLanguageModelSettings:
        if self.network not in EXAMPLES:
            raise ValueError(f"network: there is no {self.network!r}, but {', '.join(EXAMPLES)}")
        if self.held_out <= SCORED_STREAMS * SCORED_FRAMES:
            raise ValueError(f"held_out: must be more than {SCORED_STREAMS * SCORED_FRAMES} words")
        if self.graph:
            for name in OF_EXAMPLES:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name}: must not be combined with graph")
            ends = self.graph.inputs == [INPUT] and self.graph.outputs == [SCORES_LAYER]
            if not ends or self.graph.layers[INPUT].kind != "symbols":
                raise ValueError(
                    f"graph: its only input is `{INPUT}`, of symbols; its only output `{SCORES_LAYER}`"
                )
        return self

    def layer_graph(self) -> LayerGraph:
        if self.graph:
            return self.graph
        size = self.embedding_size or self.inputs
        symbols = Layer(size=size, kind="input" if self.embedding_size else "symbols")
        graph = with_scores(EXAMPLES[self.network](symbols, self.hidden_size), self.outputs)
        return with_embedding(graph, self.inputs) if self.embedding_size else graph


TASK = "recurrent_language_model"
METHODS = methods_of(TASK)
# Each is called with the setup and the weights. It returns a function from the frames and the streams of a
# chunk, and the number of earlier frames for backpropagation, to a model; or one model of PyTorch's layers.


def layered(model: Callable[..., LayeredModel], setup: AnySetup, weights: Weights) -> LayeredModels:
    return partial(model, weights)


for name, title, by_frame, gradients_by_frame, together in (
    ("none", "stream by stream, all frame by frame", True, True, False),
    ("streams", "all streams, all frame by frame", True, True, True),
    ("late-gradients", "all frame by frame, weight gradients in one product", True, False, True),
    ("components", "stream by stream, only cycles frame by frame", False, False, False),
    ("both", "all streams, only cycles frame by frame", False, False, True),
):
    model = partial(LayeredModel, by_frame, gradients_by_frame, together)
    method(TASK, name, title=title)(partial(layered, model))


def why_no_library(setup: Setup[RecurrentLanguageModelSettings]) -> str | None:
    """Return why PyTorch's layers do not compute such a network, or None if they do."""
    settings = setup.settings
    if settings.graph or settings.network not in LAYERS:
        return f"library needs network: {' or '.join(LAYERS)}"
    if settings.network == "lstm" and not settings.embedding_size:
        return "library needs embedding_size > 0 for network: lstm"
    return None


@method(TASK, "library", skip=why_no_library, title="PyTorch's own layers")
def library_like(setup: Setup[RecurrentLanguageModelSettings], weights: Weights) -> LibraryModel:
    """A model of PyTorch's layers with the same weights."""
    settings = setup.settings
    sizes = (settings.inputs, settings.embedding_size, settings.hidden_size, settings.outputs)
    library = LibraryModel(settings.network, *sizes, settings.window).to(weights.like.device)
    for parameter, rows, weight in library.pairs(weights):
        parameter.detach()[rows] = weight.detach()
    return library


class RecurrentLanguageModel:
    name = "recurrent_language_model"
    paper = "Hwang & Sung 2015, Figures 3 and 4"
    methods: ClassVar[Methods] = METHODS
    example_name: ClassVar[str] = "words"
    layer_sizes: ClassVar[tuple[str, ...]] = ("hidden_size", "inputs", "outputs", "embedding_size")
    precisions = PRECISIONS
    Settings = RecurrentLanguageModelSettings

    def skip(self, setup: Setup[RecurrentLanguageModelSettings]) -> str | None:
        settings = setup.settings
        if settings.frames % setup.batch_size:
            return f"{settings.frames} frames cannot be divided equally among {setup.batch_size} streams"
        return METHODS.chosen(setup).skip(setup) or missing_file(*settings.data)

    def prepare(self, setup: Setup[RecurrentLanguageModelSettings]) -> None:
        self._setup, settings = setup, setup.settings
        words = (
            read_words([data_path(path) for path in settings.data])
            if settings.data
            else generate_words(settings.made.words, settings.made.vocabulary, setup.seed)
        )
        torch.manual_seed(setup.seed)
        graph = settings.layer_graph()
        sizes = (graph.layers[INPUT].size, graph.layers[SCORES_LAYER].size)
        self._text, rest = split_corpus(words, sizes, settings.held_out, settings.words, setup.device)
        self._held_out = rest.chunks(SCORED_FRAMES, SCORED_STREAMS)
        self._unigram_perplexity = unigram_perplexity(self._text, self._held_out, sizes[1])
        self._weights = Weights(graph).to(setup.device)
        made = METHODS.chosen(setup).make(setup, self._weights)
        self._library = made if isinstance(made, LibraryModel) else None
        self._layered: LayeredModels = made
        self._frames = settings.frames // setup.batch_size
        self._model = self._model_of(self._frames, setup.batch_size, self._back(self._frames))
        self._optimizers = optimizers(self._library or self._weights, settings.learning_rate)

    def batches(self) -> list[Text]:
        return self._text.chunks(self._frames, self._setup.batch_size)

    def run(self, batch: Text) -> None:
        self._differentiate(batch)
        with self._setup.phase("update"):
            for optimizer in self._optimizers:
                optimizer.step()

    def _differentiate(self, batch: Text) -> None:
        phase = self._setup.phase
        with phase("forward"):
            self._model.forward(batch.inputs)
            self._model.loss(batch.targets)
        with phase("backward"):
            self._clear_gradients()
            self._model.backward()

    def gradients(self, batch: Text) -> Sequence[Tensor] | None:
        """See `GivesGradients`. The library's model uses different parameters."""
        if not self._library:
            return None
        self._differentiate(batch)
        return list(gradients_of(self._as_layers().parameters()))

    def check(self) -> Tensor:
        """[1 + 2 * weights] The loss of some chunks, and the fingerprints of its gradients."""
        model = self._model_of(CHECKED_FRAMES, CHECKED_STREAMS, self._back(CHECKED_FRAMES))
        self._clear_gradients()
        losses = []
        model.forget()
        for chunk in self._text.chunks(CHECKED_FRAMES, CHECKED_STREAMS)[:CHECKED_CHUNKS]:
            model.forward(chunk.inputs)
            losses.append(model.loss(chunk.targets))
            model.backward()
        model.forget()
        gradients = fingerprints(gradients_of(self._as_layers().parameters()))
        self._clear_gradients()
        return torch.cat([torch.stack(losses).sum().cpu()[None], gradients])

    def work(self, batch: Text) -> Work:
        frames, streams = batch.inputs.shape
        return Work(
            sentences=frames * streams,
            tokens=frames * streams,
            operations=training_operations(self._weights, frames, streams, self._back(frames)),
            padding=0.0,
            batches=frames,
        )

    def learn(self, epoch: int) -> None:
        """Train in one pass over the streams."""
        self._model.forget()
        for batch in self.batches():
            self.run(batch)

    @torch.no_grad()
    def score(self) -> float:
        """The unigram perplexity of the held-out words divided by the model's perplexity."""
        model = self._scoring
        model.forget()
        losses = []
        for chunk in self._held_out:
            model.forward(chunk.inputs)
            losses.append(model.loss(chunk.targets))
        model.forget()
        words = len(self._held_out) * SCORED_FRAMES * SCORED_STREAMS
        self._scored = math.exp(torch.stack(losses).sum().item() / words)
        return self._unigram_perplexity / self._scored

    @cached_property
    def _scoring(self) -> LanguageModel:
        return self._model_of(SCORED_FRAMES, SCORED_STREAMS, 0)

    def notes(self) -> Mapping[str, float]:
        return {"perplexity": self._scored, "perplexity by frequencies": self._unigram_perplexity}

    def _model_of(self, frames: int, streams: int, back: int) -> LanguageModel:
        return self._library or self._layered(frames, streams, back)

    def _back(self, frames: int) -> int:
        return (self._setup.settings.window - 1) * frames

    def _as_layers(self) -> Weights:
        """The weights with their gradients; those of the library are converted."""
        if not self._library:
            return self._weights
        gradients = copy.deepcopy(self._weights)
        for parameter, rows, copied in self._library.pairs(gradients):
            assert parameter.grad is not None
            gradient = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
            copied.detach().copy_(gradient[rows])
        for weight in gradients.parameters():
            weight.grad = weight.detach()
        return gradients

    def _clear_gradients(self) -> None:
        for weight in (self._library or self._weights).parameters():
            weight.grad = None


PLUGIN: type[Plugin[RecurrentLanguageModelSettings]] = RecurrentLanguageModel
