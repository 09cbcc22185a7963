"""The formats of UDPipe's protocol: CoNLL-U and words in lines; see "Input formats" in UDPipe's manual."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from parser.parsing.part_parser import output_of
from parser.service.limits import too_large, wrong
from parser.service.reading import InputSentence, conllu_sentences, longest_between
from parser.service.service import ParsedSentence
from parser.system.console import quoted
from parser.text.tokenizer import Token
from parser.treebank.conllu_output import sentence_lines, with_tags
from parser.treebank.sentence import BLANK, FORM, NO_SPACE

CONLLU, HORIZONTAL, VERTICAL = "conllu", "horizontal", "vertical"
FORMATS = CONLLU, HORIZONTAL, VERTICAL
ENDS = {HORIZONTAL: re.compile("\n"), VERTICAL: re.compile("\n\n")}
"""Ends of sentences, in the formats that mark them."""
LINE, WORD = re.compile("[^\n]*\n?"), re.compile("[^ \t\n]+")
MAX_CHARACTERS = 1 << 16
"""Maximum characters of a sentence, which is read at once. A thousand words have fewer."""
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
    content = content.replace("\r\n", "\n")  # like UDPipe, whose client sends such line ends
    if form == CONLLU:
        return conllu_sentences(content, "data")
    if form not in FORMATS:
        raise wrong(f"input {quoted(form)}: unknown; available: {', '.join(FORMATS)}")
    content = content.replace("\r", "\n")
    if longest_between(ENDS[form], content) > MAX_CHARACTERS:
        raise too_large(f"a sentence has more than {MAX_CHARACTERS:,} characters")
    return _numbered((_vertical if form == VERTICAL else _horizontal)(content))


def _numbered(sentences: Iterable[tuple[list[str], bool]]) -> Iterator[InputSentence]:
    """sentences: the words of each, and whether it begins a paragraph. Raises ValueError for unsound ones."""
    for number, (forms, begins) in enumerate(sentences, 1):
        comments = [*(["newpar"] if begins else []), f"sent_id = {number}"]
        tokens = [(form, 1, BLANK) for form in forms]
        lines, _ = sentence_lines({FORM: forms}, tokens, comments)
        yield from conllu_sentences("".join(lines), f"data, sentence {number}")


def _horizontal(content: str) -> Iterator[tuple[list[str], bool]]:
    """The words of each line. A line without words ends a paragraph."""
    begins = True
    for line in LINE.finditer(content):
        forms = [form.replace(NO_BREAK_SPACE, " ") for form in WORD.findall(line[0])]
        if forms:
            yield forms, begins
        begins = not forms


def _vertical(content: str) -> Iterator[tuple[list[str], bool]]:
    """The words: each line up to a tab. An empty line ends a sentence, and two of them a paragraph."""
    forms: list[str] = []
    begins = was_empty = True
    for line in LINE.finditer(content):
        form = line[0].partition("\t")[0].strip(" \n")
        if form:
            forms.append(form)
        elif forms:
            yield forms, begins
            forms, begins = [], False
        elif was_empty:
            begins = True
        was_empty = not form
    if forms:
        yield forms, begins


def writer_of(form: str, tags: bool, tree: bool) -> Write:
    """Return a function that writes a sentence. Raises RefusedError for an unknown format.

    tags, tree: whether predicted tags and the tree are written.
    """
    name, _, option = form.partition("=")
    if name not in FORMATS:
        raise wrong(f"output {quoted(form)}: unknown; available: {', '.join(FORMATS)}")
    if name != CONLLU:
        return _PlainWords(is_vertical=name == VERTICAL, has_paragraphs=PARAGRAPHS in option.split(";"))

    def conllu(parsed: ParsedSentence) -> str:
        sentence, predicted = parsed.input.sentence, parsed.tree
        if tree:
            wanted = predicted if tags else predicted._replace(tags={})
            written = output_of(sentence, wanted, "all", deps="predict").content.decode()
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
