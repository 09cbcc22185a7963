"""Limits, health, metrics, the log, tokens, other origins, and what the command refuses."""

import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest
from services import TEXT, broken_off, serving
from small_servers import everything_from

import parser
from parser.api.sentences import sentence_of
from parser.cli import main
from parser.commands.serve import load_service
from parser.commands.serve_settings import options_of, settle
from parser.models.model_files import digest_of
from parser.parsing.options import ParseOptions
from parser.parsing.running import HostRunner

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")
read_tokens = pytest.importorskip("parser.service.middleware").read_tokens

LONG = "It was round. " * 6_000
"""A text that takes seconds."""


@pytest.fixture(scope="module")
def limited(model):
    limits = {"bytes": 2000, "words": 100, "sentence-words": 20}
    options = [f"--max-{name}={limit}" for name, limit in limits.items()]
    with serving(model, *options, "--timeout=2") as service:
        yield service


@pytest.mark.parametrize("path", ["v1/parse", "process"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x" * 2_000, "the request has more than 2,000 bytes"),
        ("It was round. " * 26, "the request has more than 100 words"),
        ("It was round. " + "it was " * 11, "sentence 2 has"),
    ],
)
def test_too_much_is_refused(text, told, path, limited):
    form = {"data": text, "tokenizer": "", "parser": ""}
    body = {"json": {"texts": [text]}} if path == "v1/parse" else {"data": form}
    answer = httpx.post(f"{limited.url}/{path}", **body)
    assert (answer.status_code, told in answer.text) == (413, True)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_any_body_is_counted(method, limited):
    content = {"GET": b"x" * 3_000, "POST": iter([b"data=", *[b"x" * 100] * 30])}  # the other has no length
    query = "?data=A.&tokenizer=&parser=" if method == "GET" else ""
    assert httpx.request(method, f"{limited.url}/process{query}", content=content[method]).status_code == 413


LINES = "one-sentence-per-line"


def as_words(form, blank):
    return {"data": {"data": f"word{blank}" * 60_000, "input": form, "parser": ""}}


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("v1/parse", {"json": {"sentences": [{"words": ["a" * 1_001]}]}}, 413, "a word of 1,001 characters"),
        ("v1/parse", {"json": {"texts": ["A.", "a" * 20_001]}}, 400, "text 2 has more than 20,000 char"),
        ("process", as_words("horizontal", " "), 413, "a sentence has more than 65,536 char"),
        ("process", as_words("vertical", "\n"), 413, "a sentence has more than 65,536 char"),
        ("v1/parse", {"json": {"texts": ["a " * 10_001], "text_format": LINES}}, 400, "without a line end"),
    ],
    ids=["word", "text", "horizontal", "vertical", "line"],
)
def test_what_would_keep_all_others_waiting_is_refused(path, body, status, told, service):
    answer = httpx.post(f"{service.url}/{path}", **body)
    assert (answer.status_code, told in answer.text) == (status, True)


def test_of_many_faults_the_first_is_told(service):
    for wrong in ({"texts": [1] * 100_000}, {"sentences": [{"words": []}] * 100_000}):
        answer = httpx.post(f"{service.url}/v1/parse", json=wrong, timeout=60)
        assert answer.status_code == 422
        assert ".0" in answer.json()["detail"]
        assert ";" not in answer.json()["detail"]


def test_no_path_leads_to_another_one(service):
    assert httpx.get(f"{service.url}/models/").status_code == 404


