"""The page of `stack-parser draw` in a real browser."""

from __future__ import annotations

import pytest
from pages.small_trees import ALL, CATS, DOGS, FRENCH, GOLD, HOSTILE, UYGHUR, parsed

from parser.pages.trees_page import trees_page
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import with_probabilities

DRAWN = "document.querySelectorAll('.tree-box svg').length"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture
def written(tmp_path):
    """A function that writes a page of these sentences, and returns its path."""

    def write(*sentences):
        path = tmp_path / "page.html"
        path.write_text(trees_page("Trees", *sentences), encoding="utf-8")
        return path

    return write


@pytest.fixture
def compared(written):
    return written(parsed(ALL), parsed(GOLD))


@pytest.fixture
def large(written):
    """A page with 2,000 sentences."""
    return written(read_treebank("data/quickstart/train.conllu"))


def wait_for_trees(page, least):
    """Wait for drawn trees without running a function in the page, which the page's policy forbids."""
    page.locator(".tree-box svg").nth(least - 1).wait_for(state="attached")


def shown(page):
    return page.locator(".sentence:visible h2").all_text_contents()


def marked(page):
    return page.locator(".sentence:visible .marked .form").all_text_contents()


def current(page):
    return page.evaluate("document.activeElement.querySelector('h2')?.textContent")


def test_trees_are_drawn_as_given(open_page, compared):
    page = open_page(compared)
    wait_for_trees(page, 5)
    tree = page.locator(".tree-box svg").first
    assert tree.get_attribute("role") == "img"
    assert tree.get_attribute("aria-label") == (
        "Dependency tree. Dogs: obl of bark, wrong, gold: nsubj of bark; bark: root of ROOT; "
        "loudly: advmod of Dogs, wrong, gold: advmod of bark."
    )
    kinds = tree.locator(".arc").evaluate_all("(arcs) => arcs.map((arc) => arc.classList[1])")
    assert kinds == ["mislabelled", "right", "wrong", "missed"]
    labels = [text.replace("\xa0", " ") for text in tree.locator(".label").all_text_contents()]
    assert labels == ["✗ obl gold: nsubj", "root", "✗ advmod", "advmod"]
    assert page.locator(".scores").first.text_content() == "✗ 2 errors · UAS 66.7 · LAS 33.3"
    assert page.locator(".legend li:visible").count() == 4
    assert page.locator(".token .form").all_text_contents() == ["du"]
    assert HOSTILE in page.locator(".tree-box .form").all_text_contents()
    assert page.locator("#sentences img").count() == 0


FILTERS = [
    ({"word": "DO"}, ["dogs"], ["Dogs"]),
    ({"upos": "NOUN"}, ["dogs", "cats", "river", "du"], ["Dogs", "Cats", "دەريا", "chat"]),
    ({"label": "nsubj"}, ["dogs", "cats"], ["Dogs", "Cats"]),
    ({"error": "any"}, ["dogs"], ["Dogs", "loudly"]),
    ({"error": "head"}, ["dogs"], ["loudly"]),
    ({"error": "label"}, ["dogs"], ["Dogs"]),
    ({"error": "none"}, ["cats", "river", "hostile</title>", "du"], []),
    ({"word": "s", "upos": "NOUN", "error": "none"}, ["cats"], ["Cats"]),
    ({"word": "no such word"}, [], []),
]
"""The chosen values, the sentences that are then shown, and the words that are highlighted."""


def test_filters(open_page, compared):
    page = open_page(compared)
    wait_for_trees(page, 5)
    for values, sentences, words in FILTERS:
        for name, value in values.items():
            field = page.locator(f"#{name}")
            field.fill(value) if name == "word" else field.select_option(value)
        assert (values, shown(page), marked(page)) == (values, sentences, words)
        assert page.locator("#count").text_content() == f"{len(sentences)} of 5 sentences"
        assert page.locator("#nothing").is_visible() == (not sentences)
        page.locator("#reset-button").click()
        assert len(shown(page)) == 5
        assert page.evaluate("location.hash") == ""


