"""Fetch a treebank of Universal Dependencies into data/ud/, or copy it from a folder; `make data TREEBANK=…`.

python scripts/download_treebank.py UD_English-EWT
python scripts/download_treebank.py UD_English-EWT --from /where/treebanks/are

Complete files are kept, and partial ones are continued. A file gets its final name only when its size and
hash match those that the repository lists.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from parser.files import write_atomically

REPOSITORIES = "https://api.github.com/repos/UniversalDependencies"
OUR_OWN = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM)
"""Errors of the disk here, for which another try is of no use."""
WANTED = (".conllu", "LICENSE.txt", "README.md", "README.txt")
TRIES = 5
PAUSE = 0.5
"""Seconds, doubled for each try."""
BLOCK = 1 << 16
FAILURES = (OSError, http.client.HTTPException)
"""What a connection ends in: no such server, refused, broken off, too slow."""


class RemoteFile(NamedTuple):
    name: str
    size: int
    sha: str
    """Git's: the SHA-1 of "blob SIZE", a zero byte and the content."""
    address: str


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("treebank", help="name of the treebank, such as UD_English-EWT")
    arguments.add_argument(
        "--into", type=Path, default=Path("data/ud"), help="target folder (default: %(default)s)"
    )
    arguments.add_argument(
        "--from", dest="source", type=Path, help="copy from this folder of treebanks instead of downloading"
    )
    arguments.add_argument(
        "--repositories",
        default=REPOSITORIES,
        help="base address of the repositories (default: %(default)s)",
    )
    arguments.add_argument(
        "--timeout", type=float, default=30.0, help="seconds to wait for data (default: %(default)s)"
    )
    options = arguments.parse_args()
    target = options.into / options.treebank
    try:
        if options.source:
            copy(options.source / options.treebank, target)
        else:
            download(f"{options.repositories}/{options.treebank}/contents", target, options.timeout)
    except (ValueError, OSError) as error:
        print(f"{options.treebank}: {error}", file=sys.stderr)
        return 2
    print(f"{target}: {', '.join(sorted(path.name for path in target.glob('*.conllu')))}")
    return 0


def copy(source: Path, target: Path) -> None:
    """Raises ValueError if there is no treebank."""
    paths = [path for path in source.glob("*") if path.name.endswith(WANTED)] if source.is_dir() else []
    if not any(path.suffix == ".conllu" for path in paths):
        raise ValueError(f"{source} holds no .conllu file")
    target.mkdir(parents=True, exist_ok=True)
    for path in paths:
        write_atomically(target / path.name, path.read_bytes())


def download(listing: str, target: Path, timeout: float) -> None:
    """listing: address of the repository's list of files. Raises ValueError."""
    files = list_files(listing, timeout)
    if not any(file.name.endswith(".conllu") for file in files):
        raise ValueError(f"{listing} lists no .conllu file")
    target.mkdir(parents=True, exist_ok=True)
    for file in files:
        path = target / file.name
        if path.exists() and is_whole(path, file):
            continue
        print(f"{file.name}, {file.size:,} bytes", file=sys.stderr)
        fetch(file, path, timeout)


def list_files(listing: str, timeout: float) -> list[RemoteFile]:
    """Raises ValueError, with what to do if there is no such treebank."""
    for _ in tries():
        try:
            with urllib.request.urlopen(listing, timeout=timeout) as answer:
                entries = json.load(answer)
            break
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                raise ValueError(
                    f"no such treebank at {listing}; the names are those on "
                    "https://universaldependencies.org, as UD_English-EWT"
                ) from None
            failure: Exception = error
        except (*FAILURES, ValueError) as error:
            failure = error
    else:
        raise ValueError(f"{listing}: {failure}")
    return [
        RemoteFile(entry["name"], entry["size"], entry["sha"], entry["download_url"])
        for entry in entries
        if entry["type"] == "file" and entry["name"].endswith(WANTED) and "/" not in entry["name"]
    ]


def fetch(file: RemoteFile, path: Path, timeout: float) -> None:
    """Raises ValueError when all tries have failed; what has come is left for the next time."""
    unfinished, failure = _unfinished(path), "nothing came"
    for _ in tries():
        try:
            _go_on(file, unfinished, timeout)
            failure = "the connection broke off"
        except FAILURES as error:
            if isinstance(error, OSError) and error.errno in OUR_OWN:
                raise
            failure = str(error) or type(error).__name__
        if _has_all(unfinished, file):
            if is_whole(unfinished, file):
                unfinished.replace(path)
                return
            unfinished.unlink()
            failure = "what came is not what the repository lists"
    raise ValueError(f"{file.address}: {failure}, {TRIES} times; try again later")


def _go_on(file: RemoteFile, unfinished: Path, timeout: float) -> None:
    """Get what is missing, if the server can go on in the middle, else all."""
    here = unfinished.stat().st_size if unfinished.exists() else 0
    if here >= file.size:
        return
    request = urllib.request.Request(file.address, headers={"Range": f"bytes={here}-"} if here else {})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        goes_on = answer.status == HTTPStatus.PARTIAL_CONTENT
        with unfinished.open("ab" if goes_on else "wb") as output:
            while block := answer.read1(BLOCK):
                output.write(block)
                if output.tell() > file.size:
                    return  # more than was promised: no need to wait for its end


def _has_all(path: Path, file: RemoteFile) -> bool:
    return path.exists() and path.stat().st_size >= file.size


def is_whole(path: Path, file: RemoteFile) -> bool:
    content = path.read_bytes()
    sha = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return len(content) == file.size and sha == file.sha


def tries() -> Iterator[int]:
    """With longer and longer waits in between."""
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE * 2**number)
        yield number


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


if __name__ == "__main__":
    sys.exit(main())
