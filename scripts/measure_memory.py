"""Peak memory of parsing a treebank so many times over as one stream, read from a pipe.

python scripts/measure_memory.py MODEL TREEBANK 50 500
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    model, treebank, *times = sys.argv[1:]
    content = Path(treebank).read_bytes()
    for number in map(int, times):
        began = time.monotonic()
        print(f"{number:>6} times: {peak(model, content, number) / 2**20:8.1f} MiB", end="", flush=True)
        print(f" {time.monotonic() - began:8.1f} s", flush=True)


def peak(model: str, content: bytes, times: int) -> int:
    """Bytes."""
    command = [sys.executable, "-m", "parser", "parse", model, "-"]
    # A process for each, for the system counts the memory of all that have ended together.
    watched = [sys.executable, __file__, "--watch", *command]
    with subprocess.Popen(
        watched, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for _ in range(times):
            process.stdin.write(content)
        process.stdin.close()
        told = process.stderr.read().decode()
    return int(told.splitlines()[-1]) * 1024


def watch(command: list[str]) -> None:
    """Run a command, and print the KiB that it needed at most."""
    subprocess.run(command, check=True)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1] == "--watch":
        watch(sys.argv[2:])
    else:
        main()
