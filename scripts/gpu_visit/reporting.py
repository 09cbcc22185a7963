"""How a stage tells its results: as lines of its output, so that they stay if it is killed."""

from __future__ import annotations

import json
from typing import Any

RESULT = "RESULT "
"""What the line of a result starts with."""


def report(**result: Any) -> None:
    """Print a result, in JSON types."""
    print(f"\n{RESULT}{json.dumps(result, ensure_ascii=False)}", flush=True)
