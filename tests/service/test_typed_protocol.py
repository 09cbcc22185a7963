"""`POST /v1/parse`, and its description."""

import json
import re
from itertools import chain
from pathlib import Path

import pytest
from services import TEXT, TREEBANK, broken_off, parsed_by_command

import parser

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")
formats = pytest.importorskip("parser.service.typed_protocol")
JSON, NDJSON, CONLLU = formats.JSON, formats.NDJSON, formats.CONLLU

KINDS = [JSON, NDJSON]
ENDS = {NDJSON: "\n", CONLLU: "\n\n"}
"""What ends a sentence."""


def ask(service, accept="application/json", **wanted):
    return httpx.post(f"{service.url}/v1/parse", json=wanted, headers={"Accept": accept}, timeout=60)


def sentences_of(answer):
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        return answer.json()["sentences"]
    return list(map(json.loads, answer.text.splitlines()))


@pytest.mark.parametrize("kind", KINDS)
def test_texts_get_the_trees_of_a_program(kind, service, model):
    texts = [TEXT, "", "It was round. " * 300]
    sentences = sentences_of(ask(service, kind, texts=texts, probabilities=True))
    expected = list(parser.load(model, "cpu").parse_texts(texts, probabilities=True))
    assert [one["input"] for one in sentences] == [0] * 3 + [2] * 300
    for sentence, tree in zip(sentences, chain(*expected), strict=True):
        for name in ("words", "heads", "labels", "upos", "feats", "lemmas"):
            assert sentence[name] == list(getattr(tree, name))
        assert sentence["probabilities"] == pytest.approx(tree.probabilities, abs=1e-5)
        assert (sentence["text"], sentence["sent_id"]) == (tree.text, tree.sent_id)
        tokens = [(token.form, token.start, token.end, len(token.words)) for token in tree.tokens]
        assert [tuple(token.values()) for token in sentence["tokens"]] == tokens


@pytest.mark.parametrize("form", ["raw", "one-sentence-per-line", "tokenized"])
def test_texts_give_the_conllu_of_the_command(form, service, model):
    option = {"raw": "--text"}.get(form, f"--{form}")
    answer = ask(service, "text/x-conllu", texts=[TEXT], text_format=form)
    assert answer.text == parsed_by_command(model, TEXT, option)


def test_several_texts_are_documents_of_their_own(service):
    answer = ask(service, "text/x-conllu", texts=["It was round. A cat.", "", "Was it?\n\nIt was."])
    comments = [line for line in answer.text.splitlines() if line.startswith(("# newdoc", "# sent_id"))]
    assert comments == [
        *("# newdoc id = 1", "# sent_id = 1-1", "# sent_id = 1-2"),
        *("# newdoc id = 3", "# sent_id = 3-1", "# sent_id = 3-2"),
    ]
    alone = ask(service, "text/x-conllu", texts=["It was round. A cat."]).text
    without = re.sub(r"# newdoc id = .*\n", "", answer.text).replace("# sent_id = 1-", "# sent_id = ")
    assert without.startswith(alone)


@pytest.mark.parametrize("scores", [False, True])
def test_conllu_gives_the_conllu_of_the_command(scores, service, model):
    treebank = TREEBANK.read_text(encoding="utf-8")
    answer = ask(service, "text/x-conllu", conllu=treebank, probabilities=scores)
    expected = parsed_by_command(model, treebank, *["--probabilities"] * scores)
    texts, numbers = zip(*(divided(text) for text in (answer.text, expected)), strict=True)
    assert texts[0] == texts[1]
    # Sentences are batched as they arrive, which changes the last bits of a probability.
    assert numbers[0] == pytest.approx(numbers[1], abs=2e-4)
    assert bool(numbers[0]) == scores


