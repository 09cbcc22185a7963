"""The kinds of tokenizers. Another one is a file in this folder, see `tokenizer.py`, and a line here."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import Discriminator, Tag

from parser.text.divided import Blanks, Lines
from parser.text.spacy_rules import Spacy
from parser.text.udpipe import UDPipe

AnyKind = (
    Annotated[UDPipe, Tag("<udpipe>")]
    | Annotated[Spacy, Tag("<spacy>")]
    | Annotated[Lines, Tag("<lines>")]
    | Annotated[Blanks, Tag("<blanks>")]
)
"""The tags are the values of `kind`, in brackets."""
KINDS = tuple(get_args(kind)[1].tag.strip("<>") for kind in get_args(AnyKind))


def _tag(settings: Any) -> str | None:
    """By which pydantic chooses the class of settings that it is given."""
    kind = settings.get("kind") if isinstance(settings, dict) else getattr(settings, "kind", None)
    return f"<{kind}>" if isinstance(kind, str) else None


AnyTokenizer = Annotated[
    AnyKind,
    Discriminator(
        _tag,
        custom_error_type="tokenizer_kind",
        custom_error_message=f"input should be {{kind: NAME}} with one of the names {', '.join(KINDS)}",
    ),
]
"""For settings: of a tokenizer of any kind."""
