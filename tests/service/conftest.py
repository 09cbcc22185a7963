"""A service and its model, shared by all tests that do not change the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from services import RunningService


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with a tokenizer."""
    from services import make_model

    return make_model(tmp_path_factory.mktemp("served") / "tiny")


@pytest.fixture(scope="session")
def service(model: Path) -> Iterator[RunningService]:
    """A service of that model, named `en-tiny-2.5`, and of one without a tokenizer, named `words`."""
    from services import serving

    with serving(f"en-tiny-2.5={model}", "words=tests/model", "--cors", "https://example.org") as running:
        yield running
