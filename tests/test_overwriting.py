"""No command writes into what it reads."""

import os
import shutil
import stat

import pytest

from parser.cli import main
from parser.system.files import refuse_to_overwrite

TREES, MODEL, CURVES = "trees.conllu", "run/model", "run/curves.svg"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder, in which commands run, with a model in the folder of a run and a treebank."""
    shutil.copytree("tests/model", tmp_path / MODEL)
    shutil.copy(tmp_path / MODEL / "parsed.conllu", tmp_path / TREES)
    (tmp_path / CURVES).write_text("<svg/>")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "link").symlink_to(MODEL)
    os.link(tmp_path / TREES, tmp_path / "hard.conllu")
    os.link(tmp_path / MODEL / "settings.json", tmp_path / "hard.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("output", "source", "fault"),
    [
        (TREES, TREES, "would overwrite"),
        (TREES, "hard.conllu", "would overwrite"),
        ("run/../trees.conllu", TREES, "would overwrite"),
        ("hard.yaml", MODEL, "would overwrite"),
        ("link/settings.json", MODEL, "lies in"),
        (f"{MODEL}/new/page.html", "link", "lies in"),
        ("run", MODEL, "would overwrite"),
        ("run", "run/model/settings.json", "would overwrite"),
        (MODEL, MODEL, "would overwrite"),
    ],
)
def test_what_is_read_is_not_overwritten(files, output, source, fault):
    with pytest.raises(ValueError, match=f"^{output}: {fault} {source}, which is read; choose another name$"):
        refuse_to_overwrite(output, ["nowhere", source])


@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("run/page.html", MODEL),
        ("model.stackparser", MODEL),
        ("trees.conllu.gz", TREES),
        ("/dev/null", "/dev/null"),
        ("-", "-"),
        ("nowhere/out", "nowhere/in"),
        ("corpus", TREES),
    ],
)
def test_other_places_are_free(files, output, source):
    refuse_to_overwrite(output, [source])


def test_standard_output_and_input_may_be_files(files):
    def refused(descriptor, path, *names):
        kept, file = os.dup(descriptor), os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            os.dup2(file, descriptor)
            with pytest.raises(ValueError, match="would overwrite") as told:
                refuse_to_overwrite(*names)
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)
            os.close(file)
        return str(told.value)

    assert refused(1, TREES, "-", [TREES]).startswith(f"standard output: would overwrite {TREES}, which")
    assert refused(1, f"{MODEL}/settings.json", "-", [MODEL]).startswith("standard output: would overwrite")
    assert "overwrite standard input, which" in refused(0, TREES, TREES, ["-"])


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["parse", MODEL, TREES, "-o", "hard.conllu"], f"hard.conllu: would overwrite {TREES}"),
        (["parse", MODEL, TREES, "-o", "link/settings.json"], f"link/settings.json: lies in {MODEL}"),
        (["parse", "no", "no", "--ensemble", MODEL, "-o", f"{MODEL}/x"], f"{MODEL}/x: lies in {MODEL}"),
        (["draw", TREES, "-o", TREES], f"{TREES}: would overwrite {TREES}"),
        (["draw", "nowhere", "--gold", TREES, "-o", TREES], f"{TREES}: would overwrite {TREES}"),
        (["evaluate", MODEL, TREES, "--report", f"{MODEL}/report.html"], f"report.html: lies in {MODEL}"),
        (["evaluate", MODEL, TREES, "--report", TREES], f"{TREES}: would overwrite {TREES}"),
        (["evaluate", MODEL, TREES, "--report", CURVES], f"{CURVES}: would overwrite {CURVES}"),
        (["compare", "nowhere", MODEL, TREES, "--report", f"{MODEL}/x"], f"{MODEL}/x: lies in {MODEL}"),
        (["compare", MODEL, MODEL, TREES, "--report", TREES], f"{TREES}: would overwrite {TREES}"),
        (["pack", MODEL, "-o", f"{MODEL}/settings.json"], f"{MODEL}/settings.json: lies in {MODEL}"),
        (["pack", MODEL, "-o", "hard.yaml"], f"hard.yaml: would overwrite {MODEL}"),
        (["parse-corpus", MODEL, "corpus", f"{MODEL}/trees"], f"{MODEL}/trees: lies in {MODEL}"),
        (["parse-corpus", MODEL, "corpus", "corpus"], "corpus: would overwrite corpus"),
        (["parse-corpus", MODEL, "corpus", "corpus/trees"], "corpus/trees: lies in corpus"),
    ],
)
def test_every_command_refuses_it(files, command, told, capsys):
    before = contents(files)
    assert main(command) == 2
    assert f"{told}, which is read; choose another name\n" in capsys.readouterr().err.replace(f"{files}/", "")
    assert contents(files) == before


PLACES = [
    ["parse", MODEL, TREES, "-o"],
    ["select", MODEL, TREES, "-o"],
    ["draw", TREES, "-o"],
    ["evaluate", MODEL, TREES, "--report"],
    ["compare", MODEL, MODEL, TREES, "--report"],
    ["pack", MODEL, "-o"],
]
"""Commands before the name of the file that they write."""
FOLDERS = [
    ["parse-corpus", MODEL, "corpus"],
    ["train", "no.yaml", "--run"],
    ["table", "no.yaml", "--run"],
    ["train-all", "no", "no.yaml", "-o"],
    ["speed", "no.yaml", "--run"],
    ["plots", "no", "-o"],
]
"""Commands before the name of the folder that they write."""
WRITE_TO_STANDARD_OUTPUT = "parse", "draw"


@pytest.mark.parametrize("command", PLACES, ids=" ".join)
def test_every_command_refuses_a_file_that_is_write_protected(files, command, capsys):
    kept = files / "kept"
    kept.write_text("mine")
    kept.chmod(0o444)
    assert main([*command, "kept"]) == 2
    assert "kept: is write-protected; " in capsys.readouterr().err
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("mine", 0o444)


UNNAMED = [(command, "") for command in PLACES + FOLDERS]
UNNAMED += [(command, "-") for command in PLACES + FOLDERS if command[0] not in WRITE_TO_STANDARD_OUTPUT]


@pytest.mark.parametrize(("command", "name"), UNNAMED)
def test_every_output_has_a_name(files, command, name, capsys):
    before = contents(files)
    with pytest.raises(SystemExit, match="2"):
        main([*command, name])
    fault = "standard output cannot be used here; give a name" if name else "is empty; give"
    assert fault in capsys.readouterr().err
    assert contents(files) == before


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("treebank.train", "tiny.conllu"),
        ("treebank.silver.files", "[silver.conllu]"),
        ("treebank.test", "tiny.conllu"),
        ("parser.network.pretrained", "vectors.txt"),
    ],
)
def test_a_run_is_not_moved_aside_with_what_it_reads(config_file, tmp_path, monkeypatch, capsys, key, name):
    monkeypatch.chdir(tmp_path)
    run, file = tmp_path / "run", name.strip("[]")
    run.mkdir()
    (run / "metrics.jsonl").write_text("{}\n")
    shutil.copy("tiny.conllu", run / file)
    change = f"{key}={name.replace(file, f'run/{file}')}"
    assert main(["train", str(config_file), "--run", "run", "--set", change]) == 2
    assert f"run: would overwrite run/{file}, which is read; choose another name\n" in capsys.readouterr().err
    assert sorted(os.listdir("run")) == sorted(["metrics.jsonl", file])


def test_a_table_trains_in_no_folder_that_it_reads(config_file, tmp_path, capsys):
    table, model = tmp_path / "table.yaml", tmp_path / "model"
    model.mkdir()
    table.write_text(f"title: A\nbase: {config_file}\nrows: {{a: {{set: {{initial_model: {model}}}}}}}\n")
    assert main(["table", str(table), "--run", str(model / "table")]) == 2
    assert f"lies in {model}, which is read" in capsys.readouterr().err
    assert not os.listdir(model)
