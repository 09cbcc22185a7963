"""Clone a release of a treebank of Universal Dependencies; `make data TREEBANK=…`.

python scripts/download_treebank.py UD_English-EWT
python scripts/download_treebank.py UD_English-EWT --release r2.17 --from /where/clones/are
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from parser.config.data_folder import data_path
from parser.treebank.ud_folders import REPOSITORIES

RELEASE = "r2.16"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("treebank", help="name of the treebank, such as UD_English-EWT")
    arguments.add_argument("--release", default=RELEASE, help="tag of the release (default: %(default)s)")
    into = Path(data_path("${PARSER_DATA}"), "ud")
    arguments.add_argument("--into", type=Path, default=into, help="target folder (default: %(default)s)")
    arguments.add_argument(
        "--from",
        dest="repositories",
        default=REPOSITORIES,
        help="where its repository is (default: %(default)s)",
    )
    options = arguments.parse_args()
    target = options.into / options.treebank
    try:
        clone(f"{options.repositories}/{options.treebank}", options.release, target)
    except (ValueError, OSError) as error:
        print(f"{options.treebank}: {error}", file=sys.stderr)
        return 2
    print(f"{target}: {', '.join(sorted(path.name for path in target.glob('*.conllu')))}")
    return 0


def clone(repository: str, release: str, target: Path) -> None:
    """Clone the release to `target`. Raises ValueError if there is no such release, or the target differs."""
    if target.exists():
        if git("-C", str(target), "describe", "--tags", "--exact-match", "--dirty") != release:
            raise ValueError(f"{target} is there, and is not release {release} as published; move it away")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=target.parent) as folder:
        cloned = Path(folder, target.name)
        options = (
            "--depth",
            "1",
            "--no-tags",
            "--branch",
            release,
        )  # this tag alone: a commit may have several
        if git("-c", "advice.detachedHead=false", "clone", *options, "--", repository, str(cloned)) is None:
            raise ValueError(
                f"{repository} has no release {release}, or cannot be reached; the names of treebanks are "
                "those on https://universaldependencies.org, as UD_English-EWT"
            )
        if not any(cloned.glob("*.conllu")):
            raise ValueError(f"release {release} of {repository} has no .conllu file")
        cloned.rename(target)


def git(*command: str) -> str | None:
    """The output of a git command; None if it fails, after git printed why. It never asks for a password."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(["git", *command], stdout=subprocess.PIPE, text=True, env=environment)
    return None if done.returncode else done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
