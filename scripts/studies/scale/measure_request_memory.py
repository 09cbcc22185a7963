"""Measure the memory of a service that gets large requests of several kinds at the same time.

python scripts/studies/scale/measure_request_memory.py english-ewt
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

BYTES = 3_200_000
KINDS = {
    "texts": ('{"texts": [', '"It was round. "'),
    "sentences": ('{"sentences": [', '{"words": ["It", "was", "round"]}'),
}
CONLLU = "1\tIt\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
HEADERS = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
PAUSE = 0.1


def bodies() -> Iterator[tuple[str, bytes]]:
    """Yield the name of each kind of request, and a body of that kind."""
    for name, (begin, item) in KINDS.items():
        yield name, f"{begin}{', '.join([item] * (BYTES // (len(item) + 2)))}]}}".encode()
    yield "one text", json.dumps({"texts": ["It was round. " * (BYTES // 14)]}).encode()
    yield "CoNLL-U", json.dumps({"conllu": CONLLU * (BYTES // (len(CONLLU) + 12))}).encode()


@contextmanager
def serving(model: str) -> Iterator[tuple[int, int]]:
    """Yield the process and the port of a service."""
    options = ["--port", "0", "--device", "cpu", "--timeout", "30"]
    command = [sys.executable, "-m", "parser", "serve", model, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        port = re.search(r":(\d+)", json.loads(process.stderr.readline())["url"].removeprefix("http:"))
        assert port
        try:
            with ThreadPoolExecutor(1) as reading:
                reading.submit(process.stderr.read)
                yield process.pid, int(port[1])
                process.kill()
        finally:
            process.kill()


def ask(port: int, body: bytes) -> int:
    """Send a request, and read all of the answer. Returns its status."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/v1/parse", body, HEADERS)
        answer = connection.getresponse()
        try:
            while answer.read(1 << 16):
                pass
        except HTTPException:  # broken off: the time is over
            pass
        return answer.status


def memory(process: int) -> int:
    """In MiB."""
    kilobytes = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert kilobytes
    return int(kilobytes[1]) // 1024


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model")
    arguments.add_argument("--requests", type=int, default=60)
    given = arguments.parse_args()
    for name, body in bodies():
        with serving(given.model) as (process, port), ThreadPoolExecutor(given.requests) as pool:
            before = highest = memory(process)
            asked: list[Future[int]] = [pool.submit(ask, port, body) for _ in range(given.requests)]
            while not all(one.done() for one in asked):
                highest = max(highest, memory(process))
                time.sleep(PAUSE)
            statuses = Counter(one.result() for one in asked)
        told = ", ".join(f"{count} times {status}" for status, count in sorted(statuses.items()))
        print(
            f"{given.requests} requests of {len(body) / 1e6:.1f} MB, {name}: {before} MiB before, at most "
            f"{highest} MiB; {told}",
            flush=True,
        )


if __name__ == "__main__":
    main()
