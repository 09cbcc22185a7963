"""What a release promises stays, or CHANGELOG.md mentions the change."""

import pytest
from programs import script

from parser.system.version import __version__


@pytest.fixture(name="names")
def names_fixture():
    pytest.importorskip("fastapi")
    pytest.importorskip("spacy")
    return script("write_public_names")


def test_what_has_changed_since_the_release_is_told(names):
    released, changelog = (path.read_text(encoding="utf-8") for path in (names.LIST, names.CHANGELOG))
    if lines := names.untold(names.public_names(), released, changelog):
        what = "These names are not as in docs/public-names.txt. Name them in CHANGELOG.md, below Unreleased"
        how = "or, if this is for a release: python scripts/write_public_names.py"
        pytest.fail("\n".join([f"{what}; {how}", *lines]))


BEFORE = """# of version 1.0.0
command: parse
parse: --keep | {given}
parse: --probabilities
"""
CHANGELOG = """# Changelog

## [Unreleased]

{}

## [1.0.0] - 2027-01-01

- `parse --keep`, `--probabilities`
"""


COMMAND, KEEP, SHARES = ("command", "parse"), ("parse", "--keep", "{given}"), ("parse", "--probabilities")


@pytest.mark.parametrize(
    ("now", "told", "missing"),
    [
        ([COMMAND, KEEP, SHARES], "", []),
        ([COMMAND, KEEP], "", ["- parse: --probabilities"]),
        ([COMMAND, KEEP], "`--probabilities` has gone", []),
        (
            [COMMAND, ("parse", "--keep", "{given,none}"), SHARES],
            "",
            ["+ parse: --keep | {given,none}", "- parse: --keep | {given}"],
        ),
        ([COMMAND, KEEP, SHARES, ("command", "fly")], "`--probabilities` is faster", ["+ command: fly"]),
    ],
)
def test_a_difference_has_to_be_told_below_unreleased(names, now, told, missing):
    public = [names.PublicName(*name) for name in now]
    assert names.untold(public, BEFORE, CHANGELOG.format(told)) == missing


def test_the_list_of_a_release_stays(names, tmp_path, monkeypatch, capsys):
    changelog, path = tmp_path / "CHANGELOG.md", tmp_path / "names.txt"
    monkeypatch.setattr(names, "CHANGELOG", changelog)
    monkeypatch.setattr(names, "LIST", path)
    monkeypatch.setattr(names, "public_names", lambda: [names.PublicName("command", "parse")])
    monkeypatch.setattr("sys.argv", ["write_public_names.py"])
    changelog.write_text("## [Unreleased]\n")
    assert names.main() == names.main() == 0
    written = path.read_text()
    assert written.splitlines()[1:] == ["command: parse"]
    changelog.write_text(f"## [{__version__}] - 2027-01-01\n")
    monkeypatch.setattr(names, "public_names", list)
    assert names.main() == 1
    assert f"{__version__} is released" in capsys.readouterr().err
    assert path.read_text() == written
