"""The component and the tokenizer for spaCy's pipelines, which `spacy_factory` creates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, POS, SENT_START, TAG
from spacy.parts_of_speech import IDS as UPOS_OF_SPACY
from spacy.pipeline import Pipe
from spacy.pipeline.dep_parser import parser_score
from spacy.tokens import Doc, Token
from spacy.util import minibatch
from spacy.vocab import Vocab

from parser.api.sentences import refuse_surrogates
from parser.api.spacy_factory import ComponentSettings
from parser.models.column_shares import InputColumnCheck, column_counts
from parser.models.loading import ModelChoice, load_on
from parser.models.model import Model
from parser.models.model_files import SETTINGS, contents, model_paths, write_package
from parser.models.named_models import find_model
from parser.parsing import BATCH_SIZE, refuse_count
from parser.parsing.constraints import ConstraintReader
from parser.parsing.engine import ProcessEngine
from parser.parsing.options import Constraints, ParseOptions, as_options
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.scheduler import READ_AHEAD
from parser.system.device_choice import choose_device
from parser.system.files import nameless_file, write_atomically
from parser.text.of_model import reader_with, tokenizer_in, tokenizer_of
from parser.text.reading import TextReader
from parser.text.tokenizer import TokenizedSentence
from parser.text.tokenizer_kinds import StoredTokenizer, tokenizer_as_json
from parser.treebank.sentence import BLANK, MARK, NO_HEAD, WORD_COLUMNS, Sentence

NAME = "the tokenizer of the pipeline"
LABEL_OF_SPACE = "dep"
ROOT_LABEL = "root"
"""In lower case."""
_COUNTING = Lock()
"""Not an attribute: a component with a lock could not be sent to another process."""


class SpacyColumn(NamedTuple):
    """Where spaCy stores a column."""

    attribute: int
    given: Callable[[Token], str]
    of_space: Callable[[Token], str]
    """The value that spaCy's own pipelines give to white space."""


SPACY_COLUMNS = {
    "upos": SpacyColumn(POS, lambda token: token.pos_, lambda token: "SPACE"),
    "xpos": SpacyColumn(TAG, lambda token: token.tag_, lambda token: "_SP"),
    "feats": SpacyColumn(MORPH, lambda token: str(token.morph), lambda token: BLANK),
    "lemma": SpacyColumn(LEMMA, lambda token: token.lemma_, lambda token: token.text),
}
"""The columns of a model that spaCy also has."""


class LoadedModel(NamedTuple):
    model: Model
    files: dict[str, bytes]
    """Kept, because the folder may be gone or contain another model when the pipeline is saved."""
    check: InputColumnCheck
    process_engine: ProcessEngine

    @classmethod
    def of(cls, path: Path, settings: ComponentSettings) -> LoadedModel:
        """Load a model from a folder or a package. Raises ValueError."""
        model = load_on(ModelChoice((path,), settings.treebank), choose_device(settings.device))
        return cls(model, contents([path]), model.watch(), ProcessEngine(model, settings.batch_size))


class SentenceSpan(NamedTuple):
    """The position of a sentence in a document. All numbers are token numbers of the document."""

    start: int
    end: int
    words: list[int]
    """The tokens that are not white space."""


