"""UDPipe's REST protocol, as its clients use it."""

import email.mime.multipart
import email.mime.nonmultipart
import email.policy
import json
import re
import subprocess
import urllib.request
from urllib.parse import urlencode

import pytest
from services import TEXT, TREEBANK, parsed_by_command, without_program

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

WORDS = "The cat sleeps .\nIt was round .\n"


def as_the_python_client(url, **parameters):
    """A body of several parts, each with its own character set and encoding."""
    message = email.mime.multipart.MIMEMultipart("form-data", policy=email.policy.HTTP)
    for name, value in parameters.items():
        part = email.mime.nonmultipart.MIMENonMultipart("text", "plain")
        part.add_header("Content-Disposition", f'form-data; name="{name}"')
        part.add_header("Content-Transfer-Encoding", "8bit")
        part.set_payload(value, charset="utf-8")
        message.attach(part)
    body = message.as_bytes().split(b"\r\n\r\n", maxsplit=1)[1]
    request = urllib.request.Request(f"{url}/process", body, {"Content-Type": message["Content-Type"]})
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def as_curl(url, **parameters):
    fields = [part for name, value in parameters.items() for part in ("--form-string", f"{name}={value}")]
    done = subprocess.run(["curl", "-sS", *fields, f"{url}/process"], capture_output=True, check=True)
    return json.loads(done.stdout)


def as_a_browser(url, **parameters):
    return httpx.post(f"{url}/process", data=parameters).json()


def in_the_query(url, **parameters):
    with urllib.request.urlopen(f"{url}/process?{urlencode(parameters)}") as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("client", [as_the_python_client, as_curl, as_a_browser, in_the_query])
def test_any_client_gets_what_parse_writes(client, service, model):
    text = TEXT + "Ärger — naïve „Wörter“ & 100% + 日本.\n"
    answer = client(service.url, data=text, tokenizer="ranges;normalized_spaces", tagger="", parser="")
    assert answer.keys() == {"model", "acknowledgements", "result", "warnings"}
    assert answer["model"] == "en-tiny-2.5"
    [warning] = answer["warnings"]
    assert re.match(r"characters that training never saw: .*% \(U\+0025, in 1 word\)", warning)
    if client is as_the_python_client:  # as it sends them
        text = text.replace("\n", "\r\n")
    assert without_program(answer["result"]) == parsed_by_command(model, text, "--text")


def test_conllu_is_parsed_and_tagged_again(service, model):
    treebank = TREEBANK.read_text(encoding="utf-8")
    parsed = service.process_text(data=treebank, tagger="", parser="")
    assert parsed == parsed_by_command(model, treebank, "--tags=all")
    assert len(parsed) > 1 << 16  # so that it is sent in several pieces
    answer = as_the_python_client(service.url, data=treebank, input="conllu", tagger="", parser="")
    assert without_program(answer["result"]) == parsed


@pytest.mark.parametrize("parts", [(), ("tagger",), ("parser",), ("tagger", "parser")])
def test_a_part_runs_only_if_it_is_asked_for(parts, service):
    conllu = service.process_text(data=WORDS, input="horizontal", **dict.fromkeys(parts, ""))
    rows = [line.split("\t") for line in conllu.splitlines() if line and line[0] != "#"]
    for part, column in (("tagger", 3), ("parser", 6)):
        assert ({row[column] for row in rows} != {"_"}) == (part in parts)
    if not parts:
        assert conllu == service.process_text(data=WORDS, input="horizontal", tagger="none", parser="none")


@pytest.mark.parametrize(
    ("form", "data", "output", "expected"),
    [
        ("horizontal", "a\u00a0b c\nd\n\ne", "horizontal", "a\u00a0b c\nd\ne\n"),
        ("horizontal", "e\u0301", "horizontal", "\u00e9\n"),
        ("vertical", "a b\tx\nc\n\nd\n", "horizontal", "a\u00a0b c\nd\n"),
        ("vertical", "a\n\n\nb\r\n \r\nc", "vertical=paragraphs", "a\n\n\nb\n\nc\n\n"),
        ("horizontal", "a b\nc\n\n\nd", "horizontal=paragraphs", "a b\nc\n\nd\n"),
        ("horizontal", "a b\nc\n\n\nd", "vertical", "a\nb\n\nc\n\nd\n\n"),
        ("horizontal", "a b\nc\n\n\nd", "vertical=paragraphs", "a\nb\n\nc\n\n\nd\n\n"),
    ],
)
def test_other_inputs_and_outputs_are_those_of_the_library(form, data, output, expected, service):
    assert service.process_text(data=data, input=form, output=output) == expected


def test_a_tokenizer_has_options(service, model):
    lines = "It was round. Or not?\nThe cat sleeps\n"
    told = parsed_by_command(model, lines, "--one-sentence-per-line")
    asked = {"data": lines, "tagger": "", "parser": ""}
    assert service.process_text(**asked, tokenizer="presegmented;ranges;normalized_spaces") == told
    without = service.process_text(**asked, tokenizer="presegmented;normalized_spaces")
    assert "TokenRange" not in without
    assert without.count("\tSpaceAfter=No\n") == told.count("\tSpaceAfter=No|") > 0
    assert service.process_text(**asked, tokenizer="").count("# sent_id") == 3


