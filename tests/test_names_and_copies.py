"""Class names with one meaning, and no copies."""

import ast
import re
from collections import defaultdict
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended

MAX_COPY = 10
"""In lines."""
FILES = sorted([*Path("parser").rglob("*.py"), *Path("tests").rglob("*.py")])

OF_CLIENT = Path("parser/client/messages.py")
"""The classes of the service's messages under the same names, written by a script."""


@cache
def trees():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def test_a_class_name_has_one_definition():
    places = defaultdict(list)
    for path, tree in trees().items():
        if path.parts[0] == "parser" and path != OF_CLIENT:
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def code_lines(path):
    """The numbered lines except blank lines, imports, and lines of a single value or bracket, as in lists."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if text and not re.match(r"(from|import) |[\w.\"'*]+,$|[)\]}]+,?$", text):
            yield number, text


def test_no_code_is_copied():
    seen, copies = {}, []
    for path in FILES:
        lines = list(code_lines(path))
        windows = zip(*(islice(lines, start, None) for start in range(MAX_COPY + 1)), strict=False)
        for window in windows:
            text = "\n".join(line for _, line in window)
            here = f"{path}:{window[0][0]}"
            if seen.setdefault(text, here) != here:
                copies.append(f"{here} is as {seen[text]}")
    assert copies == []
