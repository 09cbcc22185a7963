"""The page of a service in a browser, used as a person would use it."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from pages.small_trees import HOSTILE_TEXTS
from services import TEXT, make_model, parsed_by_command, serving

from parser.treebank.conllu import blocks, parse_block

pytest.importorskip("fastapi")

TOKEN = "0123456789abcdef"
CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}
STORED = "JSON.stringify([localStorage, sessionStorage, document.cookie, history.state, location.href])"
TOO_LONG = "word " * 1_001
TYPED = 10_000
"""The number of characters above which a text is not typed but inserted at once."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model with a tokenizer."""
    return make_model(tmp_path_factory.mktemp("served") / "tiny")


@pytest.fixture(scope="module")
def service(model, reader_of_tags):
    with serving(f"tiny={model}", "words=tests/model", f"tags={reader_of_tags}") as running:
        yield running


@pytest.fixture(scope="module")
def small_service(model):
    """A service of one model."""
    with serving(model) as running:
        yield running


@pytest.fixture
def page(open_page, service):
    return opened(open_page, service)


def opened(open_page, service, **settings):
    page = open_page(service.url, **settings)
    page.locator("#model-field").wait_for()
    return page


def parse(page, text):
    """Parse the text with the button, and wait for the complete answer or an error."""
    write(page, text)
    page.locator("#parse").click()
    wait_for_answer(page)


def write(page, text):
    """Enter a long text at once: typing thousands of lines takes a browser minutes."""
    field = page.locator("#text")
    if len(text) < TYPED:
        field.fill(text)
    else:
        field.evaluate("(field, text) => { field.value = text }", text)


def wait_for_answer(page):
    page.locator("#status", has_text=re.compile(r"sentence|^$")).wait_for(state="attached", timeout=120_000)


def status(page):
    return page.locator("#status").text_content()


def problem(page):
    place = page.locator("#problem")
    return place.text_content() if place.is_visible() else None


def trees(page):
    """The trees, each of which is drawn when it is near the visible part of the page."""
    boxes = page.locator(".tree-box").all()
    for box in boxes:
        box.scroll_into_view_if_needed()
        box.locator("svg").wait_for()
    return [box.locator("svg") for box in boxes]


def forms(page):
    """The word forms in all trees."""
    return [tree.locator(".word .form").all_text_contents() for tree in trees(page)]


def expected(model, text):
    conllu = parsed_by_command(model, text, "--text", "--probabilities")
    return conllu, [parse_block(block, tree=True) for block in blocks(conllu.splitlines(keepends=True))]


def test_a_text_is_parsed_and_drawn(page, model):
    parse(page, TEXT)
    conllu, sentences = expected(model, TEXT)
    assert status(page) == "3 sentences, parsed by tiny."
    assert forms(page) == [list(one.forms) for one in sentences]
    for tree, one in zip(trees(page), sentences, strict=True):
        assert sorted(tree.locator(".label").all_text_contents()) == sorted(one.labels)
        arcs = tree.locator(".arc").evaluate_all(
            "(arcs) => arcs.map((arc) => [arc.dataset.dependent, arc.dataset.head].map(Number))"
        )
        assert dict(arcs) == dict(enumerate(one.heads, 1))
    assert page.locator(".token .form").all_text_contents() == re.findall(r"^\d+-\d+\t(\S+)", conllu, re.M)


def test_the_table_has_what_is_known_of_the_words(page, model):
    parse(page, TEXT)
    conllu, [one, *_] = expected(model, TEXT)
    tables = page.locator(".words table")
    assert tables.count() == 1
    rows = [row.locator("th, td").all_text_contents() for row in tables.locator("tbody tr").all()]
    titles = tables.locator("thead th").all_text_contents()
    assert titles == ["", "word", "lemma", "UPOS", "XPOS", "features", "head", "relation", "probability"]
    number, words, lemmas, upos, xpos, feats, heads, labels, shares = zip(*rows, strict=True)
    assert number == tuple(str(word) for word, _ in enumerate(words, 1))
    assert (words, lemmas, upos, xpos) == (one.forms, one.lemmas, one.upos, one.xpos)
    assert feats == tuple("" if value == "_" else value.replace("|", " ") for value in one.feats)
    assert heads == tuple(f"{head} {words[head - 1]}" if head else "ROOT" for head in one.heads)
    assert labels == one.labels
    told = re.findall(r"ArcProbability=([\d.]+)", conllu)[: len(words)]
    assert [float(share.removesuffix(" %")) for share in shares] == pytest.approx(
        [100 * float(share) for share in told], abs=0.051
    )
    page.locator("summary").nth(1).click()
    tables.nth(1).wait_for()


