"""The models of a service by name. Each is loaded once."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from parser.models.loading import ModelChoice, load_on
from parser.models.model import Model
from parser.models.model_files import digest_of
from parser.parsing.constraints import ConstraintReader
from parser.parsing.engine import Engine
from parser.parsing.engine_thread import EngineThread
from parser.parsing.options import ParseOptions
from parser.parsing.reparsing import refuse_without_scorer
from parser.service.limits import wrong
from parser.service.reading import InputSentence, text_sentences
from parser.system.console import quoted
from parser.text.of_model import MISSING, has_tokenizer, text_reader
from parser.text.reading import TextFormat, TextReader
from parser.treebank.sentence import Sentence

FIRST = "This is parsed ."
DIGITS = 16
"""Digits of a hash that are shown."""


class ServedModel:
    """A model, with the thread that computes for all its requests."""

    def __init__(
        self, name: str, digest: str, model: Model, readers: dict[TextFormat, TextReader], engine: Engine
    ):
        """digest: the hash of its files. readers: the available readers, by text format."""
        self.name, self.digest, self._readers = name, digest, readers
        self.predicts = bool(model.predicted_columns)
        """Whether the model predicts tags or lemmas."""
        self._model, self.thread = model, EngineThread(engine)

    @classmethod
    def load(
        cls, name: str, path: Path, device: str, batch_size: int, int8: bool | None = None
    ) -> ServedModel:
        """Load a model, and parse a first sentence: what takes longer the first time is then over.

        int8: see `ModelChoice`. Raises ValueError if there is no model, or if it or its tokenizer is broken,
        and what parsing raises.
        """
        model = load_on(ModelChoice((path,), int8=int8), device)
        readers: dict[TextFormat, TextReader] = {"tokenized": text_reader(path, "tokenized")}
        if has_tokenizer(path):
            readers["raw"] = text_reader(path, "raw")
            others: tuple[TextFormat, ...] = "wrapped", "one-paragraph-per-line", "one-sentence-per-line"
            readers |= {form: readers["raw"].of_form(form) for form in others}
        # The reading ahead of each request is bounded, so no other bound is needed.
        engine = Engine(model, batch_size, max_waiting=sys.maxsize)
        served = cls(name, digest_of([path])[:DIGITS], model, readers, engine)
        form: TextFormat = "raw" if served.has_tokenizer else "tokenized"
        for one in text_sentences(readers[form], form, [FIRST]):
            served.thread.result(served.thread.add(one.sentence))
        return served

    @cached_property
    def constraints(self) -> ConstraintReader:
        return ConstraintReader(self._model)

    def refuse_unable(self, options: ParseOptions) -> None:
        """Raises RefusedError if the model does not support the options."""
        try:
            self.constraints.refuse_unable(options, options.keep is not None)
            if options.alternatives:
                refuse_without_scorer(self._model)
        except ValueError as error:
            raise wrong(str(error)) from None

    @property
    def has_tokenizer(self) -> bool:
        return "raw" in self._readers

    def watched(
        self, sentences: Iterable[InputSentence], warn: Callable[[str], None], is_text: bool
    ) -> Iterator[InputSentence]:
        """Return the sentences; warns if they lack what the model reads, see `Model.watch`."""
        passing: deque[InputSentence] = deque()

        def passed() -> Iterator[Sentence]:
            for one in sentences:
                passing.append(one)
                yield one.sentence

        return (passing.popleft() for _ in self._model.watch(is_text).check(passed(), warn))

    def reader(self, form: TextFormat) -> TextReader:
        """Return the reader of a text format. Raises RefusedError if there is no tokenizer for it."""
        if form not in self._readers:
            raise wrong(f"the model {self.name} cannot read text: {MISSING}")
        return self._readers[form]


class ServedModels:
    """Finds models by their names, and by what precedes a hyphen in them, such as english for english-ewt.
    A name shared by several models means the first.
    """

    def __init__(self, models: Sequence[ServedModel], default: str | None = None):
        """default: name of the model for requests that name none; if None, the first model. Raises ValueError
        for unknown and repeated names.
        """
        self._by_name: dict[str, ServedModel] = {}
        self._models = tuple(models)
        for model in models:
            if model.name in self._by_name:
                raise ValueError(f"two models would be called {model.name}: use NAME=PATH")
            self._by_name[model.name] = model
        for model in models:
            parts = model.name.split("-")
            for length in range(1, len(parts)):
                self._by_name.setdefault("-".join(parts[:length]), model)
        if default is not None and default not in self._by_name:
            raise ValueError(f"--default {default}: the models are {', '.join(self.names)}")
        self.default = self._models[0] if default is None else self._by_name[default]

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models)

    @property
    def names(self) -> list[str]:
        return [model.name for model in self._models]

    def find(self, name: str | None) -> ServedModel:
        """Return a model by its name; None or an empty name means the default. Raises RefusedError."""
        if not name:
            return self.default
        if name not in self._by_name:
            raise wrong(f"there is no model {quoted(name)}; available: {', '.join(self.names)}")
        return self._by_name[name]

    def close(self) -> None:
        """Cancel requests that are still being parsed."""
        for model in self:
            model.thread.close(cancel=True)
