"""A spaCy pipeline with the words, sentences and trees of a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from parser.system.version import naming_missing

if TYPE_CHECKING:
    from spacy.language import Language


def spacy_pipeline(model: str | os.PathLike[str], language: str = "xx", **config: Any) -> Language:
    """Return a spaCy pipeline with the same words, sentences and trees as `Parser.parse_text`.

    model: folder, file or name of a model. language: the language's name in spaCy; `xx` is no particular
    language. config: settings of the component `stack_parser`, such as the device. Raises ImportError without
    spaCy, and ValueError if the model cannot be loaded or has no tokenizer.
    """
    with naming_missing("a pipeline of spaCy", "spacy"):
        import spacy

        from parser.api.spacy_factory import TOKENIZER

    path = os.fspath(model)
    nlp = spacy.blank(language, config={"nlp": {"tokenizer": {"@tokenizers": TOKENIZER, "model": path}}})
    component = nlp.add_pipe("stack_parser", config={"model": path, **config})
    parts: tuple[Any, ...] = nlp.tokenizer, component
    for part in parts:
        part.ready()
    return nlp
