"""The sentences that programs give, as words, columns or TokenLists of conllu, and their trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from typing import Any, TypeGuard

from conllu import Token, TokenList
from conllu.parser import DEFAULT_FIELDS, parse_dict_value
from conllu.serializer import serialize_field

from parser.api.tree import COMMENTS, TAGS, TREE, Tree
from parser.parsing.parsed_tree import ParsedTree
from parser.text.tokenizer import TokenizedSentence
from parser.treebank.conllu_faults import head_fault, value_fault
from parser.treebank.conllu_output import ARC_PROBABILITY, MARKS, TAG_PROBABILITIES, VIOLATION
from parser.treebank.sentence import BLANK, NO_HEAD, WORD_COLUMNS, Sentence, is_missing, label_fault

SURROGATE = re.compile("[\ud800-\udfff]")


def sentence_of(
    given: Sequence[str] | Mapping[str, Any] | TokenList, number: int, keeps: bool = False
) -> Sentence:
    """Convert a sentence that `Parser.parse_all` accepts. Raises ValueError.

    number: its number, from 1. keeps: whether to keep the heads and labels of a TokenList.
    """
    try:
        columns: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"words": given}
        if isinstance(given, TokenList):
            columns = _columns_of(given, keeps)
        for name, value in comments_of(columns).items():
            _refuse_value(name, value)
        if others := columns.keys() - {"words", *TAGS, *TREE, *COMMENTS}:
            known = ", ".join(["words", *TAGS, *TREE, *COMMENTS])
            raise ValueError(f"unknown: {', '.join(sorted(map(str, others)))}; known: {known}")
        words = _column("words", columns.get("words"))
        if not words:
            raise ValueError("it has no words")
        tags = {name: _column(name, columns[name]) for name in TAGS if columns.get(name) is not None}
        labels = _given_labels(columns.get("labels"), len(words))
        heads = _given_heads(columns.get("heads"), len(words))
        for name, values in tags.items():
            if len(values) != len(words):
                raise ValueError(f"{len(words)} words, but {len(values)} {name}")
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from None
    sentence = Sentence.without_tree({"forms": words, **tags}, f"#{number}", number)
    return replace(sentence, heads=heads or sentence.heads, labels=labels or sentence.labels)


def comments_of(given: object) -> dict[str, Any]:
    """The comments of a mapping: its values for the whole sentence."""
    if not isinstance(given, Mapping):
        return {}
    return {name: given[name] for name in COMMENTS if given.get(name) is not None}


def refuse_surrogates(text: str, name: str) -> None:
    """Raises ValueError if the text contains a surrogate. name: the name of the text in the message."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"character {error.start + 1}"
        raise ValueError(f"{name}, {where}: a lone surrogate, which is no character") from None


def _column(name: str, values: object) -> tuple[str, ...]:
    """Return the values of a column; empty if there are none. Raises ValueError."""
    if values is None:
        return ()
    if not _is_list(values):
        advice = "; parse_all takes mappings" if isinstance(values, Mapping) else ""
        raise ValueError(f"{name}: a list of strings is needed, not {type(values).__name__}{advice}")
    column = tuple(values)
    for number, value in enumerate(column, 1):
        _refuse_value(f"{name}, number {number}", value)
    return column


def _refuse_value(name: str, value: object) -> None:
    """Raises ValueError if a value is not allowed in CoNLL-U."""
    if not isinstance(value, str):
        raise ValueError(f"{name}: {value!r} is no string")
    if fault := value_fault(value):
        raise ValueError(f"{name} {fault}")
    if not value.isascii() and SURROGATE.search(value):
        raise ValueError(f"{name}: {value!r} has a lone surrogate, which is no character")


def _given_heads(values: object, words: int) -> tuple[int, ...]:
    """Return the given heads, None or `_` for none; empty if nothing is given. words: their number."""
    heads = []
    for word, value in enumerate(_given("heads", values, words), 1):
        if value is None or value == BLANK:
            heads.append(NO_HEAD)
            continue
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"heads, number {word}: {value!r} is not the number of a word")
        if fault := head_fault(str(value), word, words):
            raise ValueError(f"heads, number {word}: {fault}")
        heads.append(int(value))
    return tuple(heads)


def _given_labels(values: object, words: int) -> tuple[str, ...]:
    """Return the given labels, see `_given_heads`."""
    labels = []
    for word, value in enumerate(_given("labels", values, words), 1):
        if value is None or value == BLANK:
            labels.append(BLANK)
            continue
        if not isinstance(value, str):
            raise ValueError(f"labels, number {word}: {value!r} is no string")
        if fault := label_fault(value):
            raise ValueError(f"labels, number {word}: {fault}")
        labels.append(value)
    return tuple(labels)


def _given(name: str, values: object, words: int) -> list[Any]:
    if values is None:
        return []
    if not _is_list(values):
        raise ValueError(f"{name}: a list is needed, not {type(values).__name__}")
    given = list(values)
    if len(given) != words:
        raise ValueError(f"{words} words, but {len(given)} {name}")
    return given


def _is_list(values: object) -> TypeGuard[Iterable[Any]]:
    """Whether these can be the values of words: in order, and not the characters of a string."""
    return isinstance(values, Iterable) and not isinstance(values, str | Mapping | Set)


