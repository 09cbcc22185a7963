"""Closes connections so that clients can read the answer, even if they have not sent all of the request.

If a connection is closed while bytes of the client are unread, the kernel resets it, and the client may lose
an answer that it has not read: see RFC 9112, section 9.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

MOST_DROPPED = 1 << 26
"""Bytes of a request that are read and dropped after the answer."""


class LingeringTransport:
    """A transport whose `close` ends the answer, and first reads what the client still sends. Whoever uses it
    aborts it if the client neither reads nor closes.
    """

    def __init__(self, transport: asyncio.Transport, is_sending: Callable[[], bool]):
        """is_sending: returns whether the client is still sending its request."""
        self._transport, self._is_sending = transport, is_sending
        self._dropped = 0
        self.lingers = False
        """Whether what the client sends is to be passed to `drop`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if not self._is_sending():
            self._transport.close()
            return
        self.lingers = True
        self._transport.resume_reading()
        try:
            self._transport.write_eof()
        except OSError:  # the client is gone
            self._transport.abort()

    def drop(self, content: bytes) -> None:
        """Drop bytes that the client has sent after the answer."""
        self._dropped += len(content)
        if self._dropped > MOST_DROPPED:
            self._transport.close()
