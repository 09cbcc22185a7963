"""What is read from a card, which may come from a stranger."""

import pytest

from parser.cli import main
from parser.models.model_card import OF_TEXT, OF_TOKENS, read_card
from parser.models.model_files import Folder

CARD = """---
license: other
license_name: LGPL-LR
model-index:
- name: toy
  results:
  - task: {type: token-classification, name: "Dependency parsing, from raw text"}
    dataset: {type: universal_dependencies, name: UD_Toy}
    metrics:
    - {type: uas, value: 80.5, name: UAS}
    - {type: las, value: 71, name: LAS}
---
# toy
"""


def card_of(folder, text):
    (folder / "README.md").write_text(text)
    return read_card(Folder(folder))


def test_licence_and_scores(tmp_path):
    card = card_of(tmp_path, CARD)
    assert card.licence == "LGPL-LR"
    assert card.score("las", OF_TEXT) == 71
    assert card.score("las", OF_TOKENS) is None
    assert card.score("mlas", OF_TEXT) is None


@pytest.mark.parametrize(
    "text", [CARD.replace("\n", "\r\n"), "\ufeff" + CARD, CARD.partition("# toy")[0].rstrip("\n")]
)
def test_editors_may_change_line_ends(tmp_path, text):
    (tmp_path / "README.md").write_bytes(text.encode())
    assert read_card(Folder(tmp_path)).licence == "LGPL-LR"


@pytest.mark.parametrize("text", ["", "# toy\n", "---\n---\n", "---\nlicense: ''\n---\n"])
def test_a_card_that_tells_nothing(tmp_path, text):
    assert card_of(tmp_path, text).licence == ""


def test_a_model_without_a_card(tmp_path):
    assert read_card(Folder(tmp_path)) is None


@pytest.mark.parametrize(
    "text",
    [
        "---\n: [\n---\n",
        "---\n- list\n---\n",
        "---\nlicense: {}\n---\n",
        "---\nlicense: !!python/object/apply:os.getcwd []\n---\n",
        "---\nlicense: 2001-99-99\n---\n",
        f"---\nlicense: {'[' * 100_000}\n---\n",
        CARD.replace("80.5", "high"),
        CARD + "x" * (1 << 20),
    ],
)
def test_what_can_not_be_read_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match=r"README\.md"):
        card_of(tmp_path, text)


def test_models_without_cards_are_listed_too(tmp_path, capsys):
    assert main(["pack", "tests/model", "-o", str(tmp_path / "toy.stackparser")]) == 0
    capsys.readouterr()
    assert main(["models", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "toy"
