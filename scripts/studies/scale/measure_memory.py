"""Measure the peak memory of parsing a stream that repeats a treebank, read from a pipe.

python scripts/studies/scale/measure_memory.py MODEL TREEBANK 50 500
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
    """Peak memory in bytes of parsing the content repeated `times` times."""
    command = [sys.executable, "-m", "parser", "parse", model, "-"]
    # One process per measurement, because the system reports the maximum over all exited child processes.
    watched = [sys.executable, __file__, "--watch", *command]
    with subprocess.Popen(
        watched, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for _ in range(times):
            process.stdin.write(content)
        process.stdin.close()
        reported = process.stderr.read().decode()
    return int(reported.splitlines()[-1]) * 1024


def watch(command: list[str]) -> None:
    """Run a command and print its peak memory in KiB."""
    subprocess.run(command, check=True)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1] == "--watch":
        watch(sys.argv[2:])
    else:
        main()
