"""The service under load, next to UDPipe's own server, and its memory with large requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

from figures.kept import printed, table

OUTPUT = "scale/printed.jsonl"
COMMAND = "runs/peers/{} ours=http://127.0.0.1:8102 udpipe=http://127.0.0.1:8101 --clients {}"
TEXTS = {"English": "ewt-test.txt", "French": "fr-test.txt"}
LOADS = {"one client": "1 ", "32 clients": "32 ", "about half the load": "64 --rate "}
"""Kinds of load, with the options of their commands."""
SERVERS = {"ours": "stack-parser", "udpipe": "UDPipe"}


def service() -> str:
    """Sentences per second and latencies: medians over the turns."""
    lines = []
    for (language, text), (load, clients) in product(TEXTS.items(), LOADS.items()):
        for line in printed(OUTPUT, COMMAND.format(text, clients)):
            match = re.fullmatch(
                r"(\w+): sentences/s ([\d.]+) .*, p50 in ms ([\d.]+) .*, p99 in ms ([\d.]+) .*", line
            )
            if match:
                lines.append((f"{language}, {load}", SERVERS[match[1]], *match.groups()[1:]))
    return table(("", "", "sentences/s", "median, ms", "99 %, ms"), lines)


def request_memory() -> str:
    """Memory with many large requests at once, by kind."""
    lines = []
    for line in printed(OUTPUT, "measure_request_memory.py"):
        match = re.fullmatch(
            r"(\d+ requests of [\d.]+ MB, .+): (\d+) MiB before, at most (\d+) MiB; .*", line
        )
        assert match
        lines.append(match.groups())
    return table(("", "before, MiB", "at most, MiB"), lines)


FIGURES: dict[str, Callable[[], str]] = {"service": service, "request-memory": request_memory}
