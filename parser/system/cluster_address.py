"""Checking whether something like a Ray cluster answers at an address. Ray itself would try for minutes."""

from __future__ import annotations

import os
import socket

SECONDS = 5.0
"""Seconds within which the machine must answer."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The connection preface of an HTTP/2 client (RFC 9113, section 3.4), with empty settings."""
HEADER_BYTES, KIND, SETTINGS = 9, 3, 4
"""HTTP/2 frames: length of the header, index of the kind in it, and the kind of a settings frame."""
FOUND_BY_RAY = "auto", "local"
AS_PRINTED = "take the address that `ray start --head` printed, such as 10.0.0.1:6379"


def refuse_silent(address: str) -> None:
    """Raises ValueError, which says what was tried, if nothing answers there that Ray could talk to."""
    wanted = address
    if address == "auto":
        wanted = os.environ.get("RAY_ADDRESS", "auto")
    if wanted in FOUND_BY_RAY:
        return
    host, _, port = wanted.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"--address {wanted}: is neither auto nor HOST:PORT; {AS_PRINTED}")
    try:
        answer = _answer(host.strip("[]"), int(port))
    except (OSError, UnicodeError) as error:  # UnicodeError for names that are too long
        reason = str(error) or "no answer"
        raise ValueError(
            f"--address {wanted}: no cluster: tried port {port} of {host} for up to {SECONDS:g} seconds: "
            f"{reason}; {AS_PRINTED}"
        ) from None
    if answer is not None and answer[KIND : KIND + 1] != bytes([SETTINGS]):
        raise ValueError(
            f"--address {wanted}: no cluster: what listens at port {port} of {host} is something else; "
            f"{AS_PRINTED}"
        )


def _answer(host: str, port: int) -> bytes | None:
    """The start of the machine's answer to the greeting; None with TLS, where it cannot be read."""
    with socket.create_connection((host, port), timeout=SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() not in ("0", "false"):
            return None
        connection.sendall(GREETING)
        with connection.makefile("rb") as answer:
            return answer.read(HEADER_BYTES)
