"""Fixtures for pages in a browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; without it, or without playwright, the test is skipped with a message."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on PATH")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Opened]:
    """Opens an HTML file or the page of a service. The test fails if the page writes to the console, opens a
    dialog, or requests something from elsewhere.

    address: appended to the address of the page, such as "#word=dog". refusals: error statuses of the service
    that the browser may write to the console. Further arguments are passed to the browser context, such as
    color_scheme="dark".
    """
    complaints: list[str] = []
    contexts = []

    def opened(place: Path | str, address: str = "", refusals: Sequence[int] = (), **settings: Any) -> Any:
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        base = place if isinstance(place, str) else place.resolve().as_uri()

        def watch(request: Any) -> None:
            if not request.url.startswith((base, "data:")):
                complaints.append(f"asks for {request.url}")

        def hear(message: Any) -> None:
            if not any(f"responded with a status of {status} " in message.text for status in refusals):
                complaints.append(f"console: {message.text}")

        def dismiss(dialog: Any) -> None:
            complaints.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("request", watch)
        page.on("dialog", dismiss)
        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.goto(f"{base}{address}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
