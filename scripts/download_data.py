"""Download a data set of the speed measurements; `make data SET=…`.

python scripts/download_data.py sst
python scripts/download_data.py            lists the sets

A file is written only if its checksum is that of the file used in the measurements.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from parser.config.data_folder import data_path
from parser.config.yaml_loading import load
from parser.system.files import write_atomically

DATA_SETS = Path(__file__).parent / "data_sets.yaml"
PATIENCE = 60.0
"""Timeout in seconds."""


class DataSet(NamedTuple):
    licence: str
    at: str
    """The common start of the addresses of all files."""
    files: Mapping[str, Mapping[str, str]]
    """By path below the data folder: `path`, the rest of the address, and `sha256`."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("name", nargs="?", help="name of the set; none: list them")
    into = Path(data_path("${PARSER_DATA}"))
    arguments.add_argument("--into", type=Path, default=into, help="folder (default: %(default)s)")
    options = arguments.parse_args()
    sets = data_sets(DATA_SETS)
    if not options.name:
        print(
            *(f"{name}: {len(one.files)} files; licence: {one.licence}" for name, one in sets.items()),
            sep="\n",
        )
        return 0
    try:
        if options.name not in sets:
            raise ValueError(f"no such set; available: {', '.join(sets)}")
        download(sets[options.name], options.into)
    except (ValueError, OSError) as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 2
    print(f"licence: {sets[options.name].licence}")
    return 0


def data_sets(path: Path) -> dict[str, DataSet]:
    return {name: DataSet(**values) for name, values in load(path.read_text(encoding="utf-8")).items()}


def download(wanted: DataSet, folder: Path) -> None:
    """Download the missing files. Raises ValueError for a file with another checksum, and OSError."""
    for name, file in wanted.files.items():
        target = folder / name
        if target.exists():
            if checksum(target.read_bytes()) != file["sha256"]:
                raise ValueError(f"{target} is there, and is not the published file; move it away")
            continue
        content = _content(wanted.at + file["path"], file["sha256"])
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content)
        print(target)


def _content(address: str, expected: str) -> bytes:
    try:
        with urlopen(address, timeout=PATIENCE) as answer:
            content: bytes = answer.read()
    except (URLError, HTTPException) as error:
        raise ValueError(f"{address}: {error}") from None
    if checksum(content) != expected:
        raise ValueError(
            f"{address}: not the file that was measured with, and not kept; its SHA-256 is "
            f"{checksum(content)}, not {expected}"
        )
    return content


def checksum(content: bytes) -> str:
    return sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
