r"""Take a screenshot of a service's page with a parsed text; needs Chromium and the packages of `test`.

python scripts/pictures/photograph_service.py english=runs/ud-untagged/model \
    "The dogs didn't want to go home." docs/service.png
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH = 900
"""Width of the picture, in pixels."""
COLOURS = 128
"""Number of colours in the picture; the limit reduces the file to a third."""


def main(model: str, text: str, path: str) -> None:
    command = [sys.executable, "-m", "parser", "serve", model, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr
            url = json.loads(service.stderr.readline())["url"]
            picture = Image.open(BytesIO(_photograph(url, text)))
        finally:
            service.terminate()
    picture.convert("RGB").quantize(COLOURS).save(Path(path), optimize=True)


def _photograph(url: str, text: str) -> bytes:
    """The screenshot as PNG."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": WIDTH})
        page.goto(url)
        page.locator("#text").fill(text)
        page.locator("#parse").click()
        page.locator("#status", has_text="sentence").wait_for()
        page.locator(".tree-box svg").first.wait_for()
        page.locator(".words table").wait_for()
        content = page.screenshot(full_page=True)
        browser.close()
    return content


if __name__ == "__main__":
    main(*sys.argv[1:])
