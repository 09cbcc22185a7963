"""The base class of all settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

Count = Annotated[int, Field(gt=0, le=1_000_000_000)]
CONTRADICTION = "contradiction"
"""The type of pydantic's errors for settings that exclude each other."""


class Settings(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_a_path(cls, value: Any) -> Any:
        texts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise ValueError("no string may hold NUL")
        return value


def contradiction_error(faults: Iterable[tuple[str, str]]) -> ValidationError:
    """Return an error for a model's validator, with a key for each fault. faults: keys and reasons."""
    return ValidationError.from_exception_data(
        "settings",
        [
            InitErrorDetails(
                type=PydanticCustomError(CONTRADICTION, "{why}", {"why": why}),
                loc=tuple(key.split(".")),
                input=None,
            )
            for key, why in faults
        ],
    )
