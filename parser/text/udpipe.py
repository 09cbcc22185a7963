"""The tokenizer of UDPipe 1 (Straka & Straková 2017), from the package `ufal.udpipe`, and training it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from types import ModuleType
from typing import Any, Literal

from pydantic import Field

from parser.system.files import nameless_file
from parser.system.settings import Count
from parser.system.version import to_install
from parser.text.tokenizer import Token, TokenizedSentence, TokenizerKind, in_windows, joined
from parser.text.udpipe_format import refuse_unsound

METHOD = "morphodita_parsito"
TRAINING = "epochs={};batch_size={};learning_rate={:.10f};early_stopping=1;dimension=24"
"""More dimensions are slower. Early stopping keeps the best epoch on the dev set."""
SCORES = re.compile(r"heldout tokens: .*?/.*?/([\d.]+)%, sentences: .*?/.*?/([\d.]+)%")
"""F1 scores in the library's output for an epoch, if there is a dev set."""
EPOCH = re.compile(r"^Epoch \d+, ", re.MULTILINE)
BEST = re.compile(r"Choosing parameters from epoch (\d+)")
SENTENCE_WORDS = 500
"""Number of words after which the library ends a sentence in any case."""
STRETCH, WINDOW = 4_096, 1_024
"""Characters that take the library about 20 and 5 to 10 milliseconds if no sentence ends in them. In most
languages with blanks, `SENTENCE_WORDS` words have fewer. A word of more than a thousand fills a window."""
WORD = re.compile(r"\S+")


class UDPipe(TokenizerKind):
    """The GRU over characters of UDPipe 1 (Straka & Straková 2017), trained on the text of the treebank. It
    also finds the words of multiword tokens. Needs the extra `text`."""

    is_trained = True
    extra = "text"

    kind: Literal["udpipe"]
    epochs: Count = 12
    """Number of epochs. Each takes some seconds, whatever the size of the treebank, alongside the
    training of the parser. The best epoch on dev is kept; without dev, the last one."""
    batch_size: Count = 10
    """Number of segments of 50 characters in a step. The library's default of 50 needs more epochs."""
    learning_rate: float = Field(0.003, gt=0, le=1)

    def refuse_missing(self) -> None:
        """See `TokenizerKind`."""
        library()

    def refuse_unsound(self, content: bytes) -> None:
        """See `TokenizerKind`."""
        refuse_unsound(content)

    def opened(self, content: bytes) -> UDPipeTokenizer:
        return UDPipeTokenizer(content)

    def train(self, train: str, dev: str) -> bytes:
        """See `TokenizerKind`. The library trains in one call, which no signal interrupts."""
        udpipe = library()
        error = udpipe.ProcessingError()
        treebanks = map(_sentences, (train, dev))
        none = udpipe.Trainer.NONE
        options = TRAINING.format(self.epochs, self.batch_size, self.learning_rate)
        content: bytes = udpipe.Trainer.train(METHOD, *treebanks, options, none, none, error)
        if error.occurred():
            raise ValueError(error.message)
        refuse_unsound(content)
        return content

    def share_done(self, log: str) -> float:
        """See `TokenizerKind`. The library prints a line for each epoch."""
        return min(1.0, len(EPOCH.findall(log)) / self.epochs)

    def dev_scores(self, log: str) -> str:
        """See `TokenizerKind`. F1 scores of the best epoch."""
        best, scores = BEST.search(log), SCORES.findall(log)
        if not best or len(scores) < int(best[1]):
            return ""
        tokens, sentences = scores[int(best[1]) - 1]
        return f", dev F1: tokens {tokens}, sentences {sentences}"


def library() -> ModuleType:
    """The package `ufal.udpipe`. Raises ValueError, which says what to install, if it is missing."""
    try:
        from ufal import udpipe
    except ImportError:
        raise ValueError(f"reading raw text needs ufal.udpipe: {to_install('text')}") from None
    return udpipe


