"""Nothing of a transformer is imported where none is asked for."""

import subprocess
import sys

import pytest
import torch

from parser.parsing.model import Model
from parser.parsing.transformer_files import refuse_missing_libraries

WITHOUT = """
import sys
import parser.api, parser.cli
assert parser.cli.main(["train", sys.argv[1], "--run", sys.argv[2], "--set", "training.epochs=1"]) == 0
print([name for name in ("transformers", "tokenizers", "peft", "accelerate") if name in sys.modules])
"""


@pytest.mark.extended
def test_training_without_a_transformer_imports_no_library_for_one(config_file, tmp_path):
    command = [sys.executable, "-c", WITHOUT, str(config_file), str(tmp_path / "run")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.splitlines()[-1] == "[]"


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "peft", None)
    install = r"^a parser with a pretrained transformer needs .*: pip install -e '\.\[transformers\]'$"
    with pytest.raises(ValueError, match=install):
        refuse_missing_libraries()
    for name in ("settings.json", "vocabulary.json", "weights.safetensors", "transformer/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=install):
        Model.load(tmp_path, torch.device("cpu"))
