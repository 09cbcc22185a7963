"""Build the wheel, install it into an empty environment, and train, evaluate and parse with it there.

python scripts/check_release.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_SOURCE = (".git", ".venv", "build", "runs", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
EPOCHS = 4
SUFFIXES = (".py", ".typed", ".js", ".css", ".html", ".svg")
"""Of the files that are installed."""


def main() -> None:
    """Raises SystemExit with what is wrong."""
    with tempfile.TemporaryDirectory(prefix="stack-parser-release-") as name:
        folder = Path(name)
        wheel = _build(folder)
        _check_content(wheel)
        command = _install(wheel, folder)
        _use(command, folder)
    print(f"{wheel.name}: it trains, evaluates and parses in an empty environment")


def _build(folder: Path) -> Path:
    """From a copy, for what an earlier build left behind would get into the wheel."""
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    _run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)], folder
    )
    return next(folder.glob("*.whl"))


def _check_content(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        found = {name for name in file.namelist() if ".dist-info/" not in name}
        information = [name for name in file.namelist() if ".dist-info/" in name]
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "parser").rglob("*") if path.suffix in SUFFIXES}
    if found != wanted:
        unexpected, missing = sorted(found - wanted), sorted(wanted - found)
        sys.exit(f"{wheel.name} has unexpected files {unexpected} and lacks {missing}")
    for name in ("METADATA", "entry_points.txt", "LICENSE"):
        if not any(path.endswith(f"/{name}") for path in information):
            sys.exit(f"{wheel.name} has no {name}")


def _install(wheel: Path, folder: Path) -> Path:
    """Returns the command that the wheel installs."""
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pins = str(ROOT / "constraints.txt")
    _run([str(python), "-m", "pip", "install", "--quiet", "-c", pins, f"{wheel}[text]"], folder)
    return environment / "bin" / "stack-parser"


def _use(command: Path, folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    shutil.copytree(ROOT / "data" / "quickstart", elsewhere / "data" / "quickstart")
    shutil.copy(ROOT / "configs" / "quickstart.yaml", elsewhere)
    test, model = "data/quickstart/test.conllu", "runs/quickstart/model"
    for arguments in (
        ["--version"],
        ["check", test],
        ["train", "quickstart.yaml", "--set", f"training.epochs={EPOCHS}"],
        ["evaluate", model, test],
        ["parse", model, test, "-o", "parsed.conllu"],
        ["check", "parsed.conllu"],
        ["evaluate", model, test, "--text", "--json"],
        ["draw", "parsed.conllu", "--gold", test],
        ["plugins"],
    ):
        print(f"$ stack-parser {' '.join(arguments)}", flush=True)
        _run([str(command), *arguments], elsewhere)


def _run(command: list[str], folder: Path) -> None:
    if subprocess.run(command, cwd=folder, check=False).returncode:
        sys.exit(f"failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
