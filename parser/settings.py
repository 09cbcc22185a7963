"""What all settings have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator


class Settings(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_a_path(cls, value: Any) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("no string may hold NUL")
        return value