def test_a_view_can_be_linked(open_page, compared):
    page = open_page(compared)
    page.locator("#upos").select_option("ADV")
    page.locator("#word").fill("loud & clear")
    assert page.evaluate("location.hash") == "#word=loud+%26+clear&upos=ADV"
    page.locator("#word").fill("loud")
    again = open_page(compared, page.evaluate("location.hash"))
    assert shown(again) == ["dogs"]
    assert again.locator("#word").input_value() == "loud"


@pytest.mark.extended
def test_order_by_errors(open_page, written):
    page = open_page(written(parsed(FRENCH + ALL), parsed(FRENCH + GOLD)), "#sort=errors&upos=nonsense")
    assert shown(page)[:2] == ["dogs", "du"]
    page.locator("#sort").select_option("")
    assert shown(page)[:2] == ["du", "dogs"]


@pytest.mark.extended
def test_without_gold_there_is_nothing_about_errors(open_page, written):
    page = open_page(written(parsed(ALL)))
    assert page.locator(".with-gold:visible").count() == 0
    assert page.locator(".arc.plain").count() > 0


def with_shares(text, shares):
    """The sentences of a text, with the probabilities of their arcs."""
    left = iter(shares)
    return [with_probabilities(sentence, [next(left) for _ in sentence.forms]) for sentence in parsed(text)]


@pytest.fixture
def uncertain(written):
    sentences = with_shares(DOGS + CATS + FRENCH, [0.9, 0.99, 0.4, 0.97, 1, 0.5, 0.79, 0.8])
    return written([*sentences, *parsed(UYGHUR)])


@pytest.mark.extended
def test_doubtful_arcs_are_drawn_as_such(open_page, uncertain):
    page = open_page(uncertain)
    wait_for_trees(page, 4)
    doubtful = page.locator("#sentences .arc.doubtful")
    assert [doubtful.nth(place).get_attribute("data-dependent") for place in range(3)] == ["3", "1", "2"]
    labels = page.locator(".tree-box .label").all_text_contents()
    assert [label for label in labels if "?" in label] == ["advmod ?", "case ?", "det ?"]
    described = page.locator(".tree-box svg").first.get_attribute("aria-label")
    assert described == (
        "Dependency tree. Dogs: obl of bark; bark: root of ROOT; loudly: advmod of Dogs, doubtful."
    )
    assert doubtful.count() == 3
    [explained] = page.locator(".legend li:visible").all_text_contents()
    assert explained.endswith("doubtful arc: less probable than 80 %")


def test_enhanced_dependencies_are_drawn_below_the_words(open_page, written):
    text = DOGS.replace("obl\t_", "obl\t2:obl:of|3:nsubj|8.1:obj").replace("root\t_", "root\t0:root")
    page = open_page(written(parsed(text)))
    wait_for_trees(page, 1)
    tree = page.locator(".tree-box svg").first
    kinds = tree.locator(".arc").evaluate_all("(arcs) => arcs.map((arc) => arc.classList[1])")
    assert kinds == ["plain", "plain", "plain", "enhanced"]
    assert tree.get_attribute("aria-label").endswith(
        "loudly: advmod of Dogs. Enhanced: Dogs: nsubj of loudly."
    )
    [word, label] = (tree.locator(which).first.bounding_box() for which in (".word .form", ".label.enhanced"))
    assert label["y"] > word["y"] + word["height"]
    [explained] = page.locator(".legend li:visible").all_text_contents()
    assert explained == "enhanced dependency from another head"
    page.locator(".word").first.hover()
    facts = page.locator("#word-box dd").all_text_contents()
    assert "obl:of of bark, nsubj of loudly, obj of 8.1" in facts


