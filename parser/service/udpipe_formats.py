"""The formats of UDPipe's protocol: CoNLL-U, words in lines, and texts that UDPipe divides itself.

Formats other than CoNLL-U are read by UDPipe's own library; see "Input formats" in its manual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from parser.parsing.part_parser import output_of
from parser.service.limits import WORD_CHARACTERS, too_large, wrong
from parser.service.reading import SPACE, InputSentence, conllu_sentences, longest_between
from parser.service.service import ParsedSentence
from parser.system.console import quoted
from parser.text.tokenizer import Token
from parser.text.udpipe import library
from parser.treebank.conllu_output import with_tags
from parser.treebank.sentence import BLANK, NO_SPACE

CONLLU, HORIZONTAL, VERTICAL = "conllu", "horizontal", "vertical"
OUTPUTS = CONLLU, HORIZONTAL, VERTICAL
GENERIC = "generic_tokenizer"
BY_LIBRARY = HORIZONTAL, VERTICAL, GENERIC
ENDS = {HORIZONTAL: re.compile("\n"), VERTICAL: re.compile("\n\r?\n")}
"""Ends of sentences, in the formats that mark them."""
MAX_CHARACTERS = 1 << 16
"""Maximum characters of a sentence, which the library reads at once while all other requests wait. A thousand
words have fewer."""
PARAGRAPHS = "paragraphs"
"""The option of horizontal and vertical output for an empty line between paragraphs."""
PROGRAM, MODEL, LICENCE = "generator", "udpipe_model", "udpipe_model_licence"
"""Comments in an answer that say how it was produced."""
MADE_BY = re.compile(rf"(?m)^# (?:{PROGRAM}|{MODEL}|{LICENCE}) = .*\n")
BEGINS_PARAGRAPH = "# newpar", "# newdoc"
NO_BREAK_SPACE = "\u00a0"
Write = Callable[[ParsedSentence], str]


def sentences_in(content: str, form: str) -> Iterator[InputSentence]:
    """Return the sentences of an input. Raises RefusedError for an unknown format, and ValueError."""
    name, _, options = form.partition("=")
    if name == CONLLU:
        # Like UDPipe, whose client sends such line ends.
        return conllu_sentences(content.replace("\r\n", "\n"), "data")
    if name not in BY_LIBRARY:
        raise wrong(f"input {quoted(form)}: unknown; available: {', '.join((CONLLU, *BY_LIBRARY))}")
    udpipe = library()
    reader = udpipe.InputFormat.newInputFormat(f"{name}={options}" if options else name)
    if not reader:
        raise wrong(f"input {quoted(form)}: UDPipe knows no such options")
    if name in ENDS and longest_between(ENDS[name], content) > MAX_CHARACTERS:
        raise too_large(f"a sentence has more than {MAX_CHARACTERS:,} characters")
    if (
        name == GENERIC and longest_between(SPACE, content) > WORD_CHARACTERS
    ):  # its time grows with their square
        raise too_large(f"the data has a word of more than {WORD_CHARACTERS:,} characters")

    def sentences() -> Iterator[InputSentence]:
        output, error = udpipe.OutputFormat.newConlluOutputFormat(), udpipe.ProcessingError()
        sentence, number = udpipe.Sentence(), 0
        reader.setText(content)
        while reader.nextSentence(sentence, error):
            number += 1
            # Line numbers count the lines of CoNLL-U that the library writes for the sentence.
            yield from conllu_sentences(output.writeSentence(sentence), f"data, sentence {number}")
        if error.occurred():
            raise ValueError(error.message)

    return sentences()


def writer_of(form: str, tags: bool, tree: bool) -> Write:
    """Return a function that writes a sentence. Raises RefusedError for an unknown format.

    tags, tree: whether predicted tags and the tree are written.
    """
    name, _, option = form.partition("=")
    if name not in OUTPUTS:
        raise wrong(f"output {quoted(form)}: unknown; available: {', '.join(OUTPUTS)}")
    if name != CONLLU:
        return _PlainWords(is_vertical=name == VERTICAL, has_paragraphs=PARAGRAPHS in option.split(";"))

    def conllu(parsed: ParsedSentence) -> str:
        sentence, predicted = parsed.input.sentence, parsed.tree
        if tree:
            wanted = predicted if tags else predicted._replace(tags={})
            written = output_of(sentence, wanted, "all", deps="drop").content.decode()
        else:
            lines = with_tags(sentence, predicted.tags, "all")[0].lines if tags else sentence.lines
            written = "".join(lines)
        # Without the comments of an earlier answer that say how it was produced.
        return MADE_BY.sub("", written) if written.startswith("#") else written

    return conllu


class _PlainWords:
    def __init__(self, is_vertical: bool, has_paragraphs: bool):
        """is_vertical: whether each word has its own line. has_paragraphs: whether an empty line separates
        paragraphs.
        """
        self._is_vertical, self._has_paragraphs = is_vertical, has_paragraphs
        self._has_begun = False

    def __call__(self, parsed: ParsedSentence) -> str:
        sentence = parsed.input.sentence
        begins = self._has_begun and any(line.startswith(BEGINS_PARAGRAPH) for line in sentence.lines)
        self._has_begun = True
        if self._is_vertical:
            written = "".join(f"{form}\n" for form in sentence.forms)
        else:
            written = " ".join(form.replace(" ", NO_BREAK_SPACE) for form in sentence.forms)
        return f"{chr(10) if begins and self._has_paragraphs else ''}{written}\n"


SPACES = re.compile("[\\s\0\ufeff]*")
BREAKS = re.compile("[\v\f\x1c-\x1f\x85\u2028\u2029\0\ufeff]")
"""White space that could be mistaken for the end of a line, and other characters treated as white space."""
ESCAPES = {" ": "\\s", "|": "\\p", "\t": "\\t", "\r": "\\r", "\n": "\\n", "\\": "\\\\"}
ESCAPED = re.compile("[ |\t\r\n\\\\]")


class Spaces:
    def __init__(self, text: str, ranges: bool, normalized: bool):
        """ranges: whether the positions of tokens are written, too. normalized: whether white space is
        described by `SpaceAfter=No` only.
        """
        self._text, self._ranges, self._normalized = text, ranges, normalized
        self._first = _spaces_at(text, 0)

    def told(self, token: Token) -> str:
        """Return the column MISC of a token of the text."""
        return "|".join(self._of(token)) or BLANK

    def _of(self, token: Token) -> Iterator[str]:
        if self._normalized:
            if not token.space_after:
                yield NO_SPACE
        else:
            if token.start == len(self._first) > 0:
                yield f"SpacesBefore={_escaped(self._first)}"
            if (in_text := self._text[token.start : token.end]) != token.form:
                yield f"SpacesInToken={_escaped(in_text)}"
            after = _spaces_at(self._text, token.end)
            if not after:
                yield NO_SPACE
            elif after != " ":
                yield f"SpacesAfter={_escaped(after)}"
        if self._ranges:
            yield f"TokenRange={token.start}:{token.end}"


def _spaces_at(text: str, start: int) -> str:
    spaces = SPACES.match(text, start)
    return spaces[0] if spaces else ""


def _escaped(spaces: str) -> str:
    return ESCAPED.sub(lambda match: ESCAPES[match[0]], BREAKS.sub(" ", spaces))