class SpacyComponent(Pipe):
    """Adds trees and, if the model predicts them, tags and lemmas to documents. Threads can share it."""

    def __init__(self, name: str, model: str | None, settings: ComponentSettings):
        """model: folder, file or name of a model. If it cannot be loaded, the first use raises an error.

        This is because the config of a saved pipeline still names the model, although the pipeline contains
        its own copy. Raises ValueError.
        """
        refuse_count("batch_size", settings.batch_size)
        choose_device(settings.device)  # which refuses what is not there
        self.name, self._settings = name, settings
        self.scorer = parser_score
        self._options = ParseOptions(**as_options(Constraints(settings.keep)))
        self._loaded: LoadedModel | None = None
        self._missing = "it has no model: give add_pipe the config {'model': MODEL}"
        if model is not None:
            try:
                self._load(find_model(model))
            except (ValueError, OSError) as error:  # such as a folder of somebody else
                self._missing = str(error)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of words; empty without a model."""
        if self._loaded is None:
            return ()
        strings = self._loaded.model.vocabulary.labels.strings
        return tuple(sorted({label.partition(MARK)[0] for label in strings}))

    def __call__(self, doc: Doc) -> Doc:
        """Parse a document. Raises ValueError without a model, or if memory is too small for a sentence."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = BATCH_SIZE) -> Iterator[Doc]:
        """Parse documents, and yield them in the same order.

        batch_size: the number of documents whose sentences are parsed together. As in spaCy's parser, the
        error handler gets all documents of a batch that fails.
        """
        for docs in minibatch(stream, batch_size):
            try:
                self._annotate(docs)
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    def _annotate(self, docs: Sequence[Doc]) -> None:
        model, _, check, process_engine = self.ready()
        lexicons = model.read_lexicons
        spans = [list(_spans_of(doc)) for doc in docs]
        sentences = [
            _sentence(doc, span.words, list(lexicons), number)
            for doc, of_doc in zip(docs, spans, strict=True)
            for number, span in enumerate(of_doc, 1)
            if span.words
        ]
        if self._options.keep:
            sentences = self._with_given(docs, spans, sentences)
        with _COUNTING:
            check.add(column_counts(lexicons, sentences), _warn)
        # All are parsed before any is written, so that a document is not left with a part of its trees.
        parsing = process_engine.engine.stream(sentences, self._options, begin_with=READ_AHEAD)
        trees = iter([tree for _, tree in parsing])
        for doc, of_doc in zip(docs, spans, strict=True):
            parsed = [(span, next(trees) if span.words else ParsedTree((), ())) for span in of_doc]
            _set_tags(doc, parsed, model.predicted_columns, self._settings.overwrite)
            _set_trees(doc, parsed)

    def _with_given(
        self, docs: Sequence[Doc], spans: Sequence[Sequence[SentenceSpan]], sentences: Sequence[Sentence]
    ) -> list[Sentence]:
        """The sentences with the heads and labels in the documents. Raises ValueError if no tree has them."""
        reader = ConstraintReader(self.ready().model)
        with_given, following = [], iter(sentences)
        for doc, of_doc in zip(docs, spans, strict=True):
            for span in of_doc:
                if span.words:
                    sentence = _given_tree(doc, span.words, next(following))
                    for word, message in reader.faults(sentence, self._options):
                        named = doc[span.words[word - 1]]
                        raise ValueError(f"the component {self.name}: token {named.i}, {named}: {message}")
                    with_given.append(sentence)
        return with_given

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model's files. Raises ValueError without a model."""
        folder, files = Path(path), self.ready().files
        before = model_paths(folder)
        had_model = any(earlier.name == SETTINGS for earlier in before)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, content)
        for earlier in before if had_model else ():
            if earlier.relative_to(folder).as_posix() not in files:  # of the model that was there
                earlier.unlink()

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> SpacyComponent:
        """Load the model. Raises ValueError if it is missing or broken. Safe for untrusted models."""
        self._load(Path(path))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the model as a package. Raises ValueError without a model."""
        write_package(self.ready().files, package := BytesIO())
        return package.getvalue()

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> SpacyComponent:
        """Load the model from a package, see `from_disk`."""
        with nameless_file(content) as package:
            self._load(package)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the component, for processes that are not forked."""
        return _unpickled, (self.name, self._settings, self.to_bytes(), self.get_error_handler())

    def _load(self, path: Path) -> None:
        loaded = LoadedModel.of(path, self._settings)
        lexicons = [each.vocabulary.predicted.get("upos") for each in loaded.model.members]
        predicted = {upos for lexicon in lexicons if lexicon for upos in lexicon.strings}
        if unknown := sorted(predicted - {BLANK, *UPOS_OF_SPACY}):
            names = ", ".join(unknown)
            _warn(f"the component {self.name}: UPOS that spaCy does not have, X instead of them: {names}")
        self._loaded = loaded

    def ready(self) -> LoadedModel:
        """Return the loaded model. Raises ValueError if no model could be loaded."""
        if self._loaded is None:
            raise ValueError(f"the component {self.name}: {self._missing}")
        return self._loaded


def _unpickled(
    name: str, settings: ComponentSettings, content: bytes, error_handler: Callable[..., Any]
) -> SpacyComponent:
    component = SpacyComponent(name, None, settings).from_bytes(content)
    component.set_error_handler(error_handler)
    return component


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)


