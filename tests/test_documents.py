"""What README.md and docs/ name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
REPORTS = [path for path in DOCUMENTS if "| to repeat |" in path.read_text(encoding="utf-8")]
FILE = re.compile(r"(?:THIS_FOLDER|configs|scripts|runs|docs)/[\w./-]+\.(?:yaml|py)\b")
COMMAND = re.compile(r"(?:stack-parser (?:train|speed|table)\s+|CONFIG=)([\w./-]+\.yaml)")


def named(document):
    """Configs and scripts; THIS_FOLDER is the document's."""
    text = document.read_text(encoding="utf-8")
    for name in {*FILE.findall(text), *COMMAND.findall(text)}:
        folder, _, rest = name.partition("/")
        yield document.parent / rest if folder == "THIS_FOLDER" else ROOT / name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_configs_and_scripts_that_a_document_names_exist(document):
    assert [str(path) for path in named(document) if not path.is_file()] == []


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_a_report_can_be_repeated_from_its_own_folder(report):
    line = next(line for line in report.read_text(encoding="utf-8").splitlines() if "| to repeat |" in line)
    for command in line.split(" | ", 1)[1].split("; "):
        assert command.startswith("stack-parser speed THIS_FOLDER/config.yaml --run ANOTHER_FOLDER")
