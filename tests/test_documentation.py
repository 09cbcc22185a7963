"""What README.md and docs/ show can be run, what they name exists, and what they say of the code is true."""

import contextlib
import re
import shlex
from pathlib import Path
from unittest.mock import patch

import pytest
from programs import script
from services import serving

from parser import cli

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob(".github/*.md"))]
FILE = re.compile(r"(?:configs|scripts|runs|docs)/[\w./-]+\.(?:yaml|py)\b")
COMMAND = re.compile(r"(?:stack-parser (?:train|speed|table)\s+|CONFIG=)([\w./-]+\.yaml)")
OURS = re.compile(r"`((?:parser|tests|scripts|configs|docs|data/quickstart)/[\w./-]*)`")
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE = "127.0.0.1:8001"
SHELL = re.compile(r"^ {4}((?:stack-parser|make|python) (?:\\\n|.)*)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]*)(?:#([\w-]*))?\)")
KEY = re.compile(r"(?:`|--set '?)((?:treebank|parser|training)(?:\.(?!(?:py|client)\b)[a-z]\w*)+)")


def name_of(path):
    return str(path.relative_to(ROOT))


def every(pattern):
    """[page, match] of all matches of a pattern in the pages."""
    return [
        pytest.param(page, match, id=f"{name_of(page)}:{page_text[: match.start()].count(chr(10)) + 1}")
        for page, page_text in ((page, page.read_text(encoding="utf-8")) for page in PAGES)
        for match in pattern.finditer(page_text)
    ]


@pytest.mark.parametrize(("page", "match"), every(SNIPPET))
def test_a_snippet_runs(page, match, monkeypatch, tmp_path):
    """Unchanged, and without leaving anything in the project. A service that it needs is started."""
    monkeypatch.chdir(ROOT)
    code = match[1].replace("runs/python", str(tmp_path / "mine"))
    with contextlib.ExitStack() as services:
        if SERVICE in code:
            running = services.enter_context(serving("english-ewt=models/english-ewt.stackparser"))
            code = code.replace(SERVICE, f"127.0.0.1:{running.port}")
        exec(compile(code, name_of(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    names = {name for pattern in (FILE, COMMAND, OURS) for name in pattern.findall(text)}
    assert [name for name in names if "*" not in name and not (ROOT / name).exists()] == []


def anchors(page):
    """The anchors of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "match"), every(LINK))
def test_a_link_leads_somewhere(page, match):
    target, anchor = match[1], match[2]
    if target.startswith("https://"):
        return
    path = page.parent / target if target else page
    assert path.exists()
    assert anchor is None or anchor in anchors(path)


@pytest.mark.parametrize(("page", "match"), every(SHELL))
def test_a_command_is_understood(page, match):
    program, *words = shlex.split(match[1].replace("\\\n", " "), comments=True)
    for word in words:
        path = word.partition("=")[2] or word
        assert not path.startswith(("configs/", "data/quickstart/", "scripts/")) or (ROOT / path).is_file()
    if program == "stack-parser":
        understood(words)
    elif program == "make" and words[0] != "-f":
        made(*words)


def command_line():
    """The parser of `stack-parser`'s arguments."""
    parse_args = patch("argparse.ArgumentParser.parse_args", autospec=True, side_effect=KeyError)
    with parse_args as called, pytest.raises(KeyError):
        cli.main([])
    return called.call_args.args[0]


def understood(words):
    try:
        command_line().parse_args(["placeholder" if word == "FILE..." else word for word in words])
    except SystemExit:
        pytest.fail(f"stack-parser does not understand {shlex.join(words)}")


def made(target, *variables):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{re.escape(target)}: (?:test|\$\(\w+\))\n(?:\t.*\n)*", makefile, re.MULTILINE)
    assert recipe, f"make has no target {target}"
    for variable in variables:
        assert f"$({variable.partition('=')[0]})" in recipe[0]
    passed = dict(variable.split("=", 1) for variable in variables).get("ARGUMENTS")
    if passed and target == "train":
        understood(["train", "CONFIG", *shlex.split(passed)])


def known_settings():
    """The dotted keys in docs/settings.md, which another test compares with the classes, and their groups."""
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    keys = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    return {*keys, *(key.rpartition(".")[0] for key in keys)}


@pytest.mark.parametrize(("page", "match"), every(KEY))
def test_a_setting_exists(page, match):
    assert match[1] in known_settings()


def test_the_settings_of_the_tables_of_accuracy_exist():
    known = known_settings()
    text = (ROOT / "docs/accuracy.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| `([\w.]+)\.` \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert [group for group, _ in tables] == ["parser.network", "training"]
    for group, table in tables:
        cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        names = [name for cell in cells for name in re.findall(r"`([\w.]+)(?:: \w+)?`", cell)]
        assert [name for name in names if f"{group}.{name}" not in known] == []


def test_every_option_that_a_page_names_exists():
    known = set()
    for action in command_line()._subparsers._group_actions[0].choices.values():
        known |= {option for each in action._actions for option in each.option_strings}
    for page in PAGES:
        options = set(re.findall(r"`(--[a-z-]+)[ `=]", page.read_text(encoding="utf-8")))
        assert options <= known, name_of(page)


def test_every_module_in_the_picture_exists():
    boxes = script("draw_architecture").BOXES
    assert [box.module for box in boxes if not (ROOT / "parser" / box.module).exists()] == []
