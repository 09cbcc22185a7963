"""Registers the component `stack_parser` and the tokenizer in spaCy, which imports this in every program.

The spaCy of another environment also imports it, if it is started in a folder with this package and its
`.egg-info`. What they need is therefore imported only when one of them is created."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from spacy import registry
from spacy.language import Language
from spacy.pipeline import Pipe

from parser.parsing import BATCH_SIZE
from parser.system.version import naming_missing

if TYPE_CHECKING:
    from parser.api.spacy_component import PipelineTokenizer

TOKENIZER = "stack_parser.Tokenizer.v1"


class ComponentSettings(NamedTuple):
    """The settings of the component in a pipeline's config, without the model."""

    device: str = "auto"
    batch_size: int = BATCH_SIZE
    """The number of sentences parsed at the same time."""
    overwrite: bool = False
    """Whether tags and lemmas of earlier components are replaced."""
    treebank: str | None = None
    """The treebank whose annotation a model follows, if it was trained on several."""
    keep: Literal["given"] | None = None
    """Whether heads and labels in the documents stay, see `spacy_component`."""


@Language.factory(
    "stack_parser",
    assigns=[
        *("token.dep", "token.head", "token.is_sent_start", "doc.sents"),
        *("token.pos", "token.tag", "token.morph", "token.lemma"),
    ],
    default_config={"model": None, **ComponentSettings()._asdict()},
    default_score_weights={"dep_uas": 0.5, "dep_las": 0.5, "dep_las_per_type": None, "sents_f": 0.0},
)
def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    device: str,
    batch_size: int,
    overwrite: bool,
    treebank: str | None,
    keep: Literal["given"] | None,
) -> Pipe:
    """Create a `SpacyComponent`. Raises ImportError if a package that it needs is not installed."""
    with naming_missing(f"the component {name}", "spacy"):
        from parser.api.spacy_component import SpacyComponent
    settings = ComponentSettings(device, batch_size, overwrite, treebank, keep)
    return SpacyComponent(name, model, settings)


@registry.tokenizers(TOKENIZER)
def make_tokenizer(model: str | None = None) -> Callable[[Language], PipelineTokenizer]:
    """Return a function that creates a `PipelineTokenizer`.

    The function raises ImportError if a package that it needs is not installed.
    """

    def make(nlp: Language) -> PipelineTokenizer:
        with naming_missing(f"the tokenizer {TOKENIZER}", "spacy"):
            from parser.api.spacy_component import PipelineTokenizer
        return PipelineTokenizer(nlp.vocab, model)

    return make