def _spans_of(doc: Doc) -> Iterator[SentenceSpan]:
    """Yield the sentences that earlier components have found; otherwise all tokens are one sentence."""
    bounds = [(0, len(doc))]
    if doc.has_annotation("SENT_START"):
        bounds = [(sentence.start, sentence.end) for sentence in doc.sents]
    for start, end in bounds:
        yield SentenceSpan(start, end, [token.i for token in doc[start:end] if not token.is_space])


def _sentence(doc: Doc, words: list[int], columns: Sequence[str], number: int) -> Sentence:
    """words: tokens of the document. columns: the ones that the model reads. number: its number, from 1."""
    values = {"forms": tuple(doc[word].text for word in words)}
    for name in SPACY_COLUMNS.keys() & columns:
        given = SPACY_COLUMNS[name].given
        values[WORD_COLUMNS[name].attribute] = tuple(given(doc[word]) or BLANK for word in words)
    return Sentence.without_tree(values, f"#{number}", number)


def _given_tree(doc: Doc, words: list[int], sentence: Sentence) -> Sentence:
    """Return the sentence with the heads and labels of its tokens.

    A token that is its own head is the root if its label is `root`; otherwise only its label is given, if it
    has one. If the label is `dep`, which spaCy uses for any label, only the head is given. A head that is
    white space or in another sentence is ignored.
    """
    numbers = {word: number for number, word in enumerate(words, 1)}
    heads, labels = [], []
    for word in words:
        token = doc[word]
        head, label = numbers.get(token.head.i, NO_HEAD), token.dep_ or BLANK
        if token.head.i == word:
            is_root = label.lower() == ROOT_LABEL
            head, label = (0, BLANK) if is_root else (NO_HEAD, label)
        heads.append(head)
        labels.append(BLANK if label == LABEL_OF_SPACE else label)
    return replace(sentence, heads=tuple(heads), labels=tuple(labels))


def _set_tags(
    doc: Doc, trees: Sequence[tuple[SentenceSpan, ParsedTree]], columns: Collection[str], overwrite: bool
) -> None:
    """columns: the ones that the model predicts."""
    for name, (attribute, _, of_space) in SPACY_COLUMNS.items():
        if name not in columns:
            continue
        values = list(map(of_space, doc))
        for span, tree in trees:
            for word, value in zip(span.words, tree.tags.get(name, ()), strict=True):
                values[word] = value
        keys = {value: _key(doc.vocab, name, value) for value in set(values)}
        numbers: Any = np.array([keys[value] for value in values], dtype=np.uint64)
        if not overwrite:
            before = doc.to_array(attribute)
            numbers = np.where(before == 0, numbers, before)
        doc.from_array([attribute], numbers)


def _key(vocab: Vocab, column: str, value: str) -> int:
    """Return the number of a tag in spaCy; 0 for none."""
    if column == "feats":
        # spaCy knows features with a value only.
        return vocab.morphology.add("|".join(part for part in value.split("|") if part.count("=") == 1))
    if value == BLANK and column != "lemma":
        return 0
    if column == "upos":
        return UPOS_OF_SPACY.get(value, UPOS_OF_SPACY["X"])
    return vocab.strings.add(value)


def _set_trees(doc: Doc, trees: Iterable[tuple[SentenceSpan, ParsedTree]]) -> None:
    """White space depends on the previous word or, at the start of a sentence, on the first word."""
    heads = np.arange(len(doc))
    labels = [LABEL_OF_SPACE] * len(doc)
    starts: Any = np.full(len(doc), -1)
    for (start, end, words), tree in trees:
        starts[start] = 1
        anchors = np.array(words or [start])  # of white space alone, the first is the root
        heads[start:end] = anchors[np.searchsorted(anchors, heads[start:end], "right").clip(1) - 1]
        for word, head, label in zip(words, tree.heads, tree.labels, strict=True):
            heads[word] = words[head - 1] if head else word
            labels[word] = label
    numbers = {label: doc.vocab.strings.add(label) for label in set(labels)}
    arcs: Any = np.empty((len(doc), 2), dtype=np.uint64)
    arcs[:, 0] = (heads - np.arange(len(doc))).view(np.uint64)
    arcs[:, 1] = [numbers[label] for label in labels]
    doc.from_array([HEAD, DEP], arcs)
    # spaCy begins a sentence where the words below its root begin, and gives up on trees with many crossing
    # arcs before it has found that.
    doc.from_array([SENT_START], starts.view(np.uint64))


