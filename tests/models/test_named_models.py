"""Models by name: from a folder, from the environment, and from installed packages."""

import shutil
from pathlib import Path

import pytest

from parser import load
from parser.cli import main
from parser.models import named_models
from parser.models.named_models import find_model, model_in, name_of, named_path
from parser.training.initial_model import initial_path
from parser.training.teachers import DistillationSettings, teacher_paths


@pytest.fixture
def folder(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for name in ("wolof-wtb", "ancient_greek-ptnk", "english-ewt", "english-gum"):
        (models / f"{name}.stackparser").write_text("")
    (models / "mine.stackparser").write_text("")
    (models / "report.md").write_text("")
    return models


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("wolof-wtb", "wolof-wtb"),
        ("UD_Wolof-WTB", "wolof-wtb"),
        ("Wolof", "wolof-wtb"),
        ("Ancient Greek", "ancient_greek-ptnk"),
        ("UD_Ancient_Greek-PTNK", "ancient_greek-ptnk"),
        ("english-gum", "english-gum"),
    ],
)
def test_by_treebank_or_language(folder, text, name):
    assert model_in(folder, text) == folder / f"{name}.stackparser"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("english", "'english' is several models; take one of english-ewt, english-gum"),
        ("greek", "no model is 'greek'; take one of ancient_greek-ptnk, english-ewt, english-gum, mine, "),
        ("", "no model is ''"),
        ("../models/wolof-wtb", "no model is"),
    ],
)
def test_what_is_no_name_of_one(folder, text, message):
    with pytest.raises(ValueError, match=message):
        model_in(folder, text)


def test_a_folder_without_models(tmp_path):
    with pytest.raises(ValueError, match=r"has no model, which would be a file NAME\.stackparser"):
        model_in(tmp_path, "wolof")


