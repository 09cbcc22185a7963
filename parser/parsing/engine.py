"""The engine of a parser, which parses sentences together, whenever they arrive."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from queue import Full
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from parser.enhanced.tree import AnnotatedTree
from parser.models.model import Model
from parser.parsing import BATCH_SIZE
from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.parsing.parsed_tree import Arcs, ParsedTree, best_of
from parser.parsing.probabilities import Calibration
from parser.parsing.repair import TreeRepair
from parser.parsing.reparsing import Alternatives, Reparser, Wanted, alternatives
from parser.parsing.running import (
    GROUP_ON_CPU,
    GROUP_WORDS,
    Done,
    Encoding,
    HostRunner,
    Running,
    Tags,
)
from parser.parsing.scheduler import READ_AHEAD, WINDOW, ReadAhead, Request, RequestSource, Scheduler
from parser.system.console import warn
from parser.system.exit_lock import ExitLock
from parser.system.machine import is_of_memory
from parser.system.version import naming_missing
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import Sentence

if TYPE_CHECKING:
    from parser.parsing.pytorch.runner import DeviceRunner

MAX_WAITING = 16 * WINDOW
"""The default for the number of words that may wait."""
SLOW = 0.05
"""In seconds. If reading a sentence takes longer, the trees of earlier ones come before more is read."""


class EngineLoad(NamedTuple):
    """The work that an engine has left."""

    waiting: int
    """Sentences that wait."""
    waiting_words: int
    running: int
    """Sentences that are parsed together."""
    batch_size: int
    """The largest number of sentences that are parsed together."""
    batches: int
    """Batches that were computed since the beginning, and the sentences that were in them, added up."""
    in_batches: int


class Engine:
    """Parses sentences for several threads: one that waits for a tree computes for all, one at a time.

    The weights of the model must not change while the engine is in use.
    """

    def __init__(self, model: Model, batch_size: int = BATCH_SIZE, max_waiting: int = MAX_WAITING):
        """batch_size: sentences that are parsed at the same time. max_waiting: words that may wait."""
        self._model, self._batch_size, self._max_waiting = model, batch_size, max_waiting
        self._reparser, self._calibration = Reparser.of(model), Calibration.of(model)
        self._repair = TreeRepair.of(model, self._reparser)
        self._encoding = Encoding(model, self._reparser)
        self._scheduler, self._source = Scheduler(), RequestSource()
        self._running: dict[Request, None] = {}
        """Requests taken from the scheduler that have not ended; after an error they wait again."""
        self._batches = self._in_batches = 0
        self._most_words = math.inf
        """The limit on the words that run together, which is lowered when memory runs out."""
        self._scheduling, self._computing, self._ending = Lock(), ExitLock(self), Lock()

    @cached_property
    def _runner(self) -> HostRunner | DeviceRunner:
        if self._model.is_on_cpu:
            return HostRunner(self._model.as_arrays(), self._encoding, self._batch_size)
        from parser.models.network_model import as_network
        from parser.parsing.pytorch.runner import DeviceRunner  # with PyTorch, which a CPU does not need

        return DeviceRunner(as_network(self._model), self._encoding, self._batch_size)

    @cached_property
    def _search(self) -> Callable[[Sequence[Request]], list[tuple[Running, list[Arcs]]]]:
        """Finds several trees of sentences."""
        with naming_missing("a search for several trees of a sentence", "train"):
            from parser.models.network_model import as_network
            from parser.parsing.pytorch.beam_search import search_trees

        return partial(search_trees, as_network(self._model), self._encoding)

    def add(
        self,
        sentence: Sentence,
        options: ParseOptions = TREE_ALONE,
        source: RequestSource | None = None,
    ) -> Request:
        """Hand in a sentence, which is parsed by calls of `step` and `result`.

        Computes while too many words wait. source: the source that shares the time with others.
        """
        source = self._source if source is None else source
        request = Request(sentence, options, source, self._ending)
        while True:
            try:
                self.hand_in(request)
                return request
            except Full:
                self.step()

    def hand_in(self, request: Request) -> None:
        """Add a request to those that wait. Raises queue.Full if too many words wait already."""
        with self._scheduling:
            words = self._scheduler.words
            if words and words + len(request.sentence) > self._max_waiting:
                raise Full(f"{words:,} words wait already")
            self._scheduler.add(request)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to compute. To be called by the thread that computes."""
        with self._scheduling:
            return not (self._running or len(self._scheduler))

    @property
    def load(self) -> EngineLoad:
        """The work left. Any thread can ask for it, without waiting for a step."""
        with self._scheduling:
            waiting, words = len(self._scheduler), self._scheduler.words
        most = min(self._batch_size, GROUP_ON_CPU) if self._model.is_on_cpu else self._batch_size
        return EngineLoad(waiting, words, len(self._running), most, self._batches, self._in_batches)

    def result(self, request: Request) -> ParsedTree:
        """The tree of a request, computed by this thread or by another one.

        Raises the error of the sentence if it failed, and CancelledError of concurrent.futures.
        """
        while not request.has_ended:
            self.step(request)
        return request.tree()

    def step(self, wanted: Request | None = None) -> None:
        """Compute for all requests until the next refill.

        wanted: if this request has ended by the time it is this thread's turn, nothing is computed.
        """
        with self._computing:
            if wanted and wanted.has_ended:
                return
            _ = self._runner  # is made here, where nothing runs that an error could harm
            is_memory_short = False
            try:
                for requests in self._schedule():
                    self._start(requests)
                self._batches += 1
                self._in_batches += len(self._running)
                self._finish(self._runner.advance())
            except BaseException as error:
                is_memory_short = is_of_memory(error)
                if not is_memory_short:
                    self._start_over()
                    raise
            if is_memory_short:  # here, because the handler's traceback keeps the tensors of the failed step
                self._relieve()

    def stream(
        self,
        sentences: Iterable[Sentence | None],
        options: ParseOptions = TREE_ALONE,
        read_ahead: int = READ_AHEAD,
        begin_with: int = 1,
    ) -> Iterator[tuple[Sentence, ParsedTree]]:
        """Parse sentences in bounded memory, and yield the trees in the order of the sentences.

        sentences: None stands for a sentence that has not arrived yet; then those read so far are parsed.
        read_ahead: most words that are read and not yet yielded, unless a single sentence is longer.
        begin_with: the same limit before the first tree. Raises ValueError if the memory is too small for a
        sentence, or if no tree contains the arcs and labels that are given for it.
        """
        ahead, pending = ReadAhead(begin_with, read_ahead), deque[Request]()
        source, following, has_more = RequestSource(), iter(sentences), True
        try:
            while has_more or pending:
                is_slow = False
                while has_more and not is_slow and ahead.room > 0:
                    began = monotonic()
                    try:
                        sentence = next(following)
                    except StopIteration:
                        has_more = False
                        break
                    is_slow = sentence is None or monotonic() - began > SLOW
                    if sentence is not None:
                        pending.append(self.add(sentence, options, source))
                        ahead.read(len(sentence))
                for _ in range(len(pending) if is_slow else min(1, len(pending))):
                    tree = self.result(pending[0])
                    sentence = pending.popleft().sentence
                    ahead.yielded(len(sentence))
                    yield sentence, tree
        finally:
            for request in pending:
                request.cancel()

    def _schedule(self) -> Iterator[list[Request]]:
        """Yield requests that begin now, in groups for which equally many trees are requested."""
        if 2 * self._runner.waiting >= self._batch_size:
            return
        room = self._most_words - sum(len(request.sentence) for request in self._running)
        with self._scheduling:
            limit = room if self._running else math.inf
            taken = self._scheduler.take(
                self._runner.group, min(GROUP_WORDS, room), limit, self._runner.shared_group
            )
        self._running |= dict.fromkeys(taken)
        for _, alike in groupby(sorted(taken, key=_trees), key=_trees):
            yield list(alike)

    def _start(self, requests: Sequence[Request]) -> None:
        """Encode sentences and let them run. If that fails, each half is tried, so that each fails alone.

        Sentences for which several trees are requested are searched immediately.
        """
        trees = requests[0].options.trees
        try:
            if trees == 1:
                encoded = self._runner.encode(requests)
            else:
                found = self._search(requests)
        except Exception as error:
            if is_of_memory(error):
                raise
            if len(requests) == 1:
                requests[0].fail(error)
                del self._running[requests[0]]
                return
            self._start(requests[: len(requests) // 2])
            self._start(requests[len(requests) // 2 :])
            return
        if trees == 1:
            self._runner.join(encoded)
        else:
            for running, hypotheses in found:
                self._finish_one(running, hypotheses)

    def _finish(self, done: Sequence[Done]) -> None:
        """Finish requests with the trees that parser and scorers find together. Each request fails alone."""
        wanted: list[tuple[Running, Arcs]] = []
        for each in done:
            request = each.running.request
            if isinstance(each.arcs, Exception):
                request.fail(each.arcs)
            elif not request.has_ended:
                wanted.append((each.running, each.arcs))
                continue
            del self._running[request]  # it failed, or was cancelled
        scored = [(running, arcs) for running, arcs in wanted if running.opinion]
        try:
            reparsed: Iterator[Arcs] = iter(())
            if self._reparser:
                opinions = [running.opinion for running, _ in scored if running.opinion]
                constraints = [running.constraints for running, _ in scored]
                reparsed = iter(self._reparser.reparse(opinions, [arcs for _, arcs in scored], constraints))
            others = self._alternatives([running for running, _ in wanted])
        except Exception as error:
            if is_of_memory(error):
                raise
            if len(wanted) == 1:
                [(running, _)] = wanted
                running.request.fail(error)
                del self._running[running.request]
                return
            for pair in wanted:
                self._finish([Done(*pair)])
            return
        for running, arcs in wanted:
            tree = self._repaired(running, next(reparsed)) if running.opinion else arcs
            self._finish_one(running, [tree], others.get(running.request, ()))

    def _repaired(self, running: Running, arcs: Arcs) -> Arcs:
        """The tree, changed where it breaks constraints that the model has learned, unless it then exceeds
        limits more often."""
        if not self._repair or not running.opinion or running.request.options.constraints == "none":
            return arcs
        sentence, given = running.request.sentence, running.constraints
        upos = running.tags.get("upos", sentence.upos)
        repaired = self._repair(arcs, running.opinion, upos, given.given_words if given else ())
        return arcs if given and given.exceeded(repaired) > given.exceeded(arcs) else repaired

    def _alternatives(self, done: Sequence[Running]) -> dict[Request, Alternatives]:
        """The alternatives of the sentences for which they are requested."""
        wanted = {
            running.request: Wanted(
                running.opinion, running.request.options.alternatives, running.constraints
            )
            for running in done
            if running.opinion and running.request.options.alternatives
        }
        if not self._reparser or not wanted:
            return {}
        return dict(zip(wanted, alternatives(self._reparser, list(wanted.values())), strict=True))

    def _finish_one(self, running: Running, several: Sequence[Arcs], others: Alternatives = ()) -> None:
        request = running.request
        try:
            trees: Sequence[ParsedTree] = [self._tree(running, arcs, others) for arcs in several]
            if request.options.trees > 1:
                trees = best_of(trees, request.options.trees, running.opinion)
            first, *next_best = trees
        except Exception as error:
            request.fail(error)
        else:
            request.finish(first._replace(others=tuple(next_best)))
        del self._running[request]

    def _tree(self, running: Running, arcs: Arcs, others: Alternatives) -> ParsedTree:
        labels = tuple(map(self._model.vocabulary.labels.string, arcs.labels))
        heads, labels = deprojectivize(arcs.heads, labels)
        violations: tuple[str, ...] = ()
        probabilities: Sequence[float] | None = None
        if running.request.options.probabilities:
            # If a sentence is too long for the scorer, the parser's own probabilities stay uncalibrated.
            calibration = self._calibration if running.opinion or not self._reparser else Calibration(None)
            probabilities = calibration(arcs.probabilities)
        if running.constraints:
            heads, labels, violations = running.constraints.completed(heads, labels)
            probabilities = probabilities and running.constraints.with_certain(probabilities)
        as_tuple = None if probabilities is None else tuple(probabilities)
        tags = running.tags
        options = running.request.options
        if self._model.constraints and options.constraints == "learned" and options.trees == 1:
            tags = self._model.constraints.with_values(tags, labels)
        tag_probabilities: Mapping[str, tuple[float, ...]] = {}
        if options.probabilities:
            tag_probabilities = self._of_tags(running, tags)
        graph = None
        if transducer := self._model.transducer:
            graph = transducer(AnnotatedTree.of(running.request.sentence, heads, labels, tags))
        return ParsedTree(
            *(heads, labels, as_tuple, tags, tag_probabilities, violations, others, arcs.score), graph=graph
        )

    def _of_tags(self, running: Running, tags: Tags) -> Mapping[str, tuple[float, ...]]:
        """The probabilities of tags; where a constraint changed one, what the earlier value lacks."""
        found = {}
        for column, probabilities in running.tag_probabilities.items():
            calibrated = Calibration(self._model.calibrations.get(column))(probabilities)
            words = zip(calibrated, running.tags[column], tags[column], strict=True)
            found[column] = tuple(each if before == now else 1 - each for each, before, now in words)
        return found

    def _relieve(self) -> None:
        """Continue with fewer sentences at a time, because the memory is too small for so many."""
        together = list(self._running)
        if not together:
            raise MemoryError
        if len(together) == 1:
            self._runner.start_over()
            self._running = {}
            together[0].fail(MemoryError())
        else:
            words = sum(len(request.sentence) for request in together)
            self._most_words = min(self._most_words, words // 2)
            warn(
                f"out of memory: from now on, sentences with at most {self._most_words:,} words in all are "
                "parsed together"
            )
            self._start_over()

    def _start_over(self) -> None:
        """Discard what runs. All unfinished requests wait again."""
        unfinished = list(self._running)
        self._runner.start_over()
        self._running = {}
        with self._scheduling:
            for request in reversed(unfinished):
                if request.wait_again():
                    self._scheduler.put_back(request)


def _trees(request: Request) -> int:
    return request.options.trees


class ProcessEngine:
    """The engine of a model in the current process. Pickling copies only the model.

    A forked process gets a new engine: another thread may have computed in the old one during the fork.
    """

    def __init__(self, model: Model, batch_size: int = BATCH_SIZE):
        self._model, self._batch_size = model, batch_size
        self._engines: dict[int, Engine] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessEngine, (self._model, self._batch_size)

    @property
    def engine(self) -> Engine:
        process = os.getpid()
        if process not in self._engines:
            self._engines = {process: Engine(self._model, self._batch_size)}
        return self._engines[process]


def parse_stream(
    model: Model,
    sentences: Iterable[Sentence | None],
    batch_size: int = BATCH_SIZE,
    options: ParseOptions = TREE_ALONE,
) -> Iterator[tuple[Sentence, ParsedTree]]:
    """Parse sentences with a new engine, see `Engine.stream`. A list is read ahead from the start."""
    begin_with = READ_AHEAD if isinstance(sentences, Sequence) else 1
    return Engine(model, batch_size).stream(sentences, options, begin_with=begin_with)


def parse(
    model: Model,
    sentences: Sequence[Sentence],
    batch_size: int = BATCH_SIZE,
    options: ParseOptions = TREE_ALONE,
) -> list[ParsedTree]:
    """The trees of sentences. Raises what `Engine.stream` raises."""
    return [tree for _, tree in parse_stream(model, sentences, batch_size, options)]
