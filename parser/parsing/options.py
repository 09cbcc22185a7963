"""What can be asked of a parse. The flags of commands and the fields of requests are made from these options.

PyTorch is not imported here, so that the flags are there at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from parser.system.console import quoted
from parser.system.settings import CONTRADICTION, fault_lines

MAX_TREES = 1_000
"""Most trees of a sentence. The memory that is needed grows with them."""
Keep = Literal["given"] | None
NonProjective = Literal["refuse", "given"]


class Flag(NamedTuple):
    """The flag of an option on the command line."""

    help: str
    metavar: str | None = None


class ParseOptions(BaseModel):
    """The options of a parse, for all of its sentences. Descriptions are those in OpenAPI."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    probabilities: Annotated[bool, Flag("write the probability of each arc and its label to MISC")] = Field(
        False, description="Whether to return the probability of each arc"
    )
    alternatives: Annotated[
        int, Flag("write the K most probable heads of each word, with labels, to MISC", "K")
    ] = Field(0, ge=0, description="How many probable heads to return for each word")
    """They need a model that scores arcs."""
    trees: Annotated[
        int,
        Flag(
            "write the K best trees of each sentence, found by a beam search, as separate sentences",
            "K",
        ),
    ] = Field(1, description="How many trees to return, if there are that many")
    keep: Annotated[
        Keep, Flag("keep the heads and labels that the input contains, and predict those that are _")
    ] = Field(
        None, description="given: heads and labels in sentences and conllu stay, missing ones are predicted"
    )
    """given: heads and labels of the sentences stay; those that are `NO_HEAD` or `_` are predicted."""
    non_projective: Annotated[
        NonProjective,
        Flag(
            "what to do with a given arc that crosses others: report an error, or restore it after parsing "
            "(default: %(default)s)"
        ),
    ] = Field(
        "refuse",
        description="Whether a given arc that crosses other arcs is refused, or put back after parsing",
    )
    """given: the word of such an arc is parsed as if no head were given."""
    at_most_one: Annotated[
        tuple[str, ...],
        Flag(
            "allow a head only one dependent with each of these labels or its subtypes, such as nsubj,obj",
            "LABEL,…",
        ),
    ] = Field((), description="Labels that each head has on at most one dependent, subtypes included")
    not_root: Annotated[
        tuple[str, ...],
        Flag(
            "do not make words with these tags, such as PUNCT,DET, the root if another word can be",
            "UPOS,…",
        ),
    ] = Field((), description="UPOS tags of words that are not the root if another word can be")

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Like the constructor, but with a message for people. Raises ValueError."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise ValueError("; ".join(fault_lines(error))) from None

    @model_validator(mode="after")
    def _of_one_tree(self) -> Self:
        if not 1 <= self.trees <= MAX_TREES:
            raise _fault(f"{self.trees:,} trees of a sentence: it can have from 1 to {MAX_TREES:,}")
        if self.trees > 1 and (self.probabilities or self.alternatives):
            raise _fault(
                "probabilities of arcs and alternatives are of one tree: ask for these, or for several trees"
            )
        return self

    @property
    def needs_scorers(self) -> bool:
        """Whether the scorers of arcs are needed even if they change no trees."""
        return self.probabilities or self.alternatives > 0 or self.trees > 1

    @property
    def are_constrained(self) -> bool:
        """Whether there are conditions on the tree."""
        return bool(self.keep or self.at_most_one or self.not_root)


def _fault(why: str) -> PydanticCustomError:
    return PydanticCustomError(CONTRADICTION, "{why}", {"why": why})


TREE_ALONE = ParseOptions()


@dataclass(frozen=True)
class Constraints:
    """Conditions on trees, as an argument in Python; see docs/treebanks.md for their meaning."""

    keep: Keep = None
    non_projective: NonProjective = "refuse"
    at_most_one: tuple[str, ...] = ()
    not_root: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for unknown values, and for a string instead of several strings, because its
        letters would be taken for names."""
        if self.keep not in (None, "given"):
            raise ValueError(f"keep is {self.keep!r}; it should be 'given' or None")
        if self.non_projective not in get_args(NonProjective):
            raise ValueError(f"non_projective is {self.non_projective!r}; it should be 'given' or 'refuse'")
        for name, values in (("at_most_one", self.at_most_one), ("not_root", self.not_root)):
            if isinstance(values, str):
                raise ValueError(f"{name}: {quoted(values)} is one string; give a tuple: ({quoted(values)},)")
            if not isinstance(values, Iterable) or not all(isinstance(value, str) for value in values):
                raise ValueError(f"{name} is {values!r}; it should be a tuple of strings")
            object.__setattr__(self, name, tuple(values))  # of a list, which has no hash


UNCONSTRAINED = Constraints()
