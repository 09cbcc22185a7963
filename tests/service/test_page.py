"""What a browser gets, even without a token: the page, its files, and the policy that applies to them."""

import re

import pytest
from services import serving

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module", params=[False, True], ids=["open", "with tokens"])
def served(request, model, tmp_path_factory):
    """Services without and with tokens, which the page does not need."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(TOKEN)
    with serving(model, *(["--token-file", tokens] if request.param else [])) as service:
        yield service


def test_the_page_and_its_files(served):
    page = httpx.get(served.url)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r'(?:src|href)="(page/[^"]+)"', page.text)
    assert len(named) > 8
    files = [httpx.get(f"{served.url}/{name}") for name in named]
    for name, file in zip(named, files, strict=True):
        kind = "javascript" if name.endswith(".js") else "css"
        assert file.headers["content-type"] == f"text/{kind}; charset=utf-8"
    for answer in (page, *files):
        assert answer.status_code == 200
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        ours = {"script-src", "style-src", "connect-src"}
        assert {name for name, sources in policy.items() if sources == "'self'"} == ours
        assert policy.pop("img-src") == "data:"
        none = {"default-src", "base-uri", "form-action", "frame-ancestors"}
        assert {name for name, sources in policy.items() if sources == "'none'"} == none
        assert policy.keys() == ours | none
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"<style|style=|<script>|\son\w+=|https?:", page.text)


@pytest.mark.parametrize("name", ["service_page.py", "service_page.html", "..%2Fcli.py", "x.js"])
def test_other_files_are_not_given(name, served):
    assert httpx.get(f"{served.url}/page/{name}").status_code == 404
