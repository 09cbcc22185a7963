"""Pages of hostile treebanks in a browser: every tree and all of its texts are drawn, and nothing runs."""

from __future__ import annotations

import re
import shutil

import pytest
from extended import first_of
from pages.small_trees import HOSTILE_TEXTS, comparison_of, report_of, sentence, text_everywhere

from parser.cli import main

MODEL = "tests/model"
ATTACKS = """() => {
    window.refused = [];
    document.addEventListener('securitypolicyviolation', (event) => refused.push(event.effectiveDirective));
    const script = document.createElement('script');
    script.textContent = 'window.ran = true';
    const box = document.createElement('div');
    box.innerHTML = `<p style="color: red">red</p><a href="javascript:window.ran = true">link</a>
        <img src="https://example.org/x.png" onerror="window.ran = true">
        <iframe src="https://example.org"></iframe>`;
    document.body.append(script, box);
    box.querySelector('a').click();
    fetch('https://example.org').catch(() => {});
}"""
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
REFUSED = {*("connect-src", "frame-src", "img-src", "script-src-attr", "script-src-elem", "style-src-attr")}


GOLD = [text_everywhere(text) for text in HOSTILE_TEXTS]
PAGES = {"report": (report_of, 1), "comparison": (comparison_of, 2)}
"""How each page is made, and how often it draws a sentence."""


def draw_all(page):
    """Scroll to each tree of a page, so that all are drawn."""
    places = page.locator(".tree-place").all()
    for place in places:
        place.focus()  # this scrolls there
        place.locator("svg").wait_for(state="attached")
    return [place.locator("svg.tree") for place in places]


@pytest.mark.parametrize("kind", first_of(PAGES))
def test_every_tree_and_every_word_is_drawn(open_page, tmp_path, kind):
    make, times = PAGES[kind]
    path = tmp_path / "page.html"
    path.write_text(make(" ".join(HOSTILE_TEXTS), GOLD), encoding="utf-8")
    page = open_page(path)
    trees = draw_all(page)
    drawn = [tuple(tree.locator(".word .form").all_text_contents()) for tree in trees]
    assert sorted(drawn) == sorted(times * [one.forms for one in GOLD])
    for tree, forms in zip(trees, drawn, strict=True):
        text = forms[1]
        assert tree.locator(".tag").all_text_contents() == [f"{text}1", text, f"{text}3"]
        assert tree.locator(".token .form").all_text_contents() == [f"{text}4"]
        labels = {label.replace("\xa0", " ") for label in tree.locator(".label").all_text_contents()}
        right = labels == {f"{text}1", text, f"{text}3"}
        assert right or labels == {f"✗ other {text}1 gold: {text}1", text, f"✗ {text}3", f"{text}3"}
        assert tree.bounding_box()["height"] > 0
    headings = page.locator("h3").all_text_contents()
    for text in HOSTILE_TEXTS:
        shown = CONTROLS.sub("\ufffd", text)  # data such as words keep them
        assert sum(heading.startswith(f"{shown}, line 1") for heading in headings) == times
    assert page.title().startswith(" ".join(HOSTILE_TEXTS[:2]))
    assert (
        page.locator(
            "img, a:not([href^='#worst-'], [href^='#examples-']), main script, iframe, object, embed"
        ).count()
        == 0
    )


@pytest.mark.extended
@pytest.mark.parametrize("kind", PAGES)
def test_what_a_text_could_bring_in_is_refused(browser, tmp_path, kind):
    """Even if the text were inserted as markup."""
    path = tmp_path / "page.html"
    path.write_text(PAGES[kind][0]("page", GOLD), encoding="utf-8")
    page = browser.new_page()
    asked = []
    page.route(re.compile("^https?:"), lambda route: (asked.append(route.request.url), route.abort()))
    page.goto(path.as_uri())
    page.evaluate(ATTACKS)
    for _ in range(50):
        if set(page.evaluate("refused")) >= REFUSED:
            break
        page.wait_for_timeout(100)
    assert set(page.evaluate("refused")) == REFUSED
    assert page.evaluate("window.ran") is None
    assert asked == []
    page.close()


@pytest.mark.extended
def test_pages_of_commands_with_hostile_files(open_page, reader_of_tags, tmp_path):
    model, treebank = tmp_path / HOSTILE_TEXTS[3], tmp_path / "<script>alert(1)<\u202e\x1b[31m"
    shutil.copytree(MODEL, model)
    forms = [text.replace("\0", "") for text in HOSTILE_TEXTS]
    texts = [
        sentence(f"{form} NOUN 2 nsubj", "bark VERB 0 root", identifier=form, comments=[f"# text = {form}"])
        for form in forms
    ]
    treebank.write_text("".join(texts), encoding="utf-8")
    report = tmp_path / "javascript:alert(1){{ 7 * 7 }}.html"
    commands = {"evaluate": [model, treebank], "compare": [reader_of_tags, model, treebank]}
    for command, files in commands.items():
        assert main([command, *map(str, files), "--report", str(report)]) == 0
        page = open_page(report)
        drawn = {tree.locator(".word .form").first.text_content() for tree in draw_all(page)}
        assert drawn
        assert drawn <= set(forms)
        heading = page.locator("h1").text_content()
        assert str(model) in heading
        assert CONTROLS.sub("\ufffd", str(treebank)) in heading
