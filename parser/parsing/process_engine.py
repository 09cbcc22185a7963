"""One engine for each process that uses a model."""

from __future__ import annotations

import os
from typing import Any

from parser.models.model import Model
from parser.parsing import BATCH_SIZE
from parser.parsing.engine import Engine


class ProcessEngine:
    """The engine of a model in the current process. Pickling copies only the model.

    A forked process gets a new engine: another thread may have computed in the old one during the fork.
    """

    def __init__(self, model: Model, batch_size: int = BATCH_SIZE):
        self._model, self._batch_size = model, batch_size
        self._engines: dict[int, Engine] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessEngine, (self._model, self._batch_size)

    @property
    def engine(self) -> Engine:
        process = os.getpid()
        if process not in self._engines:
            self._engines = {process: Engine(self._model, self._batch_size)}
        return self._engines[process]