def divided(conllu):
    """The text without the probabilities of arcs, and these probabilities."""
    pattern = re.compile(r"(?<=ArcProbability=)[\d.]+")
    return pattern.sub("", conllu), [float(number) for number in pattern.findall(conllu)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(("before", "between", "after"), [(0, 1, 0), (0, 1, -1), (2, 3, 2)])
def test_one_blank_line_ends_each_sentence_of_conllu(before, between, after, line_end, service):
    given = "# text = a" + line_end + "\t".join(["1", "a", *"________"])
    ends = [line_end * (1 + between), line_end * (1 + after)]
    asked = line_end * before + given + ends[0] + given + ends[1]
    usual = (given + 2 * line_end) * 2
    assert asked != usual
    answer, expected = (ask(service, "text/x-conllu", conllu=one).text for one in (asked, usual))
    assert answer == expected
    assert answer.endswith(2 * line_end)


def test_words_keep_their_tags(service, model):
    given = {"words": ["The", "cat", "sleeps"], "upos": ["_", "X", "_"], "sent_id": "s", "text": "The cat…"}
    [sentence] = sentences_of(ask(service, sentences=[given]))
    tree = parser.load(model, "cpu").parse(given["words"], upos=given["upos"])
    assert (sentence["heads"], sentence["upos"]) == (list(tree.heads), list(tree.upos))
    assert sentence["upos"][1] == "X"
    assert (sentence["sent_id"], sentence["text"]) == ("s", "The cat…")
    conllu = ask(service, "text/plain", sentences=[given, {"words": ["a"]}]).text
    assert conllu.startswith("# sent_id = s\n# text = The cat…\n1\tThe\t")
    assert conllu.endswith("\n\n# text = a\n1\ta\ta\tDET\tDT\t_\t0\troot\t_\t_\n\n")
    words = ["It", "was", "round", "."]
    assert "# text = It was round .\n" in ask(service, CONLLU, sentences=[{"words": words}]).text


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_without_a_name_gets_none(kind, service):
    row = "\t".join(["1", "a", *"________"]) + "\n\n"
    in_conllu = {"conllu": f"{row}# sent_id = #1\n# text = a\n{row}"}
    in_words = {"sentences": [{"words": ["a"]}, {"words": ["a"], "sent_id": "#1", "text": "a"}]}
    for given in (in_conllu, in_words):
        one, other = sentences_of(ask(service, kind, **given))
        assert not one.keys() & {"sent_id", "text"}
        assert (other["sent_id"], other["text"]) == ("#1", "a")


@pytest.mark.parametrize("kind", [*KINDS, "text/x-conllu"])
def test_nothing_has_no_trees(kind, service):
    answer = ask(service, kind, texts=[])
    assert answer.status_code == 200
    assert answer.text in ('{"model": "en-tiny-2.5", "sentences": []}\n', "")


@pytest.mark.parametrize(
    ("wanted", "status", "told"),
    [
        ({"texts": ["a"], "model": "x"}, 400, "there is no model 'x'"),
        ({"texts": ["a"], "model": "words"}, 400, "the model has no tokenizer"),
        ({"sentences": [{"words": ["a"]}, {"words": ["a b\n"]}]}, 400, "sentence 2: words, number 1"),
        ({"sentences": [{"words": ["a"], "upos": ["A", "B"]}]}, 400, "1 words, but 2 upos"),
        ({"conllu": "1\ta\n"}, 400, "conllu:1: sentence #1: 2 columns instead of 10"),
        ({}, 422, "body: give one of texts, sentences, conllu"),
        ({"texts": ["a"], "conllu": ""}, 422, "give one of texts, sentences, conllu"),
        ({"texts": "secret"}, 422, "body.texts: Input should be a valid list"),
        ({"sentences": [{"words": []}]}, 422, "body.sentences.0.words: List should have at least 1 item"),
        ({"text": ["a"]}, 422, "body.text: unknown key; did you mean texts?"),
        ({"texts": [], "other": 1}, 422, "body.other: unknown key; known are model, texts, "),
        ({"sentences": [{"words": ["a"], "lemma": ["a"]}]}, 422, "sentences.0.lemma: unknown key"),
    ],
)
def test_a_wrong_request_is_told_why(wanted, status, told, service):
    answer = ask(service, **wanted)
    assert answer.status_code == status
    assert told in answer.json()["detail"]
    assert "secret" not in answer.text


def test_what_the_input_lacks_is_told(service):
    strange = {"words": [f"word{number}" for number in range(200)]}
    answer = ask(service, sentences=[strange]).json()
    [warning] = answer["warnings"]
    assert warning.startswith("FORM: 100% of the values do not occur in training")
    assert "warnings" not in ask(service, sentences=[{"words": ["The", "cat"]}]).json()
    asked = {"data": " ".join(strange["words"]), "input": "horizontal", "parser": ""}
    assert httpx.post(f"{service.url}/process", data=asked).json()["warnings"] == [warning]


def test_what_is_not_said_to_be_json_is_refused(service):
    url, headers = f"{service.url}/v1/parse", {"Content-Type": "text/plain"}
    answer = httpx.post(url, content=b'{"texts": []}', headers=headers)
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", JSON),
        ("text/html, */*", JSON),
        ("text/html, application/*;q=0.5", JSON),
        ("application/x-ndjson;q=0, text/plain", CONLLU),
        ("application/x-ndjson;q=?, text/plain", CONLLU),
        ("application/json;q=0, */*", NDJSON),
        ("application/x-ndjson, application/json", NDJSON),
        ("application/ndjson", NDJSON),
        ("text/plain", CONLLU),
        ("text/*, application/json;q=0.9", CONLLU),
        ("application/json;q=0.1, */*", NDJSON),
        ("application/*;q=0, */*", CONLLU),
        ("text/x-conllu;q=0.5, text/*;q=0.1, application/json;q=0.4", CONLLU),
    ],
)
def test_the_format_that_is_preferred(accept, chosen):
    assert formats.answer_format(accept, "model").media_type == chosen