@pytest.mark.extended
def test_surer_arcs_are_thicker(page):
    parse(page, "round it the cat go don't sleeps was")
    trees(page)
    arcs = page.locator(".arc").evaluate_all(
        """(arcs) => arcs.map((arc) => [Number(arc.style.getPropertyValue('--probability')),
            parseFloat(getComputedStyle(arc.querySelector('.line')).strokeWidth)])"""
    )
    arcs.sort()
    shares, widths = zip(*arcs, strict=True)
    assert shares[0] < shares[-1] - 0.05
    assert list(widths) == sorted(widths)
    assert widths[0] < widths[-1]


@pytest.mark.extended
def test_conllu_is_copied_as_the_command_writes_it(open_page, service, model):
    page = opened(open_page, service, **CLIPBOARD)
    parse(page, TEXT)
    page.locator("#copy-conllu").click()
    page.locator("#status", has_text="CoNLL-U copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == expected(model, TEXT)[0]


@pytest.mark.extended
def test_without_a_clipboard_the_text_is_selected(open_page, small_service, model):
    """Pages without HTTPS have no clipboard."""
    page = open_page(small_service.url)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    parse(page, TEXT)
    page.locator("#copy-conllu").click()
    page.locator("#copy").wait_for()
    assert "selected below" in status(page)
    assert page.evaluate("document.activeElement.id") == "copy"
    assert page.evaluate("getSelection().toString()") == expected(model, TEXT)[0]


@pytest.mark.extended
def test_a_link_holds_text_and_model(open_page, service):
    page = opened(open_page, service, **CLIPBOARD)
    page.locator("#model").select_option("words")
    text = "Don't go & sleep #1\ngrößer + <b>"
    parse(page, text)
    drawn = forms(page)
    page.locator("#copy-link").click()
    page.locator("#status", has_text="Link copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    kept = {"model": ["words"], "input": ["tokenized"], "text": [text]}
    assert parse_qs(urlsplit(link).fragment, strict_parsing=True) == kept
    page.reload()
    wait_for_answer(page)
    again = open_page(service.url, link.removeprefix(service.url))
    wait_for_answer(again)
    for one in (page, again):
        assert one.locator("#text").input_value() == text
        assert forms(one) == drawn
    page.evaluate("location.hash = '#model=tiny&text=Go!'")
    page.locator("#status", has_text="1 sentence, parsed by tiny.").wait_for()


@pytest.mark.extended
def test_a_text_is_in_no_address_that_is_asked_for(open_page, small_service):
    page = open_page(small_service.url)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("location.hash = '#text=Sesame'")
    page.locator("#status", has_text="1 sentence").wait_for()
    assert {urlsplit(url).path for url in asked} == {"/models", "/v1/parse"}
    assert "Sesame" not in "".join(asked)


@pytest.mark.extended
def test_links_that_can_not_be_had(open_page, service):
    page = open_page(service.url, "#model=french&input=nonsense&text=Go!")
    page.locator("#problem").wait_for()
    assert problem(page) == "The link is to the model french, which this service does not have."
    assert page.locator("#text").input_value() == "Go!"
    assert page.locator("#model").input_value() == "tiny"
    assert page.locator("#input").input_value() == "raw"
    parse(page, "Go! " * 3_000)
    assert problem(page) is None
    page.locator("#copy-link").click()
    assert status(page).startswith("The text is too long for a link")
    assert "french" in page.url


@pytest.mark.extended
def test_what_the_service_refuses_is_told(open_page, small_service):
    page = open_page(small_service.url, refusals=[413, 400])
    page.locator("#input").select_option("tokenized")
    parse(page, TOO_LONG)
    assert problem(page).startswith("This is too much at a time: sentence 1 has 1,001 words; at most 1,000 ")
    assert page.locator("#problem").get_attribute("role") == "alert"
    assert page.locator("#results").is_hidden()
    page.locator("#input").select_option("conllu")
    parse(page, "1\ta\n")
    assert problem(page) == "The service cannot read this: conllu:1: sentence #1: 2 columns instead of 10."
    page.locator("#input").select_option("raw")
    parse(page, TEXT)
    assert problem(page) is None
    parse(page, " \n ")
    assert status(page) == "There is no sentence in the text."


@pytest.mark.extended
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((429, "application/json", '{"detail": "9 wait"}'), "The service is busy: 9 wait."),
        ((503, "application/json", '{"detail": "too late"}'), "The service has no answer: too late."),
        ((503, "text/html", "<h1>nginx</h1>"), "The service has no answer."),
        ((502, "text/html", "<h1>nginx</h1>"), "The service answered with status 502."),
        ((413, "application/json", "no JSON"), "This is too much at a time."),
        (None, "The service cannot be reached. Is it running, and is there a connection to it?"),
    ],
)
def test_no_answer_is_told_in_plain_words(answer, told, browser, small_service):
    page = browser.new_page()
    page.goto(small_service.url)

    def answered(route):
        if answer is None:
            route.abort()
        else:
            code, kind, body = answer
            route.fulfill(status=code, content_type=kind, body=body)

    page.route("**/v1/parse", answered)
    parse(page, TEXT)
    assert problem(page) == told
    page.close()


