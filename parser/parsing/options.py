"""What can be asked of a parse. The flags of commands and the fields of requests are made from these options.

Neither PyTorch nor pydantic is imported here, so that the flags are there at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from parser.system.console import quoted

MAX_TREES = 1_000
"""Most trees of a sentence. The memory that is needed grows with them."""
Keep = Literal["given"] | None
NonProjective = Literal["refuse", "given"]
LearnedOrNone = Literal["learned", "none"]


def _told(description: str, flag: str, metavar: str | None = None) -> dict[str, str | None]:
    """What is told of an option. description: in OpenAPI. flag, metavar: in the help of its flag."""
    return {"description": description, "flag": flag, "metavar": metavar}


@dataclass(frozen=True)
class ParseOptions:
    """The options of a parse, for all of its sentences."""

    probabilities: bool = field(
        default=False,
        metadata=_told(
            "Whether to return the probability of each arc, and of each predicted tag and lemma",
            "write the probabilities of each arc with its label, and of predicted tags and lemmas, to MISC",
        ),
    )
    alternatives: int = field(
        default=0,
        metadata=_told(
            "How many probable heads to return for each word",
            "write the K most probable heads of each word, with labels, to MISC",
            "K",
        ),
    )
    """They need a model that scores arcs."""
    trees: int = field(
        default=1,
        metadata=_told(
            "How many trees to return, if there are that many",
            "write the K best trees of each sentence, found by a beam search, as separate sentences",
            "K",
        ),
    )
    keep: Keep = field(
        default=None,
        metadata=_told(
            "given: heads and labels in sentences and conllu stay, missing ones are predicted",
            "keep the heads and labels that the input contains, and predict those that are _",
        ),
    )
    """given: heads and labels of the sentences stay; those that are `NO_HEAD` or `_` are predicted."""
    non_projective: NonProjective = field(
        default="refuse",
        metadata=_told(
            "Whether a given arc that crosses other arcs is refused, or put back after parsing",
            "what to do with a given arc that crosses others: report an error, or restore it after parsing "
            "(default: %(default)s)",
        ),
    )
    """given: the word of such an arc is parsed as if no head were given."""
    at_most_one: tuple[str, ...] = field(
        default=(),
        metadata=_told(
            "Labels that each head has on at most one dependent, subtypes included",
            "allow a head only one dependent with each of these labels or its subtypes, such as nsubj,obj",
            "LABEL,…",
        ),
    )
    not_root: tuple[str, ...] = field(
        default=(),
        metadata=_told(
            "UPOS tags of words that are not the root if another word can be",
            "do not make words with these tags, such as PUNCT,DET, the root if another word can be",
            "UPOS,…",
        ),
    )

    constraints: LearnedOrNone = field(
        default="learned",
        metadata=_told(
            "learned: trees that have what those of train never have are changed, where possible",
            "learned: a tree that has what those of train never have, such as two subjects of one head, is "
            "changed where possible, if the model has learned that; several trees stay (default: "
            "%(default)s)",
        ),
    )

    def __post_init__(self) -> None:
        """Raises ValueError for impossible values and combinations."""
        if not 1 <= self.trees <= MAX_TREES:
            raise ValueError(f"{self.trees:,} trees of a sentence: it can have from 1 to {MAX_TREES:,}")
        if self.trees > 1 and (self.probabilities or self.alternatives):
            raise ValueError(
                "probabilities of arcs and alternatives are of one tree: ask for these, or for several trees"
            )
        for name in ("at_most_one", "not_root"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # of a list, which has no hash

    @property
    def needs_scorers(self) -> bool:
        """Whether the scorers of arcs are needed even if they change no trees."""
        return self.probabilities or self.alternatives > 0 or self.trees > 1

    @property
    def are_constrained(self) -> bool:
        """Whether there are conditions on the tree."""
        return bool(self.keep or self.at_most_one or self.not_root)


TREE_ALONE = ParseOptions()


@dataclass(frozen=True)
class Constraints:
    """Conditions on trees, as an argument in Python; see docs/treebanks.md for their meaning."""

    keep: Keep = None
    non_projective: NonProjective = "refuse"
    at_most_one: tuple[str, ...] = ()
    not_root: tuple[str, ...] = ()
    learned: bool = True
    """Whether trees that break constraints which the model has learned from train are changed."""

    def __post_init__(self) -> None:
        """Raises ValueError for unknown values, and for a string instead of several strings, because its
        letters would be taken for names."""
        if self.keep not in (None, "given"):
            raise ValueError(f"keep is {self.keep!r}; it should be 'given' or None")
        if self.non_projective not in get_args(NonProjective):
            raise ValueError(f"non_projective is {self.non_projective!r}; it should be 'given' or 'refuse'")
        if not isinstance(self.learned, bool):
            raise ValueError(f"learned is {self.learned!r}; it should be True or False")
        for name, values in (("at_most_one", self.at_most_one), ("not_root", self.not_root)):
            if isinstance(values, str):
                raise ValueError(f"{name}: {quoted(values)} is one string; give a tuple: ({quoted(values)},)")
            if not isinstance(values, Iterable) or not all(isinstance(value, str) for value in values):
                raise ValueError(f"{name} is {values!r}; it should be a tuple of strings")
            object.__setattr__(self, name, tuple(values))  # of a list, which has no hash


UNCONSTRAINED = Constraints()


def as_options(constraints: Constraints) -> dict[str, Any]:
    """The fields of `ParseOptions` with these constraints."""
    values = dict(vars(constraints))
    return values | {"constraints": "learned" if values.pop("learned") else "none"}