def test_the_header_accept_chooses_the_format(service):
    answer = ask(service, "application/json;q=0.1, application/x-ndjson", texts=["It was round."])
    assert answer.headers["content-type"].partition(";")[0] == NDJSON
    answer = ask(service, "image/png", texts=["a"])
    assert answer.status_code == 406
    assert "application/x-ndjson" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"{", b'{"texts": ["\xff"]}', b'{"texts": ["\\ud800"]}', b"[" * 100_000])
def test_what_is_no_json_is_refused(body, service):
    answer = httpx.post(f"{service.url}/v1/parse", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["detail"]


@pytest.mark.extended
@pytest.mark.parametrize("kind", [NDJSON, CONLLU])
def test_sentences_come_before_all_is_parsed(kind, service):
    wanted = {"texts": ["It was round. " * 20_000]}
    headers = {"Accept": kind}
    with httpx.stream("POST", f"{service.url}/v1/parse", json=wanted, headers=headers, timeout=60) as answer:
        pieces = answer.iter_bytes()
        first = next(pieces)
        content = first + b"".join(pieces)
        assert content.count(ENDS[kind].encode()) == 20_000
        assert len(first) < min(1 << 16, len(content) / 10)


@pytest.mark.parametrize("kind", [NDJSON, CONLLU])
def test_a_stream_that_fails_ends_with_a_line_that_tells_why(kind, service):
    """Its client notices that it is incomplete, and has only whole sentences."""
    texts = ["It was round. " * 3_000, "a" * 20_001]
    url, headers = f"{service.url}/v1/parse", {"Accept": kind}
    with httpx.stream("POST", url, json={"texts": texts}, headers=headers, timeout=60) as answer:
        assert answer.status_code == 200
        *sentences, last = broken_off(answer.iter_bytes()).rstrip("\n").split(ENDS[kind])
    assert 0 < len(sentences) <= 3_000
    told = "text 2 has more than 20,000 characters without a blank"
    if kind == CONLLU:
        assert last.startswith(f"# error = 400: {told}")
        assert "\n" not in last
        assert all(sentence.splitlines()[-1].count("\t") == 9 for sentence in sentences)
    else:
        problem = json.loads(last)
        assert (problem.keys(), problem["status"]) == ({"detail", "status"}, 400)
        assert problem["detail"].startswith(told)
        assert all("words" in json.loads(sentence) for sentence in sentences)


@pytest.mark.parametrize("kind", [NDJSON, CONLLU])
def test_an_error_before_the_first_sentence_has_its_status(kind, service):
    answer = ask(service, kind, texts=["a" * 20_001])
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("text 1 has more than 20,000 characters")


def test_an_error_in_conllu_is_one_line():
    line = formats.answer_format(CONLLU, "model").error_line
    assert line(400, "a\nb\r\n\u2028c") == b"# error = 400: a b c\n"


def test_the_interface_is_described(service):
    document = httpx.get(f"{service.url}/openapi.json").json()
    assert set(document["paths"]) == {"/live", "/ready", "/metrics", "/v1/parse"}
    answers = document["paths"]["/v1/parse"]["post"]["responses"]
    assert set(answers["200"]["content"]) == {*KINDS, "text/x-conllu"}
    assert {"400", "406", "408", "413", "422", "429", "500", "503"} < set(answers)
    rows = re.findall(
        r"^\| (\d{3}[\d, ]*)", Path("docs/service.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(re.findall(r"\d{3}", " ".join(rows))) == {*answers, "404", "405"}
    page = httpx.get(f"{service.url}/docs").text
    assert "POST /v1/parse" in page
    assert "src=" not in page
    assert "http" not in page.replace("http-equiv", "").replace("HTTP", "")
