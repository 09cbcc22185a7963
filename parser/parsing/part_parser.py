"""Reading, parsing and writing parts of files, possibly in one of several processes."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from parser.enhanced.graph import as_deps
from parser.models.column_shares import column_counts
from parser.models.loading import ModelChoice, load_models
from parser.models.model import Model
from parser.models.model_files import digest_of
from parser.parsing.constraints import ConstraintReader
from parser.parsing.engine import Engine
from parser.parsing.input_parts import Part
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.reparsing import as_text
from parser.parsing.scheduler import READ_AHEAD
from parser.parsing.totals import Totals
from parser.text.of_model import reader_with
from parser.text.reading import TextFormat
from parser.text.tokenizer import as_sentence
from parser.text.tokenizer_kinds import StoredTokenizer
from parser.treebank.conllu import TreebankPart, read_part
from parser.treebank.conllu_faults import Faults
from parser.treebank.conllu_output import (
    ALTERNATIVES,
    VIOLATION,
    Deps,
    TagsToWrite,
    as_one_of,
    with_enhanced,
    with_miscellaneous,
    with_probabilities,
    with_tag_probabilities,
    with_tags,
    with_tree,
    without_enhanced,
    without_marks,
)
from parser.treebank.sentence import Sentence


class SentenceOutput(NamedTuple):
    content: bytes
    """The lines of the sentence."""
    is_dropped: bool
    """Whether enhanced dependencies were dropped."""
    filled: Counter[str]
    """Number of values that were missing and were written, by column."""


class ParsedPart(NamedTuple):
    content: bytes
    """The sentences before the first fault, with their trees."""
    totals: Totals
    faults: Faults


@dataclass(frozen=True)
class PartSettings:
    """What a process that parses parts is told."""

    models: ModelChoice
    precision: str
    """As in the command. `models` has what follows from it on a CPU."""
    batch_size: int
    options: ParseOptions
    tags: TagsToWrite
    deps: Deps
    form: TextFormat | None = None
    """That of the text, if the input is not a treebank."""
    tokenizer: StoredTokenizer | None = None
    """See `tokenizer_of`."""


def what_decides(settings: PartSettings) -> dict[str, Any]:
    """What the output depends on, apart from the input, as JSON."""
    models = settings.models
    return {
        "model": digest_of(models.paths),
        "text": settings.form,
        "precision": settings.precision,
        "options": json.loads(json.dumps(asdict(settings.options))),
        "tags": settings.tags,
        "deps": settings.deps,
        **({"treebank": models.treebank} if models.treebank else {}),
    }


class PartParser:
    def __init__(self, settings: PartSettings, model: Model | None = None):
        """model: that of the settings if it is loaded already."""
        self._settings = settings
        self._model = model or load_models(settings.models)
        self._engine = Engine(self._model, settings.batch_size)
        self._check = ConstraintReader(self._model).check(settings.options)
        form, tokenizer = settings.form, settings.tokenizer
        self._reader = reader_with(form, tokenizer, settings.models.treebank) if form and tokenizer else None

    def run(self, part: Part) -> ParsedPart:
        [parsed] = self.parse([part])
        return parsed

    def parse(self, parts: Iterable[Part]) -> Iterator[ParsedPart]:
        """Parse parts as if they were one, because small parts would leave batches half empty."""
        read: deque[tuple[list[Sentence], Faults]] = deque()

        def sentences() -> Iterator[Sentence]:
            for part in parts:
                read.append(self._read(part))
                yield from read[-1][0]

        settings, outputs = self._settings, list[SentenceOutput]()
        parsed = self._engine.stream(sentences(), settings.options, begin_with=READ_AHEAD)
        for sentence, tree in parsed:
            while not read[0][0]:
                yield self._parsed([], *read.popleft())
            outputs.append(output_of(sentence, tree, settings.tags, settings.deps))
            if len(outputs) == len(read[0][0]):
                yield self._parsed(outputs, *read.popleft())
                outputs = []
        for without_sentences in read:
            yield self._parsed([], *without_sentences)

    def _parsed(
        self, outputs: Sequence[SentenceOutput], sentences: Sequence[Sentence], faults: Faults
    ) -> ParsedPart:
        totals = Totals(
            sentences=len(sentences),
            words=sum(map(len, sentences)),
            dropped=sum(output.is_dropped for output in outputs),
            filled=sum((output.filled for output in outputs), Counter[str]()),
            columns=column_counts(self._model.read_lexicons, sentences),
        )
        return ParsedPart(b"".join(output.content for output in outputs), totals, faults)

    def _read(self, part: Part) -> tuple[list[Sentence], Faults]:
        """The sentences of a part and its faults. The sentences of a text are numbered from 1."""
        if isinstance(part, TreebankPart):
            return read_part(part, tree=self._check is not None, partial=self._check)
        assert self._reader
        tokenized = self._reader.sentences(part.content, part.offset)
        return [as_sentence(one, ordinal) for ordinal, one in enumerate(tokenized, 1)], Faults()


def output_of(sentence: Sentence, tree: ParsedTree, tags: TagsToWrite, deps: Deps) -> SentenceOutput:
    """The lines of a sentence with its tree and with tags, probabilities and the like, if the tree has them.

    Each of several trees becomes a sentence. deps: how to treat its enhanced dependencies, which were derived
    from its earlier tree.
    """
    trees, content, is_dropped = (tree, *tree.others), "", False
    tagged, filled = with_tags(sentence, tree.tags, tags)
    tagged = without_marks(tagged)
    for number, each in enumerate(trees, 1):
        lines, drops = _lines_of(tagged, each, deps)
        if each.score is not None:
            lines = as_one_of(lines, number, len(trees), each.score)
        content += "".join(lines)
        is_dropped |= drops
    return SentenceOutput(content.encode("utf-8", "surrogateescape"), is_dropped, filled)


def _lines_of(sentence: Sentence, tree: ParsedTree, deps: Deps) -> tuple[Sequence[str], bool]:
    """The lines for one tree, and whether enhanced dependencies were dropped; see `output_of`."""
    if tree.probabilities:
        sentence = with_probabilities(sentence, tree.probabilities)
    sentence = with_tag_probabilities(sentence, tree.tags, tree.tag_probabilities)
    if tree.violations:
        sentence = with_miscellaneous(sentence, VIOLATION, tree.violations)
    if tree.alternatives:
        sentence = with_miscellaneous(sentence, ALTERNATIVES, list(as_text(tree.alternatives)))
    lines = with_tree(sentence, tree.heads, tree.labels)
    if deps == "predict" and tree.graph is not None:
        return with_enhanced(lines, sentence.word_lines, map(as_deps, tree.graph)), False
    if deps == "keep" or (deps == "drop-changed" and lines == sentence.lines):
        return lines, False
    without = without_enhanced(lines, sentence.word_lines)
    return without, without != lines
