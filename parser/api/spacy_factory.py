"""Tells spaCy of the component `stack_parser`. spaCy imports this module in every program; nothing else does.

Also spaCy of another environment does, if it is started in a folder with this package and its `.egg-info`:
what the component needs is imported when one is made.
"""

from __future__ import annotations

from spacy.language import Language
from spacy.pipeline import Pipe

from parser.parsing import BATCH_SIZE


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
) -> Pipe:
    """See `SpacyComponent`. Raises ImportError if what it needs is not installed."""
    try:
        from parser.api.spacy_component import SpacyComponent
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the component {name} needs {error.name}, which is not installed for this Python: "
            "pip install -e '.[spacy]' in the project's folder"
        ) from error
    return SpacyComponent(name, model, device, batch_size, overwrite, treebank)
