"""Sentences of the package conllu, which are parsed and returned with their trees."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from conllu import Token, TokenList
from conllu.parser import DEFAULT_FIELDS, parse_dict_value
from conllu.serializer import serialize_field

from parser.api.tree import TAGS, Tree
from parser.treebank.conllu_output import ARC_PROBABILITY, MARKS, VIOLATION


def columns_of(tokens: TokenList, keep: bool) -> dict[str, list[Any]]:
    """Return the words, without multiword tokens and empty nodes, and their tags. Raises ValueError.

    keep: whether to return heads and labels, too.
    """
    words = _words(tokens)
    for number, word in enumerate(words, 1):
        if word.get("id") != number:
            raise ValueError(f"token {word}: ID is {word.get('id')!r}; expected {number}")
    tags = {name: [_text(word.get(column)) for word in words] for name, column in TAGS.items()}
    tree: dict[str, list[Any]] = {}
    if keep:
        tree = {
            "heads": [word.get("head") for word in words],
            "labels": [word.get("deprel") for word in words],
        }
    return {"words": [word.get("form") for word in words], **tags, **tree}


def with_tree(tokens: TokenList, tree: Tree) -> TokenList:
    """Return a copy with the tree, and with predicted tags for words without tags.

    Probabilities and violations are written to MISC, and replace those of an earlier tree.

    Tokens get the columns of CoNLL-U that they lack. If they were read from a file with other columns, they
    get the columns of that file. Raises ValueError if the file has no columns for trees.
    """
    found = deepcopy(tokens)
    columns = dict.fromkeys(found.default_fields or DEFAULT_FIELDS)
    if not columns.keys() >= {"head", "deprel"}:
        raise ValueError("the file has no columns HEAD and DEPREL, into which the tree could be put")
    found[:] = [Token({**columns, **token}) for token in found]
    for place, word in enumerate(_words(found)):
        if misc := word.get("misc"):
            pairs = (parse_dict_value(misc) if isinstance(misc, str) else misc) or {}
            word["misc"] = {key: value for key, value in pairs.items() if key not in MARKS} or None
        word["head"], word["deprel"] = tree.heads[place], tree.labels[place]
        for name, column in TAGS.items():
            values = getattr(tree, name)
            if values and column in word and values[place] != _text(word[column]):
                word[column] = parse_dict_value(values[place]) if column == "feats" else values[place]
        if tree.probabilities and "misc" in word:
            word["misc"] = {**(word["misc"] or {}), ARC_PROBABILITY: f"{tree.probabilities[place]:.4f}"}
        if tree.violations and tree.violations[place] and "misc" in word:
            word["misc"] = {**(word["misc"] or {}), VIOLATION: tree.violations[place]}
    return found


def _words(tokens: TokenList) -> list[Token]:
    return [token for token in tokens if not isinstance(token.get("id"), tuple)]


def _text(value: Any) -> Any:
    """The value of a column as it is written in a file."""
    return serialize_field(value) if value is None or isinstance(value, dict) else value
