"""Nothing of a transformer is imported where none is asked for."""

import subprocess
import sys

import pytest

from parser.parsing.transformer_files import refuse_missing_libraries

WITHOUT = """
import sys
import parser.api, parser.cli
assert parser.cli.main(["train", sys.argv[1], "--run", sys.argv[2], "--set", "training.epochs=1"]) == 0
print([name for name in ("transformers", "tokenizers", "peft", "accelerate") if name in sys.modules])
"""


def test_training_without_a_transformer_imports_no_library_for_one(config_file, tmp_path):
    command = [sys.executable, "-c", WITHOUT, str(config_file), str(tmp_path / "run")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.splitlines()[-1] == "[]"


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match="pip install 'stack-parser\\[transformers\\]'"):
        refuse_missing_libraries()
