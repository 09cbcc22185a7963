"""The engine of a parser, which parses sentences together, whenever they arrive."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from queue import Full
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.device import compute_alone_after_fork, one_memory_error
from parser.models.model import Model
from parser.networks.stack_parser import EncodedSentences
from parser.parsing import BATCH_SIZE
from parser.parsing.alone import AloneParser
from parser.parsing.beam_search import WIDTH, best_of, search
from parser.parsing.constraints import ConstraintReader, SentenceConstraints
from parser.parsing.options import TREE_ALONE, ParseOptions
from parser.parsing.parsed_tree import Arcs, ParsedTree
from parser.parsing.predicted_tags import predicted_tags, votes_of
from parser.parsing.probabilities import Calibration
from parser.parsing.reparsing import Alternatives, Reparser, SecondOpinion, Wanted, alternatives
from parser.parsing.running_batch import RunningBatch
from parser.parsing.scheduler import READ_AHEAD, WINDOW, ReadAhead, Request, RequestSource, Scheduler
from parser.system.console import warn
from parser.system.exit_lock import ExitLock
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import Sentence

GROUP_SENTENCES, GROUP_WORDS = 256, 4_096
"""Most sentences and words that are encoded together. More gain little, and let others wait longer."""
FEW = 32
"""Sentences that are parsed one after the other on a CPU, which is faster than a batch of them."""
LATE_STEPS = 2
"""Most steps that a few sentences wait for others on a CPU: encoding few takes almost as long as many."""
SHARE_ALONE, MAX_CREDIT = 1 / 20, 200.0
"""Words that can be parsed alone for each word that the batch has parsed: a tenth of the time, because a word
alone takes twice as long. The second value limits how many of them accumulate."""
MAX_WAITING = 16 * WINDOW
"""The default for the number of words that may wait."""
SLOW = 0.05
"""In seconds. If reading a sentence takes longer, the trees of earlier ones come before more is read."""
Tags = Mapping[str, tuple[str, ...]]


class _Running(NamedTuple):
    request: Request
    tags: Tags
    opinion: SecondOpinion | None
    constraints: SentenceConstraints | None


class _Alone(NamedTuple):
    running: _Running
    tables: Sequence[Tensor]
    """See `AloneParser.parse`."""


class _Encoded(NamedTuple):
    """Sentences with what the models made of their words before the first step."""

    requests: Sequence[Request]
    by_model: list[EncodedSentences]
    tags: list[Tags]
    opinions: Sequence[SecondOpinion | None]
    constraints: Sequence[SentenceConstraints | None]

    def running(self) -> Iterator[_Running]:
        return map(_Running, self.requests, self.tags, self.opinions, self.constraints)


class EngineLoad(NamedTuple):
    """The work that an engine has left."""

    waiting: int
    """Sentences that wait."""
    waiting_words: int
    running: int
    """Sentences that are parsed together."""
    batch_size: int
    """The largest number of sentences that are parsed together."""


class Engine:
    """Parses sentences for several threads: one that waits for a tree computes for all, one at a time.

    The weights of the model must not change while the engine is in use.
    """

    def __init__(self, model: Model, batch_size: int = BATCH_SIZE, max_waiting: int = MAX_WAITING):
        """batch_size: sentences that are parsed at the same time. max_waiting: words that may wait."""
        self._model, self._batch_size, self._max_waiting = model, batch_size, max_waiting
        self._is_on_gpu = model.device.type == "cuda"
        self._batch: RunningBatch | None = None
        self._running: dict[int, _Running] = {}
        """Keyed by the slot in the batch."""
        self._alone: deque[_Alone] = deque()
        """Encoded sentences, which are parsed one after the other."""
        self._joining: list[Request] = []
        """Requests taken from the scheduler and not stored elsewhere yet; after an error they wait again."""
        self._credit = MAX_CREDIT
        """Words that can still be parsed alone next to the batch."""
        self._late = 0
        """Steps that the next sentences have waited for others."""
        self._most_words = math.inf
        """The limit on the words of the batch, which is lowered when memory runs out."""
        self._reparser, self._calibration = Reparser.of(model), Calibration.of(model)
        self._scheduler, self._source = Scheduler(), RequestSource()
        self._scheduling, self._computing, self._ending = Lock(), ExitLock(self), Lock()

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
            return not (self._running or self._alone or len(self._scheduler))

    @property
    def load(self) -> EngineLoad:
        """The work left. Any thread can ask for it, without waiting for a step."""
        with self._scheduling:
            waiting, words = len(self._scheduler), self._scheduler.words
        return EngineLoad(waiting + len(self._alone), words, len(self._running), self._batch_size)

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
            compute_alone_after_fork()
            try:
                with torch.inference_mode():
                    for slot, running in self._running.items():
                        if running.request.state == "cancelled" and self._batch:
                            self._batch.cancel(slot)
                    if not self._parse_few():
                        self._admit()
                        self._advance()
                        self._parse_beside()
            except BaseException:
                self._start_over()
                raise

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

    @cached_property
    def _alone_parser(self) -> AloneParser:
        return AloneParser(self._model.members)

    def _parse_few(self) -> bool:
        """Parse the next sentence alone if there are few. Returns whether there are."""
        if self._running or self._is_on_gpu:
            return False
        if not self._alone:
            most = min(GROUP_WORDS, self._most_words)
            with self._scheduling:
                group = self._scheduler.take(FEW, most) if len(self._scheduler) <= FEW else []
            self._encode_alone(group)
        return self._parse_alone()

    def _parse_beside(self) -> None:
        """Parse a sentence alone if its source has few sentences and the batch has no room for it."""
        if self._batch and self._batch.waiting and self._credit > 0 and not self._is_on_gpu:
            with self._scheduling:
                group = self._scheduler.take_of_small(FEW)
            self._credit -= sum(len(request.sentence) for request in group)
            self._encode_alone(group)
            self._parse_alone()

    def _encode_alone(self, group: Sequence[Request]) -> None:
        """Encode sentences for `_parse_alone`. Requests whose sentences cannot be encoded fail."""
        self._joining = list(group)
        for encoded in self._encoded(group):
            tables = zip(*(by_model.tables() for by_model in encoded.by_model), strict=True)
            self._alone.extend(map(_Alone, encoded.running(), tables))
            self._forget_joining(encoded)
        self._joining = []

    def _parse_alone(self) -> bool:
        """Parse the next of the encoded sentences. Returns whether there was one."""
        if not self._alone:
            return False
        running, tables = self._alone[0]
        request = running.request
        if not request.has_ended:
            try:
                arcs = self._alone_parser.parse(tables, request.options.probabilities, running.constraints)
            except Exception as error:
                request.fail(error)
            else:
                self._finish_all([(running, arcs)])
        self._alone.popleft()
        return True

    def _admit(self) -> None:
        """Let waiting sentences join the batch if it will have room for them."""
        if (self._batch and 2 * self._batch.waiting >= self._batch_size) or self._waits_for_others():
            return
        room = self._most_words - sum(len(running.request.sentence) for running in self._running.values())
        with self._scheduling:
            group = self._scheduler.take(
                GROUP_SENTENCES, min(GROUP_WORDS, room), room if self._running else math.inf
            )
        self._joining = group
        for encoded in self._encoded(group):
            self._join(encoded)
        self._joining = []

    def _waits_for_others(self) -> bool:
        """Whether few sentences are about to join a large batch, and can do so later."""
        with self._scheduling:
            waiting = len(self._scheduler)
        is_few = 0 < 2 * waiting < len(self._running) and not self._is_on_gpu
        self._late = self._late + 1 if is_few and self._late < LATE_STEPS else 0
        return self._late > 0

    def _encoded(self, group: Sequence[Request]) -> Iterator[_Encoded]:
        """Yield the sentences as the models encode them.

        Sentences for which several trees are requested are not yielded, but searched immediately.
        """
        alike: dict[int, list[Request]] = {}
        for request in group:
            alike.setdefault(request.options.trees, []).append(request)
        for trees, requests in alike.items():
            for encoded in self._encoded_parts(requests):
                if trees == 1:
                    yield encoded
                else:
                    self._search(encoded, trees)

    def _encoded_parts(self, group: Sequence[Request]) -> Iterator[_Encoded]:
        """Like `_encoded`. If encoding fails, each half is tried, so that each sentence fails alone."""
        if not group or not self._joining:  # the requests wait again because the memory was too small
            return
        try:
            with one_memory_error():
                encoded = self._encode(group)
        except torch.OutOfMemoryError:
            encoded = None
        except Exception as error:
            if len(group) == 1:
                group[0].fail(error)
            else:
                yield from self._encoded_parts(group[: len(group) // 2])
                yield from self._encoded_parts(group[len(group) // 2 :])
            return
        if encoded is None:
            self._relieve()
        else:
            yield encoded

    def _encode(self, group: Sequence[Request]) -> _Encoded:
        """The sentences as the models encode them, and the tags that the models choose together."""
        sentences = [request.sentence for request in group]
        by_model, votes = [], []
        for model in self._model.members:
            tokens = model.vocabulary.encode_tokens(sentences)
            words, tag_scores = model.network.encode_distinct(tokens)
            by_model.append(EncodedSentences(tokens, words))
            votes.append(votes_of(model.vocabulary, words, tag_scores))
        tags = predicted_tags(votes, sentences)
        constraints = [
            self._constraints.read(request.sentence, request.options, tags_of_words)
            if request.options.are_constrained
            else None
            for request, tags_of_words in zip(group, tags, strict=True)
        ]
        return _Encoded(group, by_model, tags, self._opinions(group, by_model, constraints), constraints)

    @cached_property
    def _constraints(self) -> ConstraintReader:
        return ConstraintReader(self._model)

    def _opinions(
        self,
        group: Sequence[Request],
        by_model: Sequence[EncodedSentences],
        constraints: Sequence[SentenceConstraints | None],
    ) -> Sequence[SecondOpinion | None]:
        """The opinion of the scorers of arcs on each sentence; None for all if nothing needs them."""
        reparser = self._reparser
        is_asked = any(request.options.needs_scorers for request in group)
        if not reparser or not (reparser.changes_trees or is_asked):
            return [None] * len(group)
        pairs = zip(self._model.members, by_model, strict=True)
        words = [encoded.words for model, encoded in pairs if model.network.arcs]
        opinions = reparser.opinions(by_model[0].tokens.lengths, words)
        return [
            opinion.among(constraint.possible_heads()) if opinion and constraint else opinion
            for opinion, constraint in zip(opinions, constraints, strict=True)
        ]

    def _search(self, encoded: _Encoded, trees: int) -> None:
        """Finish requests for several trees by a beam search. trees: how many are requested."""
        try:
            with one_memory_error():
                beams = search(self._model.members, encoded.by_model, encoded.constraints, WIDTH * trees)
        except torch.OutOfMemoryError:
            beams = None
        if beams is None:
            self._relieve()
            return
        for running, hypotheses in zip(encoded.running(), beams, strict=True):
            if not running.request.has_ended:
                self._finish(running, hypotheses)
        self._forget_joining(encoded)

    def _join(self, encoded: _Encoded) -> None:
        try:
            with one_memory_error():
                if not self._batch:
                    models, in_graph = self._model.members, self._is_on_gpu
                    self._batch = RunningBatch(models, self._batch_size, in_graph=in_graph)
                has_probabilities = any(request.options.probabilities for request in encoded.requests)
                slots = self._batch.join(encoded.by_model, has_probabilities, encoded.constraints)
        except torch.OutOfMemoryError:
            slots = None
        if slots is None:
            self._relieve()
            return
        self._running |= dict(zip(slots, encoded.running(), strict=True))
        self._forget_joining(encoded)

    def _forget_joining(self, encoded: _Encoded) -> None:
        """Remove the requests that are stored elsewhere now."""
        joined = set(encoded.requests)
        self._joining = [request for request in self._joining if request not in joined]

    def _advance(self) -> None:
        """Take steps with the sentences in the batch, and finish the requests whose sentences are done."""
        if not self._batch or not self._running:
            return
        try:
            with one_memory_error():
                self._batch.work()
                done = self._batch.done()
        except torch.OutOfMemoryError:
            done = None
        if done is None:
            self._relieve()
            return
        for arcs in done.values():
            self._credit = min(MAX_CREDIT, self._credit + SHARE_ALONE * len(arcs.heads))
        self._finish_all([(self._running[slot], arcs) for slot, arcs in done.items()])
        for slot in done:
            del self._running[slot]
        if not self._running and not self._is_on_gpu:  # a GPU keeps the batch, whose graph is reused
            self._batch = None

    def _finish_all(self, done: Sequence[tuple[_Running, Arcs]]) -> None:
        """Finish requests with the trees that parser and scorers find together. Each request fails alone."""
        wanted = [(running, arcs) for running, arcs in done if not running.request.has_ended]
        opinions = [running.opinion for running, _ in wanted if running.opinion]
        trees = [arcs for running, arcs in wanted if running.opinion]
        constraints = [running.constraints for running, _ in wanted if running.opinion]
        try:
            reparsed = iter(self._reparser.reparse(opinions, trees, constraints) if self._reparser else ())
            others = self._alternatives([running for running, _ in wanted])
        except Exception as error:
            if len(wanted) == 1:
                wanted[0][0].request.fail(error)
                return
            for pair in wanted:
                self._finish_all([pair])
            return
        for running, arcs in wanted:
            tree = next(reparsed) if running.opinion else arcs
            self._finish(running, [tree], others.get(running.request, ()))

    def _alternatives(self, done: Sequence[_Running]) -> dict[Request, Alternatives]:
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

    def _finish(self, running: _Running, several: Sequence[Arcs], others: Alternatives = ()) -> None:
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

    def _tree(self, running: _Running, arcs: Arcs, others: Alternatives) -> ParsedTree:
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
        return ParsedTree(heads, labels, as_tuple, running.tags, violations, others, arcs.score)

    def _relieve(self) -> None:
        """Continue with fewer sentences at a time, because the memory is too small for so many.

        It is called after the handler of the error, whose traceback keeps the tensors of the failed step.
        """
        together = [*self._joining, *(running.request for running in self._running.values())]
        if len(together) == 1:
            self._batch, self._running, self._joining = None, {}, []
            [request] = together
            request.fail(MemoryError())
        else:
            words = sum(len(request.sentence) for request in together)
            self._most_words = min(self._most_words, words // 2)
            warn(
                f"out of memory: from now on, sentences with at most {self._most_words:,} words in all are "
                "parsed together"
            )
            self._start_over()
        torch.cuda.empty_cache()  # CUDA's libraries cannot use what PyTorch keeps

    def _start_over(self) -> None:
        """Discard the batch. All unfinished requests wait again."""
        unfinished = [
            *self._joining,
            *(alone.running.request for alone in self._alone),
            *(running.request for running in self._running.values()),
        ]
        self._batch, self._running, self._joining = None, {}, []
        self._alone.clear()
        with self._scheduling:
            for request in reversed(unfinished):
                if request.wait_again():
                    self._scheduler.put_back(request)


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