def test_a_folder_that_cannot_be_read(tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")  # which even root cannot read
    for name, why in (
        ("loop", "Too many levels of symbolic links"),
        ("nowhere", "No such file or directory"),
    ):
        with pytest.raises(ValueError, match=f"{name}: cannot be read: {why}"):
            model_in(tmp_path / name, "wolof")
        assert main(["models", str(tmp_path / name)]) == 2
        assert f"{name}: cannot be read: {why}\n" in capsys.readouterr().err


def test_a_broken_model_does_not_hide_the_others(tmp_path, capsys):
    for name in "ac":
        assert main(["pack", "tests/model", "-o", str(tmp_path / f"{name}.stackparser")]) == 0
    (tmp_path / "b.stackparser").write_text("no zip file")
    (tmp_path / "d.stackparser").symlink_to("nowhere")
    capsys.readouterr()
    assert main(["models", str(tmp_path)]) == 2
    written = capsys.readouterr()
    assert [line.split()[0] for line in written.out.splitlines()[1:]] == ["a", "c"]
    assert [line.partition(": ")[0] for line in written.err.splitlines()] == [
        str(tmp_path / f"{name}.stackparser") for name in "bd"
    ]


def test_an_error_names_the_variable_that_led_to_the_folder(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, fault in ((folder, "no model is 'greek'"), (tmp_path / "nowhere", "cannot be read")):
        monkeypatch.setenv("PARSER_MODELS", str(path))
        with pytest.raises(ValueError, match=rf"{fault}.*\({path} is the folder that PARSER_MODELS names\)$"):
            find_model("greek")


def test_the_folder_of_the_environment_is_for_names_of_nothing_else(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_model("wolof-wtb") == Path("wolof-wtb")
    monkeypatch.setenv("PARSER_MODELS", str(folder))
    assert find_model("wolof-wtb") == folder / "wolof-wtb.stackparser"
    assert find_model("runs/wolof-wtb/model") == Path("runs/wolof-wtb/model")
    (tmp_path / "wolof-wtb").mkdir()
    assert find_model("wolof-wtb") == Path("wolof-wtb")
    with pytest.raises(ValueError, match="'english' is several models"):
        find_model("english")


def test_a_name_of_several_shipped_models_is_refused(folder, monkeypatch):
    monkeypatch.setattr(named_models, "SHIPPED", folder)
    assert find_model("wolof") == folder / "wolof-wtb.stackparser"
    with pytest.raises(ValueError, match="'english' is several models"):
        find_model("english")


def test_names_may_have_dots_and_blanks(folder, monkeypatch):
    (folder / "old_church-2.16.stackparser").write_text("")
    monkeypatch.setenv("PARSER_MODELS", str(folder))
    assert find_model("old_church-2.16") == folder / "old_church-2.16.stackparser"
    assert find_model("Old Church") == folder / "old_church-2.16.stackparser"


def test_a_model_that_ships_is_found_without_a_word_about_it(folder, tmp_path, monkeypatch):
    shipped = tmp_path / "checkout" / "models"
    shipped.mkdir(parents=True)
    (shipped / "welsh-ccg.stackparser").write_text("")
    (shipped / "english-ewt.stackparser").write_text("")
    monkeypatch.setattr(named_models, "SHIPPED", shipped)
    monkeypatch.delenv("PARSER_MODELS", raising=False)
    assert find_model("welsh") == find_model("UD_Welsh-CCG") == shipped / "welsh-ccg.stackparser"
    assert find_model("irish") == Path("irish")
    monkeypatch.setenv("PARSER_MODELS", str(folder))
    assert find_model("welsh") == shipped / "welsh-ccg.stackparser"
    assert find_model("english-ewt") == folder / "english-ewt.stackparser"
    with pytest.raises(ValueError, match="'english' is several models"):
        find_model("english")
    with pytest.raises(ValueError, match="no model is 'irish'"):
        find_model("irish")


def test_the_folder_of_models_that_ship_is_that_of_the_checkout():
    assert Path("models").resolve() == named_models.SHIPPED


def test_installed_models_come_first(folder, tmp_path, monkeypatch):
    information = tmp_path / "site" / "toy-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[stack_parser.models]\nwolof = toy_model:MODEL\nstack_parser_irish_idt = toy_model:MODEL\n"
    )
    (tmp_path / "site" / "toy_model.py").write_text("MODEL = 'here/model.stackparser'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PARSER_MODELS", str(folder))
    for name in ("wolof", "irish-idt", "UD_Irish-IDT", "stack_parser_irish_idt"):
        assert find_model(name) == Path("here/model.stackparser")


@pytest.mark.parametrize(
    ("path", "name"), [("x/wolof-wtb.stackparser", "wolof-wtb"), ("runs/a/model", "a"), ("runs/a", "a")]
)
def test_the_name_of_a_model(path, name):
    assert name_of(Path(path)) == name


def test_commands_and_programs_take_names(tmp_path, monkeypatch, capsys):
    models, test = tmp_path / "models", "tests/model/parsed.conllu"
    models.mkdir()
    assert main(["pack", "tests/model", "-o", str(models / "toy-tiny.stackparser")]) == 0
    monkeypatch.setenv("PARSER_MODELS", str(models))
    assert main(["parse", "toy", test, "-o", str(tmp_path / "named.conllu")]) == 0
    assert main(["parse", "tests/model", test, "-o", str(tmp_path / "plain.conllu")]) == 0
    assert (tmp_path / "named.conllu").read_bytes() == (tmp_path / "plain.conllu").read_bytes()
    assert main(["pack", "toy", "--precision", "float16", "-o", str(tmp_path / "half.stackparser")]) == 0
    assert named_path("toy") == ("toy-tiny", models / "toy-tiny.stackparser")
    assert named_path("en=toy") == ("en", models / "toy-tiny.stackparser")
    assert initial_path("toy") == models / "toy-tiny.stackparser"
    assert teacher_paths(DistillationSettings(models=["toy"])) == (models / "toy-tiny.stackparser",)
    words = ["dogs", "bark"]
    assert load("toy-tiny").parse(words) == load("tests/model").parse(words)
    monkeypatch.delenv("PARSER_MODELS")
    shutil.copy(models / "toy-tiny.stackparser", models / "other-tiny.stackparser")
    assert load(["toy", "UD_Other-Tiny"], folder=models).parse(words) == load("tests/model").parse(words)
    monkeypatch.setenv("PARSER_MODELS", str(models))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["parse", "welsh", test])
    assert "no model is 'welsh'; take one of other-tiny, toy-tiny" in capsys.readouterr().err
