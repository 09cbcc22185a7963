"""What users are told when a command fails."""

from __future__ import annotations

WHAT_NEEDS_LESS = (
    "training needs less with a lower training.batch_size, training.max_batch_words, or sizes in "
    "parser.network; parsing with a lower --batch-size"
)


def message_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return f"writing the output: {error.strerror}"
    return str(error)
