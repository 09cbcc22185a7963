"""The log: one line per event, in JSON, or in plain words if standard error is a terminal."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from parser.system.console import warn

QUIET = "python_multipart", "uvicorn.access"
"""Loggers of libraries that quote requests."""


class _Lines(logging.Handler):
    """Writes each event as a line. A full disk or a closed terminal does not fail a request."""

    def __init__(self, as_json: bool):
        super().__init__(logging.INFO)
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        told: dict[str, Any] = getattr(record, "told", {})
        event = record.getMessage()
        if self._as_json:
            time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            line = json.dumps({"time": time, "level": record.levelname.lower(), "event": event, **told})
        else:
            line = " ".join([event, *(f"{name}={value}" for name, value in told.items())])
        with suppress(OSError):
            warn(line)


def service_logger() -> logging.Logger:
    """Return the log of this service. The warnings of libraries are written to it, too."""
    handler = _Lines(as_json=not (sys.stderr and sys.stderr.isatty()))
    logger = logging.Logger("service", logging.INFO)  # not in the hierarchy, so that there can be several
    logger.addHandler(handler)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return logger


def tell(logger: logging.Logger, event: str, **told: Any) -> None:
    """Log an event. `Logger.info` would take twice as long, as it searches the stack for its caller."""
    if logger.isEnabledFor(logging.INFO):
        record = logging.LogRecord(logger.name, logging.INFO, "", 0, event, None, None)
        record.told = told
        logger.handle(record)