@pytest.mark.extended
def test_filters_by_probability(open_page, uncertain):
    page = open_page(uncertain)
    assert page.locator("#error").is_hidden()
    for below, sentences, words in (
        ("95", ["dogs", "du"], ["Dogs", "loudly", "de", "le", "chat"]),
        ("80", ["dogs", "du"], ["loudly", "de", "le"]),
        ("50", ["dogs"], ["loudly"]),
    ):
        page.locator("#confidence").select_option(below)
        wait_for_trees(page, 1)
        assert (shown(page), marked(page)) == (sentences, words)
    page.locator("#reset-button").click()
    page.locator("#sort").select_option("doubts")
    assert shown(page) == ["du", "dogs", "cats", "river"]
    assert page.evaluate("location.hash") == "#sort=doubts"


def test_keys(open_page, compared):
    page = open_page(compared)
    page.keyboard.press("j")
    assert current(page) == "dogs"
    page.keyboard.press("j")
    assert current(page) == "cats"
    page.keyboard.press("k")
    page.keyboard.press("ArrowRight")
    box = page.locator("#word-box")
    assert box.locator("p").text_content() == "Dogs"
    assert box.locator("dd").all_text_contents() == ["NOUN", "obl of bark", "nsubj of bark"]
    page.keyboard.press("Escape")
    assert not box.is_visible()
    page.keyboard.press("/")
    page.keyboard.type("jk")
    assert page.locator("#word").input_value() == "jk"
    page.keyboard.press("Escape")
    assert page.locator("#word").input_value() == ""
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "upos"


def test_the_pointer_shows_what_is_known_of_a_word(open_page, compared):
    page = open_page(compared)
    page.locator(".word").first.hover()
    assert page.locator("#word-box p").text_content() == "Dogs"
    assert page.locator(".arc.chosen").count() == 2
    page.locator("h1").hover()
    page.wait_for_selector("#word-box", state="hidden")


@pytest.mark.extended
def test_words_of_scripts_from_the_right(open_page, compared):
    page = open_page(compared, "#word=abc")
    wait_for_trees(page, 1)
    places = page.locator(".sentence:visible .word .form").evaluate_all(
        "(forms) => forms.map((form) => Number(form.getAttribute('x')))"
    )
    assert places == sorted(places, reverse=True)
    page.keyboard.press("j")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#word-box p").text_content() == "،"


@pytest.mark.extended
def test_dark_and_light(open_page, compared):
    light, dark = (
        open_page(compared, color_scheme=scheme).evaluate(BACKGROUND) for scheme in ("light", "dark")
    )
    assert (light, dark) == ("rgb(245, 246, 248)", "rgb(20, 23, 27)")


@pytest.mark.extended
def test_a_narrow_window_is_not_scrolled_sideways(open_page, large):
    page = open_page(large, viewport={"width": 400, "height": 800})
    wait_for_trees(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(
        "[...document.querySelectorAll('.tree-box')].some((b) => b.scrollWidth > b.clientWidth)"
    )


@pytest.mark.extended
def test_only_trees_near_the_window_are_drawn(open_page, large):
    page = open_page(large)
    wait_for_trees(page, 1)
    assert page.evaluate(DRAWN) < 40
    page.keyboard.press("/")
    page.keyboard.type("the")
    count = page.locator("#count").text_content()
    assert count.endswith(" of 2,000 sentences")
    assert 0 < int(count.split()[0].replace(",", "")) < 2000
    last = page.locator(".sentence:visible").last
    assert last.locator("svg").count() == 0
    last.scroll_into_view_if_needed()
    last.locator("svg").wait_for()
    assert page.evaluate(DRAWN) < 80


@pytest.mark.extended
def test_for_printing_all_that_is_shown_is_drawn(open_page, large):
    page = open_page(large, "#word=dog")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    boxes = page.locator(".sentence:visible .tree-box")
    assert boxes.count() == page.locator(".sentence:visible .tree-box svg").count()
