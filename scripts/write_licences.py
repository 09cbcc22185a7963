"""Write docs/licences.md: the licences of the program's dependencies, as the installed packages state them.

python scripts/write_licences.py    in an environment with all extras of pyproject.toml
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE, PROJECT = ROOT / "docs" / "licences.md", ROOT / "pyproject.toml"
FOR_DEVELOPERS = ("test", "docs", "check")
"""Extras for work on the checkout; using the program needs none of their packages."""
CLASSIFIER = "License :: OSI Approved :: "
LONGEST = 60
"""Most characters of a licence's name; some packages have the whole text in its place."""
SAME = {
    "MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "ISC License": "ISC",
    "mpl-2.0": "MPL-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache 2": "Apache-2.0",
    "BSD License": "BSD",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD-3-Clause License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "Python Software Foundation License": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""SPDX names of licences, by the other names that packages use."""
INTRODUCTION = """\
# Licences of what the program needs

<!-- Written by scripts/write_licences.py from the packages' own metadata. Do not edit. -->

This page is for those who redistribute the program. It is under the Apache License 2.0 and contains no
third-party code; pip fetches what it needs. A model is under the licence of the treebank that it was trained
on. `stack-parser train-all` puts this licence into the model, and `stack-parser pack` keeps it.

| package | needed for | licence |
|---|---|---|"""
OTHERS = """\
## What these need in turn

On Linux with PyTorch's CPU build. Its build for GPUs also fetches libraries of NVIDIA, under NVIDIA's own
licences.

| licence | packages |
|---|---|"""


def page() -> str:
    direct = needed(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"])
    lines = [f"| {one.name} | {what} | {licence_of(one.name)} |" for one, what in direct.items()]
    by_licence = defaultdict(list)
    for name in sorted(in_turn(direct) - {_name(one) for one in direct}):
        by_licence[licence_of(name)].append(name)
    others = [f"| {licence} | {', '.join(names)} |" for licence, names in sorted(by_licence.items())]
    return "\n".join([INTRODUCTION, *lines, "", OTHERS, *others]) + "\n"


def needed(project: Mapping[str, Any]) -> dict[Requirement, str]:
    """The program's requirements, each with its purpose. project: the `project` table of pyproject.toml."""
    requirements = {Requirement(line): "everything" for line in project["dependencies"]}
    for extra, lines in project["optional-dependencies"].items():
        if extra not in FOR_DEVELOPERS:
            requirements |= {Requirement(line): f"the extra `{extra}`" for line in lines}
    return requirements


def in_turn(needed: Iterable[Requirement]) -> set[str]:
    """The names of these packages and of all their dependencies."""
    seen: set[tuple[str, str]] = set()
    left = list(needed)
    while left:
        requirement = left.pop()
        for extra in ("", *requirement.extras):
            if (key := (_name(requirement), extra)) not in seen:
                seen.add(key)
                left += _requirements(*key)
    return {name for name, _ in seen}


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    """The requirements of a package, without those for other systems."""
    for requirement in map(Requirement, _installed(name).requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _name(requirement: Requirement) -> str:
    return canonicalize_name(requirement.name)


def _installed(name: str) -> Distribution:
    """The installed package. Raises SystemExit if it is not installed."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        sys.exit(f"{name} is not installed: the page needs all extras")


def licence_of(name: str) -> str:
    """The licence that the package states: an SPDX expression, its classifiers, or a line.

    Raises SystemExit if it states none.
    """
    told = _installed(name).metadata
    classifiers = [line.removeprefix(CLASSIFIER) for line in told.get_all("Classifier") or ()]
    named = [line for line in classifiers if line in SAME or line.endswith("License")]
    expression, text = ("".join(told.get_all(key) or ()) for key in ("License-Expression", "License"))
    line = text.strip().partition("\n")[0][:LONGEST]
    stated = expression or ", ".join(SAME.get(one, one) for one in named) or line
    if not stated:
        sys.exit(f"{name} states no licence")
    return SAME.get(stated, stated)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
