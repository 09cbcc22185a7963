"""Build source distribution and wheel into dist/, check them, and try the wheel in an empty environment.

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
NOT_SOURCE = (
    ".git",
    ".venv",
    "build",
    "dist",
    "runs",
    "*.egg-info",
    "compiled",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
)
EPOCHS = 4
MODEL = "models/english-ewt.stackparser"
SUFFIXES = (".py", ".c", ".so", ".typed", ".js", ".css", ".html", ".svg")
"""Suffixes of the files that are installed."""


def main() -> None:
    """Build and check the release. Raises SystemExit, with the reason, if a check fails."""
    with tempfile.TemporaryDirectory(prefix="stack-parser-release-") as name:
        folder = Path(name)
        wheel = _build(folder)
        _check_content(wheel)
        _use_without_pytorch(_install(str(wheel), folder / "parsing"), folder)
        _use(_install(f"{wheel}[train]", folder / "training"), folder)
        shutil.copytree(wheel.parent, ROOT / "dist", dirs_exist_ok=True)
    print(f"dist/{wheel.name}: in empty environments it trains, evaluates and parses")


def _build(folder: Path) -> Path:
    """Returns the wheel, built from the source distribution of a copy without earlier builds' output."""
    source, built = folder / "source", folder / "built"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    python = str(_environment(folder / "tools", "build", "twine") / "python")
    _run([python, "-m", "build", "--outdir", str(built), str(source)], folder, is_quiet=True)
    _run([python, "-m", "twine", "check", "--strict", *map(str, built.iterdir())], folder)
    [wheel] = built.glob("*.whl")
    return wheel


def _check_content(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
        information = [name for name in file.namelist() if ".dist-info/" in name]
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "parser").rglob("*") if path.suffix in SUFFIXES}
    wanted.add("stack_parser.py")
    if names != wanted:
        unexpected, missing = sorted(names - wanted), sorted(wanted - names)
        sys.exit(f"{wheel.name} has unexpected files {unexpected} and lacks {missing}")
    for name in ("METADATA", "entry_points.txt", "LICENSE"):
        if not any(path.endswith(f"/{name}") for path in information):
            sys.exit(f"{wheel.name} has no {name}")


def _install(requirement: str, folder: Path) -> Path:
    """Returns the command that the wheel installs. requirement: the wheel, perhaps with extras."""
    pins = str(ROOT / "constraints.txt")
    return _environment(folder, "-c", pins, requirement) / "stack-parser"


def _environment(folder: Path, *packages: str) -> Path:
    """Create an environment with these packages; returns the folder of its programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    _run([str(programs / "python"), "-m", "pip", "install", "--quiet", *packages], folder)
    return programs


def _use_without_pytorch(command: Path, folder: Path) -> None:
    """Parse text with the model that ships, in an environment that must stay small."""
    environment = command.parents[1]
    if any(environment.glob("lib/python*/site-packages/torch")):
        sys.exit(f"{environment} has PyTorch, which parsing on a CPU does not need")
    megabytes = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file()) / 1e6
    print(f"without PyTorch, the environment takes {megabytes:.0f} MB")
    (folder / "text.txt").write_text("The cat sleeps. It is old.\n", encoding="utf-8")
    _run([str(command), "parse", str(ROOT / MODEL), "--text", "text.txt", "-o", "trees.conllu"], folder)
    _run([str(command), "draw", "trees.conllu", "--text"], folder)


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


def _run(command: list[str], folder: Path, is_quiet: bool = False) -> None:
    """Run a command. is_quiet: show its output only if it fails. Raises SystemExit if it fails."""
    done = subprocess.run(command, cwd=folder, check=False, capture_output=is_quiet, text=True)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{done.stdout or ''}{done.stderr or ''}")


if __name__ == "__main__":
    main()
