"""Take the screenshots that docs/ shows: the service's page, drawn trees, a report.

It needs Chromium, the packages of `test`, and the model that `make train` trains: runs/quickstart/model.

python scripts/pictures/photograph_pages.py
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

PICTURES = Path("docs")
COLOURS = 128
"""Number of colours in a picture; the limit reduces the file to a third."""
MODEL, TREEBANK = "runs/quickstart/model", "data/quickstart/test.conllu"
SERVED = "models/english-ewt.stackparser"
TEXT = "The dogs didn't want to go home."
STACK_PARSER = (sys.executable, "-m", "parser")


def main() -> None:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        _save(_service(browser), "service.png")
        _save(_trees(browser, Path(folder)), "trees.png")
        _save(_report(browser, Path(folder)), "report.png")
        browser.close()


def _service(browser: Browser) -> bytes:
    """The page of a service with a parsed text, as PNG."""
    command = [*STACK_PARSER, "serve", f"english-ewt={SERVED}", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr
            page = browser.new_page(viewport={"width": 900, "height": 900})
            page.goto(json.loads(service.stderr.readline())["url"])
            page.locator("#text").fill(TEXT)
            page.locator("#parse").click()
            page.locator("#status", has_text="sentence").wait_for()
            page.locator(".tree-box svg").first.wait_for()
            page.locator(".words table").wait_for()
            return page.screenshot(full_page=True)
        finally:
            service.terminate()


def _trees(browser: Browser, folder: Path) -> bytes:
    """The trees with the most errors, next to gold trees, as PNG."""
    parsed, drawn = folder / "parsed.conllu", folder / "trees.html"
    _run("parse", MODEL, TREEBANK, "-o", parsed)
    _run("draw", parsed, "--gold", TREEBANK, "-o", drawn)
    page = browser.new_page(viewport={"width": 1200, "height": 700})
    page.goto(f"{drawn.as_uri()}#error=any&sort=errors")
    page.locator(".tree-box svg").first.wait_for()
    return page.screenshot()


def _report(browser: Browser, folder: Path) -> bytes:
    """The first part of a report, as PNG."""
    written = folder / "report.html"
    _run("evaluate", MODEL, TREEBANK, "--report", written)
    page = browser.new_page(viewport={"width": 1100, "height": 1250})
    page.goto(written.as_uri())
    return page.screenshot()


def _run(*arguments: str | Path) -> None:
    subprocess.run([*STACK_PARSER, *arguments], check=True)


def _save(picture: bytes, name: str) -> None:
    Image.open(BytesIO(picture)).convert("RGB").quantize(COLOURS).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    main()
