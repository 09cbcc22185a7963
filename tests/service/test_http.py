"""What HTTP itself asks of the service, whatever the protocol, and the page that a browser gets."""

import gzip
import json
import re
import socket

import pytest
from services import TEXT, serving
from small_servers import everything_from

httpx = pytest.importorskip("httpx")
FORM, JSON = "application/x-www-form-urlencoded", "application/json"


def asked(service, request):
    """The status and the text of the answer to a request of these lines."""
    with socket.create_connection(("127.0.0.1", service.port)) as client:
        client.sendall("\r\n".join([*request, "Connection: close", "", ""]).encode())
        head, _, text = everything_from(client).partition(b"\r\n\r\n")
        return int(head.split()[1]), text.decode()


def paths_of(service):
    described = httpx.get(f"{service.url}/openapi.json").json()["paths"]
    typed = {path for path, methods in described.items() if "get" in methods}
    parsing = {"/models", "/process", "/process?data=A.&tokenizer=&parser="}
    return typed | parsing | {"/", "/docs", "/openapi.json"}


def test_head_is_answered_like_get_without_content(service):
    paths = paths_of(service)
    assert {"/live", "/ready", "/metrics"} < paths
    for path in paths:
        get, head = (httpx.request(method, f"{service.url}{path}") for method in ("GET", "HEAD"))
        assert head.status_code == get.status_code, path
        assert head.content == b""
        for name in ("content-type", "content-security-policy"):
            assert head.headers.get(name) == get.headers.get(name)
        if path != "/metrics":  # whose length changes
            assert head.headers.get("content-length") == get.headers.get("content-length")
    assert httpx.head(f"{service.url}/v1/parse").status_code == 405


@pytest.mark.parametrize("host", ["http://example.org", "HTTP://example.org:80", "https://example.org"])
def test_a_target_may_name_a_host(host, service):
    for target in ("/live", "/%6Cive?http://a/b"):
        assert asked(service, [f"GET {host}{target} HTTP/1.1", "Host: another"]) == (200, "live")
    status, page = asked(service, [f"GET {host} HTTP/1.1", "Host: a"])
    assert (status, page) == (200, httpx.get(service.url).text)
    assert asked(service, [f"GET {host}/nowhere HTTP/1.1", "Host: a"])[0] == 404
    query = "data=A%20b.&input=horizontal&parser=&model=words"
    status, answer = asked(service, [f"GET {host}/process?{query} HTTP/1.1", "Host: a"])
    assert (status, json.loads(answer)["model"]) == (200, "words")


def test_encoded_bodies_are_refused(service):
    bodies = {
        "/v1/parse": (JSON, json.dumps({"texts": [TEXT]})),
        "/process": (FORM, "data=A.&tokenizer=&parser="),
    }
    for path, (kind, body) in bodies.items():
        for coding in ("gzip", "br", "Identity, GZIP"):
            headers = {"Content-Type": kind, "Content-Encoding": coding}
            answer = httpx.post(f"{service.url}{path}", content=gzip.compress(body.encode()), headers=headers)
            assert answer.status_code == 415
            assert answer.headers["accept-encoding"] == "identity"
            told = answer.json()["detail"] if path == "/v1/parse" else answer.text
            known = coding.rpartition(" ")[2].lower()
            assert told.rstrip() == f"the body has the Content-Encoding {known}; send it without one"
        for coding in ("identity", ""):
            headers = {"Content-Type": kind, "Content-Encoding": coding}
            assert httpx.post(f"{service.url}{path}", content=body, headers=headers).status_code == 200


@pytest.fixture(scope="module", params=[False, True], ids=["open", "with tokens"])
def served(request, model, tmp_path_factory):
    """Services without and with tokens, which the page does not need."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text("0123456789abcdef")
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