def _columns_of(tokens: TokenList, keep: bool) -> dict[str, list[Any]]:
    """Return the words, without multiword tokens and empty nodes, and their tags. Raises ValueError.

    keep: whether to return heads and labels, too.
    """
    words = _words(tokens)
    for number, word in enumerate(words, 1):
        if word.get("id") != number:
            raise ValueError(f"token {word}: ID is {word.get('id')!r}; expected {number}")
    columns = {"words": [word.get("form") for word in words]}
    columns |= {name: [_text(word.get(column)) for word in words] for name, column in TAGS.items()}
    if keep:
        columns["heads"] = [word.get("head") for word in words]
        columns["labels"] = [word.get("deprel") for word in words]
    return columns


def with_tree(tokens: TokenList, tree: Tree) -> TokenList:
    """Return a copy with the tree, and with predicted tags for words without tags.

    Probabilities and violations are written to MISC, and replace those of an earlier tree. Enhanced
    dependencies, if the tree has them, replace earlier ones and their empty nodes.

    Tokens get the columns of CoNLL-U that they lack. If they were read from a file with other columns, they
    get the columns of that file. Raises ValueError if the file has no columns for trees.
    """
    parsed = deepcopy(tokens)
    columns = dict.fromkeys(parsed.default_fields or DEFAULT_FIELDS)
    if not columns.keys() >= {"head", "deprel"}:
        raise ValueError("the file has no columns HEAD and DEPREL, into which the tree could be put")
    parsed[:] = [Token({**columns, **token}) for token in parsed]
    for index, word in enumerate(_words(parsed)):
        if misc := word.get("misc"):
            pairs = (parse_dict_value(misc) if isinstance(misc, str) else misc) or {}
            word["misc"] = {key: value for key, value in pairs.items() if key not in MARKS} or None
        word["head"], word["deprel"] = tree.heads[index], tree.labels[index]
        for name, column in TAGS.items():
            values = getattr(tree, name)
            if values and column in word and values[index] != _text(word[column]):
                word[column] = parse_dict_value(values[index]) if column == "feats" else values[index]
        if tree.probabilities and "misc" in word:
            word["misc"] = {**(word["misc"] or {}), ARC_PROBABILITY: f"{tree.probabilities[index]:.4f}"}
        if tree.tag_probabilities and "misc" in word:
            for column, key in TAG_PROBABILITIES.items():
                if of_words := tree.tag_probabilities.get(WORD_COLUMNS[column].attribute):
                    word["misc"] = {**(word["misc"] or {}), key: f"{of_words[index]:.4f}"}
        if tree.violations and tree.violations[index] and "misc" in word:
            word["misc"] = {**(word["misc"] or {}), VIOLATION: tree.violations[index]}
        if tree.enhanced is not None and "deps" in word:
            word["deps"] = [(label, head) for head, label in tree.enhanced[index]]
    if tree.enhanced is not None:
        parsed[:] = [token for token in parsed if not _is_empty(token)]
    return parsed


def _is_empty(token: Token) -> bool:
    """Whether a token is an empty node, whose ID is such as (8, ".", 1)."""
    identifier = token.get("id")
    return isinstance(identifier, tuple) and identifier[1] == "."


def _words(tokens: TokenList) -> list[Token]:
    return [token for token in tokens if not isinstance(token.get("id"), tuple)]


def _text(value: Any) -> Any:
    """The value of a column as it is written in a file."""
    return serialize_field(value) if value is None or isinstance(value, dict) else value


def tree_of(sentence: Sentence, parsed: ParsedTree) -> Tree:
    """Return a sentence with its tree. Where a tag is given, it stays."""
    tags: dict[str, Any] = {}
    tag_probabilities: dict[str, tuple[float, ...]] = {}
    for name, column in TAGS.items():
        given, predicted = sentence.column(column), parsed.tags.get(column)
        if predicted is None:
            tags[name] = given if set(given) != {BLANK} else None
            continue
        index = WORD_COLUMNS[column].index
        rows = zip(given, predicted, sentence.upos, strict=True)
        tags[name] = tuple(tag if is_missing(index, value, upos) else value for value, tag, upos in rows)
        if column in parsed.tag_probabilities:
            words = zip(parsed.tag_probabilities[column], tags[name], predicted, strict=True)
            tag_probabilities[name] = tuple(each if tag == own else 1.0 for each, tag, own in words)
    return Tree(
        sentence.forms,
        parsed.heads,
        parsed.labels,
        **tags,
        enhanced=None if parsed.graph is None else tuple(map(tuple, parsed.graph)),
        probabilities=parsed.probabilities,
        tag_probabilities=tag_probabilities or None,
        violations=parsed.violations,
        score=parsed.score,
    )


def tree_of_text(sentence: Sentence, parsed: ParsedTree, tokenized: TokenizedSentence) -> Tree:
    """Like `tree_of`, for a sentence of a text."""
    return replace(
        tree_of(sentence, parsed),
        tokens=tokenized.tokens,
        text=tokenized.text,
        sent_id=sentence.identifier,
        begins_paragraph=tokenized.begins_paragraph,
    )