class Piece(NamedTuple):
    """A token in spaCy: a word, or white space."""

    form: str
    space_after: bool = False
    """Whether a space follows that is not a token."""
    begins_sentence: bool = False


class PipelineTokenizer:
    """Splits texts into sentences and words with the tokenizer of a model. Threads can share it."""

    def __init__(self, vocab: Vocab, model: str | None):
        """model: folder, file or name of a model. If it has no tokenizer, the first use raises an error.

        This is because the config of a saved pipeline still names the model, although the pipeline contains
        its own tokenizer.
        """
        self.vocab = vocab
        self._tokenizer: StoredTokenizer | None = None
        self._missing = "it has no model: give nlp.tokenizer the config {'model': MODEL}"
        if model is not None:
            try:
                self._tokenizer = tokenizer_of(find_model(model), "raw")
            except (ValueError, OSError) as error:  # such as a folder of somebody else
                self._missing = str(error)

    def __call__(self, text: str) -> Doc:
        """Return a document with the words and the sentences of the text. White space between them stays.

        If the words of a multiword token do not spell the token, they replace it, with a warning. Raises
        ValueError without a tokenizer, or if a package that it needs is missing.
        """
        refuse_surrogates(text, "the text")
        pieces = list(_pieces(text, self._reader.sentences(text)))
        begins: list[bool | int | None] = [piece.begins_sentence for piece in pieces]
        if not any(begins[:1]):  # white space, with which the first sentence begins
            begins = [True, False, *begins[2:]][: len(begins)]
        return Doc(
            self.vocab,
            words=[piece.form for piece in pieces],
            spaces=[piece.space_after for piece in pieces],
            sent_starts=begins,
        )

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the content of the tokenizer's file. Raises ValueError without a tokenizer."""
        return tokenizer_as_json(self.ready())

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> PipelineTokenizer:
        """Load the tokenizer. Raises ValueError for any other file, and if it must not be opened."""
        self._tokenizer = tokenizer_in(content, NAME)
        self.__dict__.pop("_reader", None)  # that of the tokenizer before
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tokenizer's file, see `to_bytes`."""
        write_atomically(Path(path), self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> PipelineTokenizer:
        """Read the tokenizer's file, see `from_bytes`."""
        return self.from_bytes(Path(path).read_bytes())

    def __getstate__(self) -> dict[str, Any]:
        """The state for other processes, which open the tokenizer themselves."""
        return {name: value for name, value in self.__dict__.items() if name != "_reader"}

    @cached_property
    def _reader(self) -> TextReader:
        try:
            return reader_with("raw", self.ready())
        except ValueError as error:
            raise ValueError(f"{NAME}: {error}") from None

    def ready(self) -> StoredTokenizer:
        """Return the loaded tokenizer. Raises ValueError if no tokenizer could be loaded."""
        if self._tokenizer is None:
            raise ValueError(f"{NAME}: {self._missing}")
        return self._tokenizer


def _pieces(text: str, sentences: Iterable[TokenizedSentence]) -> Iterator[Piece]:
    """Yield the words and, as in spaCy, the white space except for a single space after each word."""
    end = 0
    last: Piece | None = None
    for sentence in sentences:
        for index, token in enumerate(sentence.tokens):
            yield from _between(last, text[end : token.start])
            divided = "".join(token.words) != token.form
            if divided:
                words = " ".join(token.words)
                message = f"{token.form}: spaCy has the words {words} in its place, which changes the text"
                warnings.warn(message, UserWarning, stacklevel=2)
            *first, last_word = token.words
            starts = [index == 0] + [False] * len(first)
            for word, begins in zip(first, starts, strict=False):
                yield Piece(word, divided, begins)
            last = Piece(last_word, False, starts[len(first)])
            end = token.end
    yield from _between(last, text[end:])


def _between(last: Piece | None, space: str) -> Iterator[Piece]:
    """Yield the word before white space, if there is one, and the white space."""
    if last:
        yield last._replace(space_after=space.startswith(" "))
        space = space.removeprefix(" ")
    if space:
        # Other characters that the tokenizer takes for blank would be words for spaCy.
        yield Piece("".join(character if character.isspace() else " " for character in space))
