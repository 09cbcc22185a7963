"""Tells spaCy of the component `stack_parser` and of the tokenizer; spaCy imports this in every program.

Also spaCy of another environment does, if it is started in a folder with this package and its `.egg-info`:
what they need is imported when one is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from spacy import registry
from spacy.language import Language
from spacy.pipeline import Pipe

from parser.parsing import BATCH_SIZE

if TYPE_CHECKING:
    from parser.api.spacy_tokenizer import PipelineTokenizer

TOKENIZER = "stack_parser.Tokenizer.v1"


@Language.factory(
    "stack_parser",
    assigns=[
        *("token.dep", "token.head", "token.is_sent_start", "doc.sents"),
        *("token.pos", "token.tag", "token.morph", "token.lemma"),
    ],
    default_config={
        "model": None,
        "device": "auto",
        "batch_size": BATCH_SIZE,
        "overwrite": False,
        "treebank": None,
        "keep": None,
    },
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
    """See `SpacyComponent`. Raises ImportError if what it needs is not installed."""
    with _naming(f"the component {name}"):
        from parser.api.spacy_component import SpacyComponent
    return SpacyComponent(name, model, device, batch_size, overwrite, treebank, keep)


@registry.tokenizers(TOKENIZER)
def make_tokenizer(model: str | None = None) -> Callable[[Language], PipelineTokenizer]:
    """See `PipelineTokenizer`. Raises ImportError if what it needs is not installed."""

    def make(nlp: Language) -> PipelineTokenizer:
        with _naming(f"the tokenizer {TOKENIZER}"):
            from parser.api.spacy_tokenizer import PipelineTokenizer
        return PipelineTokenizer(nlp.vocab, model)

    return make


@contextmanager
def _naming(part: str) -> Iterator[None]:
    """Says of a missing package what needs it, and how it gets there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{part} needs {error.name}, which is not installed for this Python: "
            "pip install -e '.[spacy]' in the project's folder"
        ) from error


if TYPE_CHECKING:
    from spacy.language import Language


def spacy_pipeline(model: str | os.PathLike[str], language: str = "xx", **config: Any) -> Language:
    """A pipeline whose words, sentences and trees are those of `Parser.parse_text`.

    model: a folder or a package. language: as spaCy names it; `xx` is none in particular. config: of the
    component `stack_parser`, such as the device. Raises ImportError without spaCy, and ValueError if the
    model can not be loaded or has no tokenizer.
    """
    import spacy

    path = os.fspath(model)
    nlp = spacy.blank(language, config={"nlp": {"tokenizer": {"@tokenizers": TOKENIZER, "model": path}}})
    component = nlp.add_pipe("stack_parser", config={"model": path, **config})
    parts: tuple[Any, ...] = nlp.tokenizer, component
    for part in parts:
        part.ready()
    return nlp