@pytest.mark.extended
def test_an_answer_that_breaks_off_is_told(browser, small_service):
    page = browser.new_page()
    page.goto(small_service.url)
    page.locator("#input").select_option("tokenized")
    parse(page, "It was round .\n" * 5_000 + TOO_LONG)
    told = "The answer broke off. This is too much at a time: sentence 5001 has 1,001 words; at most 1,000 "
    assert problem(page).startswith(told)
    assert len(forms(page)) > 0
    page.close()


@pytest.mark.extended
def test_the_page_asks_for_a_token(open_page, model, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    with serving(model, "--token-file", tokens) as service:
        page = open_page(service.url, "#text=Go!", refusals=[401])
        page.locator("#token-field").wait_for()
        assert problem(page) is None
        assert page.evaluate("document.activeElement.id") == "token"
        for wrong in ("wrong", "ключ"):
            page.locator("#token").fill(wrong)
            page.keyboard.press("Enter")
            page.locator("#problem").wait_for()
            assert problem(page) == "The service does not know this token."
        page.locator("#token").fill(TOKEN)
        page.keyboard.press("Enter")
        wait_for_answer(page)
        assert forms(page) == [["Go", "!"]]
        assert problem(page) is None
        assert TOKEN not in page.evaluate(STORED)
        page.reload()
        page.locator("#token-field").wait_for()
        assert page.locator("#token").input_value() == ""


def test_a_model_without_tokenizer_or_tags_says_so(page, model):
    note, form = page.locator("#note"), page.locator("#input")
    assert note.is_hidden()
    page.locator("#model").select_option("words")
    assert note.text_content().startswith("This model cannot divide text.")
    assert form.input_value() == "tokenized"
    assert form.locator("option:disabled").count() == 2
    parse(page, "The cat sleeps .\nGo !")
    assert forms(page) == [["The", "cat", "sleeps", "."], ["Go", "!"]]
    page.locator("#model").select_option("tags")
    assert "This model predicts no tags." in note.text_content()
    form.select_option("conllu")
    assert note.is_hidden()
    tagged = re.sub(r"\t\d+\t\w+\t", "\t_\t_\t", parsed_by_command(model, "Go!", "--text"))
    parse(page, tagged.rstrip("\n"))
    assert forms(page) == [["Go", "!"]]
    assert page.locator(".words td.upos").first.text_content() == tagged.split("\t")[3]
    page.locator("#model").select_option("tiny")
    form.select_option("raw")
    assert note.is_hidden()


@pytest.mark.extended
def test_of_one_model_there_is_no_choice(open_page, small_service):
    page = open_page(small_service.url)
    parse(page, TEXT)
    assert page.locator("#model-field").is_hidden()
    assert status(page) == "3 sentences, parsed by tiny."


def test_by_keys_alone(page):
    seen = []
    for _ in range(3):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id"))
    assert seen == ["model", "input", "text"]
    page.keyboard.type("Go!\nDon't go!")
    page.keyboard.press("Control+Enter")
    wait_for_answer(page)
    assert len(forms(page)) == 2
    for name in ("parse", "copy-link", "copy-conllu"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == name
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "tree-box"
    while page.evaluate("document.activeElement.tagName") != "SUMMARY":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("details").first.get_attribute("open") is None


def test_screen_readers_are_told(page):
    parse(page, "Go!")
    assert page.locator("#status").get_attribute("aria-live") == "polite"
    [tree] = trees(page)
    assert tree.get_attribute("role") == "img"
    assert tree.get_attribute("aria-label").startswith("Dependency tree. Go: ")
    fields = page.locator("input, select, textarea").all()
    assert all(page.locator(f"label[for={field.get_attribute('id')}]").count() == 1 for field in fields)
    assert page.get_by_role("region", name="Words of sentence 1").count() == 1


def test_hostile_texts_are_only_texts(page):
    parse(page, "\n".join(text.replace("\n", " ") for text in HOSTILE_TEXTS))
    words = {word for sentence in forms(page) for word in sentence}
    page.locator("#input").select_option("tokenized")
    parse(page, "\n".join(HOSTILE_TEXTS))
    words |= {word for sentence in forms(page) for word in sentence}
    assert "</title><script>alert(1)</script>" in words
    assert page.locator("main script, main img, main a, main iframe").count() == 0


@pytest.mark.extended
def test_of_many_sentences_the_first_are_shown_and_others_on_demand(page):
    parse(page, "It was round. " * 5_000)  # 20,000 words
    assert status(page) == "5,000 sentences, parsed by tiny."
    assert page.locator(".sentence").count() == 20
    assert page.locator("#more").text_content() == "Show 20 more of 4,980 sentences"
    page.locator("#more").click()
    assert page.locator(".sentence").count() == 40
    assert page.evaluate("document.activeElement.querySelector('h2').textContent") == "21"
    page.locator(".sentence").last.scroll_into_view_if_needed()
    page.locator(".sentence").last.locator("svg").wait_for()
    page.locator(".sentence").last.locator(".word").first.hover()
    assert page.locator("#word-box p").text_content() == "It"
    parse(page, "Go!")
    assert page.locator(".sentence").count() == 1
    assert page.locator("#more").is_hidden()


@pytest.mark.extended
def test_a_long_parse_can_be_stopped(page):
    write(page, "It was round. " * 50_000)
    page.locator("#parse").click()
    page.locator(".sentence").first.wait_for()
    page.locator("#stop").click()
    assert status(page).startswith("Stopped after ")
    assert page.locator("#stop").is_hidden()
    assert page.evaluate("document.activeElement.id") == "parse"
    parse(page, "Go!")
    assert forms(page) == [["Go", "!"]]


@pytest.mark.extended
def test_a_narrow_window_is_not_scrolled_sideways(open_page, service):
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = opened(open_page, service, **phone)
    for text in (TEXT * 3, "The cat " * 40, "w" * 900, "Go! " * 200):
        parse(page, text)
        page.locator(".tree-box svg").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    parse(page, "The cat " * 40)
    for box in (".tree-box", ".table-box"):
        width, inner = page.locator(box).first.evaluate("(box) => [box.scrollWidth, box.clientWidth]")
        assert width > inner
    page.locator(".word").first.tap()
    assert page.locator("#word-box p").text_content() == "The"


@pytest.mark.extended
def test_texts_from_the_right(page):
    page.locator("#input").select_option("tokenized")
    parse(page, "، دەريا abc")
    trees(page)
    places = page.locator(".word .form").evaluate_all(
        "(forms) => forms.map((form) => Number(form.getAttribute('x')))"
    )
    assert places == sorted(places, reverse=True)
    assert page.locator("#text").evaluate("(field) => getComputedStyle(field).direction") == "rtl"
