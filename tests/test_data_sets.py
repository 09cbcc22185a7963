"""Data sets of the speed measurements: they are downloaded completely, and a page lists all of them."""

import re
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from programs import script

ROOT = Path(__file__).parent.parent
PLACE = re.compile(r"\$\{PARSER_DATA\}/([\w./-]+)")


@pytest.fixture
def remote(tmp_path):
    """A folder with a file of a data set, and one that has changed since."""
    folder = tmp_path / "remote" / "some"
    folder.mkdir(parents=True)
    (folder / "original.txt").write_text("trees\n")
    (folder / "changed.txt").write_text("others\n")
    return folder


@pytest.fixture
def download(remote, tmp_path, monkeypatch):
    """Calls the script, into a folder `data`."""
    module = script("download_data")
    files = {"good": "original.txt", "bad": "changed.txt", "absent": "absent.txt"}
    sets = {
        name: {
            "licence": "MIT",
            "at": f"{remote.parent.as_uri()}/some/",
            "files": {f"{name}/a.txt": {"path": file, "sha256": sha256(b"trees\n").hexdigest()}},
        }
        for name, file in files.items()
    }
    catalogue = tmp_path / "data_sets.yaml"
    catalogue.write_text(yaml.safe_dump(sets))
    monkeypatch.setattr(module, "DATA_SETS", catalogue)

    def run(*names):
        monkeypatch.setattr(sys, "argv", ["script", *names, "--into", str(tmp_path / "data")])
        return module.main()

    return run


def test_a_set_is_downloaded_once(download, remote, tmp_path, capsys):
    target = tmp_path / "data/good/a.txt"
    assert download("good") == 0
    assert target.read_text() == "trees\n"
    assert capsys.readouterr().out == f"{target}\nlicence: MIT\n"
    (remote / "original.txt").unlink()
    assert download("good") == 0  # does not need the address
    target.write_text("changed here\n")
    assert download("good") == 2
    assert "is there, and is not the published file; move it away" in capsys.readouterr().err
    assert target.read_text() == "changed here\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bad", "changed.txt: not the file that was measured with, and not kept; its SHA-256 is "),
        ("absent", "absent.txt: "),
        ("other", "other: no such set; available: "),
    ],
)
def test_what_cannot_be_had_leaves_nothing(download, tmp_path, capsys, name, message):
    assert download(name) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_the_sets_are_listed(download, capsys):
    assert download() == 0
    assert "good: 1 files; licence: MIT" in capsys.readouterr().out


def test_the_page_tells_of_every_set_and_every_file_of_a_config_is_in_one():
    module = script("download_data")
    sets = module.data_sets(module.DATA_SETS)
    page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    assert [name for name in sets if f"`SET={name}`" not in page] == []
    assert all(own.at.startswith("https://") for own in sets.values())
    assert all(
        re.fullmatch("[0-9a-f]{64}", file["sha256"]) for own in sets.values() for file in own.files.values()
    )
    known = [name for own in sets.values() for name in own.files]
    wanted = {
        name
        for path in ROOT.glob("configs/speed/*.yaml")
        for name in PLACE.findall(path.read_text(encoding="utf-8"))
    }
    derived = {name for name in wanted if f"`{Path(name).name}`" in page}
    missing = [
        name
        for name in wanted - derived
        if not name.startswith("ud/") and not any(file.startswith(name) for file in known)
    ]
    assert missing == []
