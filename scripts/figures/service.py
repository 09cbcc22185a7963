"""The service under load, beside UDPipe's own server."""

from __future__ import annotations

import re
from collections.abc import Callable

from figures.kept import printed, table

OUTPUT = "scale/printed.jsonl"
LOADS = {
    "one client": "--clients 1 ",
    "32 clients": "--clients 32 --seconds 6",
    "155 requests a second": "--rate 155",
}
"""With what is in the commands."""
SERVERS = {"ours": "stack-parser", "udpipe": "UDPipe"}


def service() -> str:
    """Sentences a second and latencies: medians over the turns."""
    lines = []
    for load, words in LOADS.items():
        for line in printed(OUTPUT, words):
            match = re.fullmatch(
                r"(\w+): sentences/s ([\d.]+) .*, p50 in ms ([\d.]+) .*, p99 in ms ([\d.]+) .*", line
            )
            if match:
                lines.append((load, SERVERS[match[1]], *match.groups()[1:]))
    return table(("", "", "sentences/s", "median, ms", "99 %, ms"), lines)


FIGURES: dict[str, Callable[[], str]] = {"service": service}