class UDPipeTokenizer:
    reads_divided_text = False

    def __init__(self, content: bytes):
        """content: from a model's file, perhaps from a stranger. Raises ValueError if it is not a tokenizer,
        or if the package is missing.
        """
        refuse_unsound(content)
        self._udpipe = library()
        with nameless_file(content) as file:
            self._model = self._udpipe.Model.load(str(file))
        if not self._model or not self._model.newTokenizer(""):
            raise ValueError("not a tokenizer that UDPipe 1 reads")

    def sentences(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        """See `Tokenizer`."""
        divide = partial(self._divide, is_sentence=is_sentence)
        if len(paragraph) <= STRETCH:
            yield from divide(paragraph, offset)
        elif is_sentence:
            yield from joined(in_windows(paragraph, offset, WINDOW, divide))
        elif _has_long_stretch(paragraph):
            yield from in_windows(paragraph, offset, WINDOW, divide)
        else:
            yield from divide(paragraph, offset)

    def _divide(self, paragraph: str, offset: int, is_sentence: bool) -> Iterator[TokenizedSentence]:
        # Offsets continue from text to text, so each paragraph needs a new tokenizer.
        tokenizer = self._model.newTokenizer("ranges;presegmented" if is_sentence else "ranges")
        tokenizer.setText(paragraph + "\n")
        sentence, error = self._udpipe.Sentence(), self._udpipe.ProcessingError()
        begins = not is_sentence
        while tokenizer.nextSentence(sentence, error):
            tokens = tuple(_tokens(sentence, offset))
            text = paragraph[tokens[0].start - offset : tokens[-1].end - offset]
            yield TokenizedSentence(tokens, " ".join(text.split()), begins)
            begins = False
        if error.occurred():
            raise ValueError(f"the tokenizer failed: {error.message}")


def _has_long_stretch(text: str) -> bool:
    """Whether the library might read more than `STRETCH` characters before it ends a sentence, and a call."""
    starts = [word.start() for word in WORD.finditer(text)]
    ends = [*starts[SENTENCE_WORDS:], len(text)]
    return any(end - start > STRETCH for start, end in zip(starts, ends, strict=False))


def _tokens(sentence: Any, offset: int) -> Iterator[Token]:
    """The tokens of the library's sentence. offset: number of characters before the start of the ranges."""
    words, of_several = sentence.words, {token.idFirst: token for token in sentence.multiwordTokens}
    first, end = 1, words.size()  # 0 is ROOT
    while first < end:
        token = of_several.get(first)
        if token:
            following = token.idLast + 1
            forms = _cut(token.form, [words[number].form for number in range(first, following)])
        else:
            token, following = words[first], first + 1
            forms = (token.form,)
        start, stop = token.getTokenRangeStart(), token.getTokenRangeEnd()
        yield Token(token.form, start + offset, stop + offset, forms, token.getSpaceAfter())
        first = following


def _cut(token: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words of a token; if they spell it apart from case, with the token's letters.

    The library applies its rules to the token in small letters, and then guesses the case: `GSA's` would
    become `Gsa` and `'s`.
    """
    spelt = "".join(words)
    if len(spelt) != len(token) or any(map(_differ, spelt, token)):
        return tuple(words)
    ends = accumulate(map(len, words))
    return tuple(token[end - len(word) : end] for word, end in zip(words, ends, strict=True))


def _differ(letter: str, other: str) -> bool:
    """Whether letters differ in more than case. In small letters, the library writes `İ` as `i`, like us."""
    return letter != other and letter.lower()[0] != other.lower()[0]


def _sentences(conllu: str) -> Any:
    """Convert sentences in CoNLL-U to the library's list of sentences."""
    udpipe = library()
    reader, sentences = udpipe.InputFormat.newConlluInputFormat(), udpipe.Sentences()
    reader.setText(conllu)
    error, sentence = udpipe.ProcessingError(), udpipe.Sentence()
    while reader.nextSentence(sentence, error):
        sentences.append(sentence)
        sentence = udpipe.Sentence()
    if error.occurred():
        raise ValueError(error.message)
    return sentences