def test_a_body_that_does_not_come_is_not_waited_for(limited):
    with socket.create_connection(("127.0.0.1", limited.port)) as slow:
        slow.sendall(b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\ndata=")
        slow.settimeout(30)
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")


@pytest.mark.extended
def test_too_many_requests_are_told_to_come_again(model):
    forms = {"/v1/parse": "application/json", "/process": "application/x-www-form-urlencoded"}
    with serving(model, "--max-requests=1") as service, ThreadPoolExecutor(1) as pool:
        long = pool.submit(httpx.post, f"{service.url}/v1/parse", json={"texts": [LONG]}, timeout=120)
        service.wait_for_requests(1)
        answer = httpx.post(f"{service.url}/v1/parse", json={"texts": [TEXT]})
        while answer.status_code != 429 and not long.done():
            answer = httpx.post(f"{service.url}/v1/parse", json={"texts": [TEXT]})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert service.metrics()['stack_parser_refused_requests_total{reason="requests"}'] > 0
        assert "try again later" in answer.json()["detail"]
        for path, kind in forms.items():  # before the body, which never comes
            if not long.done():
                headers = f"Host: x\r\nContent-Type: {kind}\r\nContent-Length: 1000000\r\n\r\n"
                with socket.create_connection(("127.0.0.1", service.port), timeout=60) as sending:
                    sending.sendall(f"POST {path} HTTP/1.1\r\n{headers}".encode())
                    assert sending.recv(1000).startswith(b"HTTP/1.1 429 ")
        assert httpx.get(f"{service.url}/ready").status_code == 200
        assert len(long.result().json()["sentences"]) == 6_000
        assert httpx.post(f"{service.url}/v1/parse", json={"texts": [TEXT]}).status_code == 200


@pytest.mark.extended
def test_what_takes_too_long_is_broken_off(model):
    """A client that got a part of the answer notices that it is incomplete, and is told why."""
    with serving(model, "--timeout=1", "--max-sentence-words=300000") as service:
        url, lines = f"{service.url}/v1/parse", {"Accept": "application/x-ndjson"}
        with httpx.stream("POST", url, json={"texts": [LONG * 10]}, headers=lines, timeout=60) as answer:
            last = broken_off(answer.iter_bytes()).splitlines()[-1]
        told = "not done within 1 seconds; send less at a time, or try again later"
        assert json.loads(last) == {"detail": told, "status": 503}
        answer = httpx.post(url, json={"sentences": [{"words": ["dog"] * 300_000}]}, timeout=60)
        assert answer.status_code == 503
        assert "not done within 1 seconds" in answer.json()["detail"]
        ended = [service.next("request") for _ in range(2)]
    assert [(one["status"], one["outcome"]) for one in ended] == [(200, "broken off"), (503, "broken off")]


@pytest.mark.extended
def test_an_answer_that_is_not_read_does_not_keep_the_service_from_stopping(model):
    with serving(model, "--timeout=5", "--grace=600") as service, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", service.port))
        body = urlencode({"data": ("dog " * 100 + "\n") * 2_000, "input": "horizontal"}).encode()
        kind = "Content-Type: application/x-www-form-urlencoded"
        head = f"POST /process HTTP/1.1\r\nHost: a\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        told = service.next("request")
        assert (told["status"], told["outcome"]) == (200, "broken off")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(timeout=60) == 0


def status_of_broken_off(waiting):
    """503 for a request that was told why, 200 for one whose answer had begun."""
    try:
        answer = waiting.result()
    except httpx.RemoteProtocolError:
        return 200
    told = "the service is being stopped"
    assert answer.headers["retry-after"] == "1"
    assert answer.text == f"{told}\n" or answer.json() == {"detail": told}
    return answer.status_code


@pytest.mark.extended
@pytest.mark.parametrize(("signals", "grace"), [(2, 600), (1, 1)], ids=["second signal", "end of grace"])
def test_running_requests_are_broken_off_in_order(signals, grace, model):
    """Those whose answer has not begun are told why, and the log shows no fault of the program."""
    text = LONG * 30
    with (
        serving(model, f"--grace={grace}") as service,
        ThreadPoolExecutor(2) as pool,
        httpx.Client(base_url=service.url, timeout=120) as client,
    ):
        lines = {"Accept": "application/x-ndjson"}
        waiting = [
            pool.submit(client.post, "/v1/parse", json={"texts": [text]}),
            pool.submit(client.post, "/process", data={"data": text, "tokenizer": "", "parser": ""}),
        ]
        with client.stream("POST", "/v1/parse", json={"texts": [text]}, headers=lines) as begun:
            received = begun.iter_bytes()
            next(received)
            service.wait_for_requests(3)
            for _ in range(signals):
                service.process.send_signal(signal.SIGTERM)
                service.next("stopping")
            last = json.loads(broken_off(received).splitlines()[-1])
        assert last == {"detail": "the service is being stopped", "status": 503}
        statuses = [200, *map(status_of_broken_off, waiting)]
        assert service.process.wait(timeout=60) == 0
        log = list(iter(service.lines.get, {"event": "ended"}))
    requests = [(line["status"], line["outcome"]) for line in log if line["event"] == "request"]
    assert sorted(requests) == [(status, "broken off") for status in sorted(statuses)]
    assert not [line for line in log if re.search("Traceback|Exception|other", line["event"])]


def test_health_and_metrics(service):
    assert httpx.get(f"{service.url}/live").text == "live"
    assert httpx.get(f"{service.url}/ready").text == "ready"
    before = service.metrics()
    service.process_text(data="a b c\nd\n", input="horizontal", parser="", model="words")
    after = service.metrics()
    grown = {name: value - before.get(name, 0.0) for name, value in after.items()}
    assert grown['stack_parser_words_total{model="words"}'] == 4
    assert grown['stack_parser_sentences_total{model="words"}'] == 2
    assert grown['stack_parser_first_tree_seconds_count{model="words"}'] == 1
    assert grown['stack_parser_batch_sentences_total{model="words"}'] == 2
    assert 1 <= grown['stack_parser_batches_total{model="words"}'] <= 2
    assert after['stack_parser_batch_size{model="words"}'] == 32
    assert after["stack_parser_loop_lag_seconds_count"] > before["stack_parser_loop_lag_seconds_count"] - 1
    batch, waiting = 'batch_fill{model="words"}', 'waiting_words{model="en-tiny-2.5"}'
    names = {f"stack_parser_{name}" for name in (batch, waiting, "running_requests")}
    reasons = {f'stack_parser_refused_requests_total{{reason="{one}"}}' for one in ("requests", "bytes")}
    assert names | reasons | {"process_resident_memory_bytes"} <= after.keys()


def test_answers_and_metrics_tell_the_model_by_its_hash_and_the_version(service, model):
    paths = {"en-tiny-2.5": model, "words": Path("tests/model")}
    digests = {name: digest_of([path])[:16] for name, path in paths.items()}
    assert len(set(digests.values())) == 2
    metrics = service.metrics()
    assert metrics[f'stack_parser_build_info{{version="{parser.__version__}"}}'] == 1
    for name, digest in digests.items():
        assert metrics[f'stack_parser_model_info{{digest="{digest}",model="{name}"}}'] == 1
        for accept in ("application/json", "application/x-ndjson", "text/x-conllu"):
            body = {"model": name, "sentences": [{"words": ["a"]}]}
            answer = httpx.post(f"{service.url}/v1/parse", json=body, headers={"Accept": accept})
            assert answer.headers["x-model-digest"] == digest
            assert answer.headers["x-parser-version"] == parser.__version__
        given = {"data": "a\n", "input": "horizontal", "parser": "", "model": name}
        assert httpx.post(f"{service.url}/process", data=given).headers["x-model-digest"] == digest
    assert "x-model-digest" not in httpx.get(f"{service.url}/models").headers


def test_a_model_that_cannot_parse_is_not_served(monkeypatch):
    """It parses a first sentence before the service listens, so before it is ready."""

    def fails(self):
        raise OSError("the device is lost")

    monkeypatch.setattr(HostRunner, "advance", fails)
    options = options_of(settle(["tests/model", "--device=cpu"], {}))
    with pytest.raises(RuntimeError, match="the engine failed") as failed:
        load_service(options)
    assert "the device is lost" in str(failed.value)


@pytest.mark.extended
def test_the_precision_is_that_of_the_command():
    """The model that ships rounds to 8 bits, unless it is told not to."""
    probabilities = []
    for precision in ("auto", "int8", "float32"):
        arguments = ["models/english-ewt.stackparser", "--device=cpu", f"--precision={precision}"]
        model = load_service(options_of(settle(arguments, {}))).models.default
        wanted = ParseOptions(probabilities=True)
        request = model.thread.add(sentence_of(["The", "cat", "sleeps", "."], 1), wanted)
        probabilities.append(model.thread.result(request).probabilities)
        model.thread.close()
    assert probabilities[0] == probabilities[1] != probabilities[2]


@pytest.mark.extended
def test_the_log_holds_no_text(model):
    with serving(model) as service:
        secret = "Sesame"
        for path in ("/process", f"/{secret}"):
            httpx.get(f"{service.url}{path}", params={"data": secret, "input": secret, "model": secret})
        service.process_text(data=secret, tokenizer="", parser="")
        httpx.post(f"{service.url}/v1/parse", json={"texts": secret})
        told = [service.next("request") for _ in range(4)]
    assert [line["path"] for line in told] == ["/process", "other", "/process", "/v1/parse"]
    assert [line["status"] for line in told] == [400, 404, 200, 422]
    assert told[2]["sentences"] == 1
    assert secret not in json.dumps(told)


@pytest.mark.extended
def test_a_request_has_one_name_in_its_answer_and_in_the_log(model, tmp_path):
    """The client's, if it is short and plain."""
    (tmp_path / "tokens").write_text("0123456789abcdef\n")
    names = ["a", "9f-A_b.c", "x" * 64, "x" * 65, "a b", "", "a\tb", "é", '"', None]
    with serving(model, "--token-file", tmp_path / "tokens") as service:
        answered = []
        for number, name in enumerate(names):
            body = [{"texts": [TEXT]}, {"texts": 1}, {"texts": ["A."], "model": "x"}][number % 3]
            headers = {"Authorization": "Bearer 0123456789abcdef"} if number % 4 else {}
            if name is not None:
                headers["X-Request-ID"] = name.encode("latin-1")
            path = "nowhere" if number == 1 else "v1/parse"
            answer = httpx.post(f"{service.url}/{path}", json=body, headers=headers, timeout=60)
            answered.append((answer.status_code, answer.headers["x-request-id"]))
        told = [service.next("request") for _ in names]
    assert {status for status, _ in answered} == {200, 400, 401, 404, 422}
    assert [(line["status"], line["request_id"]) for line in told] == answered
    assert [name for _, name in answered[:3]] == names[:3]
    assert all(re.fullmatch("[0-9a-f]{16}", name) for _, name in answered[3:])
    assert len({name for _, name in answered}) == len(names)


@pytest.mark.extended
def test_a_body_that_is_no_http_is_logged_once(model):
    """With the name in its answer, which is that of the request."""
    head = "POST /v1/parse HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-Request-ID: mine\r\n"
    with serving(model) as service:
        with socket.create_connection(("127.0.0.1", service.port)) as client:
            client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n".encode())
            client.sendall(b"no number\r\n")
            answer = everything_from(client).decode()
        assert answer.startswith("HTTP/1.1 400 ")
        assert "x-request-id: mine\r\n" in answer
        assert httpx.get(f"{service.url}/models").status_code == 200
        told = [service.next("request") for _ in range(2)]
    assert [(line["path"], line["status"]) for line in told] == [("/v1/parse", 400), ("/models", 200)]
    assert told[0]["request_id"] == "mine"


def test_only_other_origins_that_are_named_may_use_it(service):
    for origin, allowed in (("https://example.org", "https://example.org"), ("https://evil.example", None)):
        answer = httpx.get(f"{service.url}/models", headers={"Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed
    wrong = httpx.get(f"{service.url}/process", headers={"Origin": "https://example.org"})
    assert wrong.headers["access-control-allow-origin"] == "https://example.org"
    exposed = {"x-request-id", "x-model-digest", "x-parser-version"}
    assert set(wrong.headers["access-control-expose-headers"].split(", ")) == exposed
    asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    assert httpx.options(f"{service.url}/v1/parse", headers=asked).status_code == 200


def test_a_line_is_one_token(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_bytes(b"0123456789abcdef \r\n\nanother-token-of-mine")
    assert read_tokens(tokens) == (b"0123456789abcdef", b"another-token-of-mine")
    tokens.write_bytes(b"\xef\xbb\xbf0123456789abcdef")  # with a byte-order mark
    assert read_tokens(tokens) == (b"0123456789abcdef",)
    tokens.write_text("production-cluster-1 0123456789abcdef\n")
    with pytest.raises(ValueError, match="has a blank in it"):
        read_tokens(tokens)


def test_a_token_is_needed(model, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\nanother-token-of-mine\n")
    with serving(model, "--token-file", tokens, "--cors", "*") as service:
        assert httpx.get(f"{service.url}/live").status_code == 200
        for given in (None, "Bearer 0123456789abcde", "Basic 0123456789abcdef", "Bearer", "Bearer é"):
            headers = {"Authorization": given.encode("latin-1")} if given else {}
            refused = httpx.get(f"{service.url}/models", headers=headers | {"Origin": "https://a.example"})
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert refused.headers["access-control-allow-origin"] == "*"
        for given in ("Bearer 0123456789abcdef", "bearer another-token-of-mine"):
            assert httpx.get(f"{service.url}/models", headers={"Authorization": given}).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "nowhere: "),
        (["=tests/model"], "=tests/model: should be the path of a model, or NAME=PATH"),
        (["a="], "a=: should be the path of a model, or NAME=PATH"),
        ([""], "should be the path of a model, or NAME=PATH"),
        (["a=tests/model", "a=tests/model"], "two models would be called a: use NAME=PATH"),
        (["tests/model", "--default", "x"], "--default x: the models are tests"),
        (["tests/model", "--token-file", "{short}"], "a token has fewer than 16 characters"),
        (["tests/model", "--token-file", "{empty}"], "there is no token in it"),
        (["tests/model", "--port", "{taken}"], "Address already in use"),
        (["tests/model", "--host", ""], "--host is empty; write 127.0.0.1 for"),
        (["tests/model", "--host", "nowhere.invalid"], "nowhere.invalid, port 8001: "),
    ],
)
def test_what_can_not_be_served_is_told(arguments, told, tmp_path, capsys):
    (tmp_path / "short").write_text("abc\n")
    (tmp_path / "empty").write_text("\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        names = {"short": tmp_path / "short", "empty": tmp_path / "empty", "taken": other.getsockname()[1]}
        command = ["serve", "--device", "cpu", *(one.format(**names) for one in arguments)]
        assert main(command) == 2
    printed = capsys.readouterr().err
    assert told in printed
    assert "while attempting" not in printed
