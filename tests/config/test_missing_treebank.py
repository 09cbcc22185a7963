"""How to get a treebank whose file is missing."""

import pytest

from parser.cli import main
from parser.config.missing_treebank import how_to_get


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (
            "data/ud/UD_Afrikaans-AfriBooms/af_afribooms-ud-train.conllu",
            "make data TREEBANK=UD_Afrikaans-AfriBooms",
        ),
        (
            "/a b/ud/UD_Ancient_Greek-PTNK/x.conllu",
            "make data TREEBANK=UD_Ancient_Greek-PTNK ARGUMENTS=\"--into '/a b/ud'\"",
        ),
    ],
)
def test_treebanks_of_universal_dependencies_are_downloaded(path, told):
    assert how_to_get(path) == f"; in the project's folder, {told} downloads the treebank"


@pytest.mark.parametrize("path", ["x.conllu", "data/ud/x.conllu", "UD_x", "/UD_My treebank/x.conllu", "/"])
def test_of_other_files_nothing_is_said(path):
    assert how_to_get(path) == ""


def test_a_config_with_a_missing_treebank(config_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data/ud/UD_Wolof-WTB"
    arguments = ["train", str(config_file), "--run", "run", "--set"]
    treebank = "treebank.dev=${PARSER_DATA}/ud/UD_Wolof-WTB/wo_wtb-ud-dev.conllu"
    monkeypatch.delenv("PARSER_DATA", raising=False)
    assert main([*arguments, treebank]) == 2
    assert "No such file or directory; in the project's folder, make data TREEBANK=UD_Wolof-WTB " in (
        capsys.readouterr().err
    )
    folder.mkdir(parents=True)
    (folder / "wo_wtb-ud-test.conllu").touch()
    assert main([*arguments, treebank]) == 2
    assert "data/ud/UD_Wolof-WTB has wo_wtb-ud-test.conllu\n" in capsys.readouterr().err
