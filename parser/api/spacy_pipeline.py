"""A spaCy pipeline with the words, sentences and trees of a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from parser.system.version import to_install

if TYPE_CHECKING:
    from spacy.language import Language


def spacy_pipeline(model: str | os.PathLike[str], language: str = "xx", **config: Any) -> Language:
    """Return a spaCy pipeline with the same words, sentences and trees as `Parser.parse_text`.

    model: folder, file or name of a model. language: the language's name in spaCy; `xx` is no particular
    language. config: settings of the component `stack_parser`, such as the device. Raises ImportError without
    spaCy, and ValueError if the model cannot be loaded or has no tokenizer.
    """
    with naming_missing("a pipeline of spaCy"):
        import spacy

        from parser.api.spacy_factory import TOKENIZER

    path = os.fspath(model)
    nlp = spacy.blank(language, config={"nlp": {"tokenizer": {"@tokenizers": TOKENIZER, "model": path}}})
    component = nlp.add_pipe("stack_parser", config={"model": path, **config})
    parts: tuple[Any, ...] = nlp.tokenizer, component
    for part in parts:
        part.ready()
    return nlp


@contextmanager
def naming_missing(part: str) -> Iterator[None]:
    """Raises ImportError if a package is missing; the message says what needs it and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{part} needs {error.name}, which is not installed for this Python: {to_install('spacy')}"
        ) from error
