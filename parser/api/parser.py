"""Load a trained parser, and parse with it."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeGuard, Unpack, overload

from conllu import SentenceList, TokenList

from parser.api.sentences import comments_of, refuse_surrogates, sentence_of, tree_of, tree_of_text, with_tree
from parser.api.tree import TAGS, Known, Tags, Tree
from parser.models.loading import ModelChoice, load_on
from parser.models.model import Model
from parser.models.named_models import find_model, model_in
from parser.parsing import BATCH_SIZE, refuse_count
from parser.parsing.constraints import ConstraintReader
from parser.parsing.engine import Engine, ProcessEngine
from parser.parsing.engine_thread import EngineThread
from parser.parsing.options import UNCONSTRAINED, Constraints, ParseOptions, as_options
from parser.parsing.parsed_tree import Alternative, ParsedTree
from parser.parsing.reparsing import MAX_WORDS, refuse_without_scorer
from parser.parsing.scheduler import READ_AHEAD
from parser.system.device_choice import choose_device
from parser.text.of_model import reader_of_model, tokenizer_of
from parser.text.reading import TextReader
from parser.text.tokenizer import TokenizedSentence, as_sentence
from parser.treebank.sentence import Sentence

PACKAGE = __name__.partition(".")[0] + "."

ModelPath = str | os.PathLike[str]
Given = Sequence[str] | Mapping[str, Any]
"""Words, or a mapping of columns with the words and what is known about them."""


def load(
    model: ModelPath | Sequence[ModelPath],
    device: str = "auto",
    treebank: str | None = None,
    folder: ModelPath | None = None,
) -> Parser:
    """Load a model from a folder or a package. Several models form an ensemble, whose scores are averaged.

    model: a path, or a name such as "wolof-wtb". With `folder`, it is the name of a model in that folder.
    Otherwise it is the name of an installed package, of a model in the folder that the environment variable
    PARSER_MODELS names, or of a model in models/ of the checkout. device: cpu, cuda, cuda:1, ...; auto is
    CUDA if available, though a CPU may be faster for single sentences. treebank: the treebank whose
    annotation the parser follows, if the model was trained on several.

    Raises ValueError if a model is missing or broken, if several models have the name, if models do not fit
    together or do not know the treebank, or if the device is not available.
    """
    if not isinstance(model, str | os.PathLike | Iterable):
        raise ValueError(f"model: a name, a path or a list of these is needed, not {type(model).__name__}")
    given = (model,) if isinstance(model, str | os.PathLike) else model
    paths = tuple(
        model_in(Path(folder), str(one)) if folder is not None else find_model(os.fspath(one))
        for one in given
    )
    if not paths:
        raise ValueError("model: an empty list names none")
    loaded = load_on(ModelChoice(paths, treebank), choose_device(device))
    return Parser(loaded, _make_reader(paths[0], treebank))


def _make_reader(path: Path, treebank: str | None) -> Callable[[], TextReader]:
    """Read the tokenizer now, because its folder may be gone later; errors are raised at the first text."""
    try:
        return partial(reader_of_model, path, "raw", tokenizer_of(path, "raw", treebank), treebank)
    except ValueError as error:
        return partial(_refuse, str(error))


def _refuse(message: str) -> TextReader:
    raise ValueError(message)


class Parser:
    """Parses sentences that are given as words, and raw text. Threads and processes can share a parser.

    A forked process parses with one thread, and not on a GPU. Other processes get a pickled copy, which needs
    no files.
    """

    def __init__(self, model: Model, make_reader: Callable[[], TextReader] | None = None):
        """make_reader: called when the first text is parsed."""
        self._model, self._make_reader = model, make_reader
        self._process_engine = ProcessEngine(model)
        self._engine_threads: dict[int, EngineThread] = {}

    def __repr__(self) -> str:
        weights = sum(weight.size for weight in self._model.as_arrays().weights.values())
        device = "a CPU" if self._model.is_on_cpu else "a GPU"
        return f"<Parser: {self._model.settings.system}, {weights:,} weights, on {device}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # As bytes: what `multiprocessing` pickles of tensors goes through shared memory, which may be small.
        return _unpickled, (pickle.dumps(self._model), self._make_reader)

    @cached_property
    def _reader(self) -> TextReader:
        if self._make_reader is None:
            raise ValueError("a parser without the folder of its model has no tokenizer; use parser.load")
        return self._make_reader()

    @overload
    def parse(
        self,
        words: Sequence[str],
        *,
        probabilities: bool = False,
        constraints: Constraints = UNCONSTRAINED,
        **known: Unpack[Known],
    ) -> Tree: ...

    @overload
    def parse(
        self, words: TokenList, *, probabilities: bool = False, constraints: Constraints = UNCONSTRAINED
    ) -> TokenList: ...

    @overload
    def parse(
        self,
        words: Sequence[TokenList],
        *,
        probabilities: bool = False,
        constraints: Constraints = UNCONSTRAINED,
    ) -> list[TokenList]: ...

    def parse(
        self,
        words: Sequence[str] | TokenList | Sequence[TokenList],
        *,
        probabilities: bool = False,
        constraints: Constraints = UNCONSTRAINED,
        **known: Unpack[Known],
    ) -> Tree | TokenList | list[TokenList]:
        """Return the tree of a sentence.

        words: the words, or one or several TokenLists of conllu, of which copies with their trees are
        returned. probabilities: whether to add the probability of each arc. constraints: conditions on the
        tree; with `Constraints(keep="given")`, TokenLists keep their heads and labels. known: columns with a
        value for each word. upos, xpos, feats and lemmas are for models that read them, with `_` for words
        without a value. heads (0: ROOT, 1: the first word) and labels stay in the tree; those that are None
        are predicted. Raises ValueError for an invalid sentence, and if no tree can contain what is given.
        """
        if isinstance(words, TokenList) or _are_token_lists(words):
            for name, values in known.items():
                if values is not None:
                    raise ValueError(f"{name}: a TokenList has its own")
        if _are_token_lists(words):
            parsed = list(self.parse_all(words, probabilities=probabilities, constraints=constraints))
            return SentenceList(parsed, words.metadata) if isinstance(words, SentenceList) else parsed
        sentence: Any = words if isinstance(words, TokenList) else {"words": words, **known}
        options, keeps = self._options(probabilities, constraints), constraints.keep is not None
        [tree] = self._parsed([sentence], BATCH_SIZE, options, keeps)
        return tree

    def alternatives(
        self, words: Sequence[str], count: int, **tags: Unpack[Tags]
    ) -> list[tuple[Alternative, ...]]:
        """Return at most `count` heads of each word, with labels: the most probable by the scorer of arcs.

        words: see `parse`. tags: see `parse`. Raises ValueError for an invalid sentence, if the sentence is
        too long for the scorer of arcs, or if the model has no scorer of arcs.
        """
        for name in tags:
            if name not in TAGS:
                raise ValueError(f"{name}: alternatives are those of any tree; {', '.join(TAGS)} are known")
        refuse_count("count", count)
        refuse_without_scorer(self._model)
        [sentence] = self._model.watch().check([sentence_of({"words": words, **tags}, 1)], warn_at_caller)
        of_words = self._computed(sentence, ParseOptions(alternatives=count)).alternatives
        if not of_words:
            raise ValueError(f"the sentence has more than {MAX_WORDS} words, the most that have alternatives")
        return list(of_words)

    def best_trees(
        self,
        words: Sequence[str],
        count: int,
        *,
        constraints: Constraints = UNCONSTRAINED,
        **known: Unpack[Known],
    ) -> list[Tree]:
        """Return at most `count` different trees of a sentence, the best by `Tree.score` first.

        A beam search finds them. For the other arguments and the errors, see `parse`.
        """
        refuse_count("count", count)
        # One tree alone would be that of `parse`, without a beam and a score.
        options, columns = self._options(False, constraints, max(count, 2)), {"words": words, **known}
        [sentence] = self._model.watch().check([self._read(columns, 1, options)], warn_at_caller)
        best = self._computed(sentence, options)
        return [
            replace(tree_of(sentence, each), **comments_of(columns)) for each in (best, *best.others)[:count]
        ]

    async def parse_async(
        self,
        words: Sequence[str],
        *,
        probabilities: bool = False,
        constraints: Constraints = UNCONSTRAINED,
        **known: Unpack[Known],
    ) -> Tree:
        """Like `parse`, for tasks of asyncio. A thread parses the sentences of several tasks together.

        If a task is cancelled, its sentence is not parsed.
        """
        options, columns = self._options(probabilities, constraints), {"words": words, **known}
        [sentence] = self._model.watch().check([self._read(columns, 1, options)], warn_at_caller)
        parsed = await self._engine_thread.parse(sentence, options)
        return replace(tree_of(sentence, parsed), **comments_of(columns))

    @overload
    def parse_all(
        self,
        sentences: Iterable[Given],
        *,
        probabilities: bool = False,
        batch_size: int = BATCH_SIZE,
        constraints: Constraints = UNCONSTRAINED,
    ) -> Iterator[Tree]: ...

    @overload
    def parse_all(
        self,
        sentences: Iterable[TokenList],
        *,
        probabilities: bool = False,
        batch_size: int = BATCH_SIZE,
        constraints: Constraints = UNCONSTRAINED,
    ) -> Iterator[TokenList]: ...

    def parse_all(
        self,
        sentences: Iterable[Given | TokenList],
        *,
        probabilities: bool = False,
        batch_size: int = BATCH_SIZE,
        constraints: Constraints = UNCONSTRAINED,
    ) -> Iterator[Tree | TokenList]:
        """Yield the trees of any number of sentences, in the same order and in bounded memory.

        sentences: each is a sequence of words, a mapping with "words" and any of "upos", "xpos", "feats",
        "lemmas", "heads", "labels", "sent_id" and "text", or a TokenList of conllu, of which a copy with its
        tree is yielded. From iterables other than lists, few sentences are read before the first tree, and
        later a few thousand ahead. After a sentence that took long to arrive, all sentences that were read
        are parsed before more are read. batch_size: the number of sentences parsed at the same time.
        constraints: see `parse`. Raises ValueError with the number of an invalid sentence.
        """
        refuse_count("batch_size", batch_size)
        if not isinstance(sentences, Iterable) or isinstance(sentences, TokenList | Mapping):
            raise ValueError(f"sentences: a list of them is needed, not {type(sentences).__name__}")
        options, keeps = self._options(probabilities, constraints), constraints.keep is not None
        return self._parsed(sentences, batch_size, options, keeps)

    def parse_text(
        self, text: str, *, probabilities: bool = False, constraints: Constraints = UNCONSTRAINED
    ) -> list[Tree]:
        """Return the trees of the sentences in a text. Blank lines end paragraphs.

        Raises ValueError if the model has no tokenizer, or a tokenizer that cannot be opened.
        """
        [trees] = self.parse_texts([text], probabilities=probabilities, constraints=constraints)
        return trees

    def parse_texts(
        self,
        texts: Iterable[str],
        *,
        probabilities: bool = False,
        batch_size: int = BATCH_SIZE,
        constraints: Constraints = UNCONSTRAINED,
    ) -> Iterator[list[Tree]]:
        """Yield a list of trees for each of any number of texts, in the same order.

        Sentences of several texts are parsed together. See `parse_text` and `parse_all`.
        """
        refuse_count("batch_size", batch_size)
        if isinstance(texts, str):
            raise ValueError("texts: a list of strings is needed, not one; parse_text takes that")
        if not isinstance(texts, Iterable):
            raise ValueError(f"texts: a list of them is needed, not {type(texts).__name__}")
        if constraints.keep:
            raise ValueError("keep: texts have no heads that could be kept")
        options = self._options(probabilities, constraints)
        return self._parsed_texts(self._reader, texts, batch_size, options)

    def _parsed_texts(
        self, reader: TextReader, texts: Iterable[str], batch_size: int, options: ParseOptions
    ) -> Iterator[list[Tree]]:
        """Some sentences are read ahead; the queues contain what is still to be yielded."""
        lengths: deque[int] = deque()
        tokenized: deque[TokenizedSentence] = deque()

        def sentences() -> Iterator[Sentence]:
            for number, text in enumerate(texts, 1):
                if not isinstance(text, str):
                    raise ValueError(f"text {number}: a string is needed, not {type(text).__name__}")
                refuse_surrogates(text, f"text {number}")
                of_text = list(reader.sentences(text))
                lengths.append(len(of_text))
                tokenized.extend(of_text)
                yield from (as_sentence(one, ordinal) for ordinal, one in enumerate(of_text, 1))

        trees: list[Tree] = []
        watched = self._model.watch(is_text=True).check(sentences(), warn_at_caller)
        for sentence, tree in self._stream(texts, watched, batch_size, options):
            while not lengths[0]:
                lengths.popleft()
                yield []
            trees.append(tree_of_text(sentence, tree, tokenized.popleft()))
            if len(trees) == lengths[0]:
                lengths.popleft()
                yield trees
                trees = []
        yield from ([] for _ in lengths)

    def _parsed(
        self,
        sentences: Iterable[Given | TokenList],
        batch_size: int,
        options: ParseOptions,
        keeps: bool,
    ) -> Iterator[Tree | TokenList]:
        """Some sentences are read ahead; the queue contains those that are still to be yielded."""
        waiting: deque[tuple[Given | TokenList, dict[str, Any]]] = deque()

        def read() -> Iterator[Sentence]:
            for number, given in enumerate(sentences, 1):
                sentence = self._read(given, number, options, keeps)
                waiting.append((given, comments_of(given)))
                yield sentence

        watched = self._model.watch().check(read(), warn_at_caller)
        for sentence, tree in self._stream(sentences, watched, batch_size, options):
            (given, comments), parsed = waiting.popleft(), tree_of(sentence, tree)
            yield with_tree(given, parsed) if isinstance(given, TokenList) else replace(parsed, **comments)

    def _options(self, probabilities: bool, constraints: Constraints, trees: int = 1) -> ParseOptions:
        """Given heads and labels are kept. Raises ValueError for what the model cannot do."""
        values = as_options(constraints) | {"keep": "given"}
        options = ParseOptions(probabilities=probabilities, trees=trees, **values)
        self._constraints.refuse_unable(options, constraints.keep is not None)
        return options

    def _read(
        self, given: Given | TokenList, number: int, options: ParseOptions, keeps: bool = False
    ) -> Sentence:
        """See `sentence_of`. Raises ValueError if no tree can contain what is given."""
        sentence = sentence_of(given, number, keeps)
        for word, message in self._constraints.faults(sentence, options):
            raise ValueError(f"sentence {number}: word {word}: {message}")
        return sentence

    @cached_property
    def _constraints(self) -> ConstraintReader:
        return ConstraintReader(self._model)

    def _stream(
        self,
        given: Iterable[object],
        sentences: Iterator[Sentence],
        batch_size: int,
        options: ParseOptions,
    ) -> Iterator[tuple[Sentence, ParsedTree]]:
        """given: what the sentences are made from; a list is available at once."""
        engine = self._engine if batch_size == BATCH_SIZE else Engine(self._model, batch_size)
        begin_with = READ_AHEAD if isinstance(given, Sequence) else 1
        return engine.stream(sentences, options, begin_with=begin_with)

    def _computed(self, sentence: Sentence, options: ParseOptions) -> ParsedTree:
        engine = self._engine  # which another thread may replace
        request = engine.add(sentence, options)
        try:
            return engine.result(request)
        finally:
            request.cancel()  # if the program is interrupted, the next call does not compute it

    @property
    def _engine(self) -> Engine:
        return self._process_engine.engine

    @property
    def _engine_thread(self) -> EngineThread:
        """The engine thread of this process, like `_engine`. It stops with the parser."""
        process = os.getpid()
        if process not in self._engine_threads:
            thread = EngineThread(Engine(self._model))
            self._engine_threads = {process: thread}
            weakref.finalize(self, thread.close, join=False).atexit = False
        return self._engine_threads[process]


def _unpickled(model: bytes, make_reader: Callable[[], TextReader] | None) -> Parser:
    return Parser(pickle.loads(model), make_reader)


def warn_at_caller(text: str) -> None:
    """Warn at the line of the caller's program, however many calls and generators lie in between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


def _are_token_lists(words: object) -> TypeGuard[Sequence[TokenList]]:
    return isinstance(words, SentenceList) or (
        isinstance(words, list | tuple) and any(isinstance(one, TokenList) for one in words)
    )