@pytest.mark.parametrize("ranges", ["", "ranges"])
def test_white_space_is_told_as_by_udpipe(ranges, service):
    """MISC is what UDPipe 1.4 writes for these tokens."""
    text = "\n  The cat  sleeps.\tDon't go! \r\n\r\nWas |it\u00a0round?\n\\ Or not?"
    expected = [
        ("1", "The", "SpacesBefore=\\n\\s\\s", "3:6"),
        ("2", "cat", "SpacesAfter=\\s\\s", "7:10"),
        ("3", "sleeps", "SpaceAfter=No", "12:18"),
        ("4", ".", "SpacesAfter=\\t", "18:19"),
        ("1-2", "Don't", "", "20:25"),
        ("1", "Do", "", ""),
        ("2", "n't", "", ""),
        ("3", "go", "SpaceAfter=No", "26:28"),
        ("4", "!", "SpacesAfter=\\s\\r\\n\\r\\n", "28:29"),
        ("1", "Was", "", "34:37"),
        ("2", "|it", "SpacesAfter=\u00a0", "38:41"),
        ("3", "round", "SpaceAfter=No", "42:47"),
        ("4", "?", "SpacesAfter=\\n", "47:48"),
        ("1", "\\", "", "49:50"),
        ("1", "Or", "", "51:53"),
        ("2", "not", "SpaceAfter=No", "54:57"),
        ("3", "?", "SpaceAfter=No", "57:58"),
    ]
    told = service.process_text(data=text, tokenizer=ranges)
    rows = [line.split("\t") for line in told.splitlines() if line and line[0] != "#"]
    assert [(row[0], row[1], row[9]) for row in rows] == [
        (number, form, "|".join(filter(None, [spaces, ranges and place and f"TokenRange={place}"])) or "_")
        for number, form, spaces, place in expected
    ]


def test_an_answer_may_be_sent_again(service):
    answers = [service.raw_result(data=TEXT, tokenizer="", tagger="", parser="")]
    answers.append(service.raw_result(data=answers[0], tagger="", parser=""))
    assert answers[0] == answers[1]
    assert answers[1].count("# generator = ") == answers[1].count("# udpipe_model = ") == 1


def test_models_have_names_and_parts(service):
    parts = ["tokenizer", "tagger", "parser"]
    expected = {"models": {"en-tiny-2.5": parts, "words": parts[1:]}, "default_model": "en-tiny-2.5"}
    assert httpx.get(f"{service.url}/models").json() == expected
    assert httpx.post(f"{service.url}/models").json() == expected


@pytest.mark.parametrize("name", [None, "en", "en-tiny", "words"])
def test_a_model_is_found_by_its_name_up_to_a_hyphen(name, service):
    asked = {"data": "a", "input": "horizontal"} | ({"model": name} if name else {})
    answer = httpx.post(f"{service.url}/process", data=asked)
    assert answer.json()["model"] == ("words" if name == "words" else "en-tiny-2.5")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "data is needed"),
        ({"data": "a", "model": "en-ti"}, "no model 'en-ti'; available: en-tiny-2.5, words"),
        ({"data": "a", "model": "words", "tokenizer": ""}, "words cannot read text: the model has no tok"),
        ({"data": "# text\n\na b c"}, "no columns of CoNLL-U; to read text, add the parameter tokenizer"),
        ({"data": "1\ta\n\n"}, "data:1: sentence #1: 2 columns instead of 10"),
        ({"data": "a", "input": "epe"}, "'epe': unknown; available: conllu, horizontal, vertical"),
        ({"data": "a", "input": "vertical", "output": "epe"}, "unknown; available: conllu, horizontal, ver"),
    ],
)
def test_a_wrong_request_is_told_why(wrong, told, service):
    answer = httpx.post(f"{service.url}/process", data=wrong)
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert told in answer.text


def test_a_late_fault_refuses_all(service):
    """However much text precedes it."""
    treebank = TREEBANK.read_text(encoding="utf-8") * 3 + "1\tno columns\n\n"
    answer = httpx.post(f"{service.url}/process", data={"data": treebank, "parser": ""}, timeout=60)
    assert answer.status_code == 400
    assert "2 columns instead of 10" in answer.text


FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n'


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (b"x", "application/json", "the body should be application/x-www-form-urlencoded or multi"),
        (b"data=%ff", FORM, "not urlencoded UTF-8"),
        (b"data=\xff", FORM, "not urlencoded"),
        (b"data=1&" * 200, FORM, "too many"),
        (b"no part", PARTS, "the parts of the body are broken"),
        (b"no part", "multipart/form-data", "the body should be"),
        (PART + b"\xff\r\n--x--\r\n", PARTS, "not UTF-8"),
        (PART + b"cut", PARTS, "the parts of the body are broken"),
        (b"".join(PART.replace(b"data", b"%d" % n) + b"1\r\n" for n in range(200)), PARTS, "too many"),
    ],
)
def test_a_broken_body_is_told_so(body, kind, told, service):
    answer = httpx.post(f"{service.url}/process", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert told in answer.text


def test_a_file_is_a_parameter(service):
    files = {"data": ("text.txt", b"a b\n")}
    fields = {"input": "horizontal", "output": "vertical"}
    answer = httpx.post(f"{service.url}/process", data=fields, files=files)
    assert answer.json()["result"] == "a\nb\n\n"
