"""Which tokenizers were trained here, by this user.

A tokenizer is a binary file of another library, which does not check what it reads. So one from elsewhere is
opened only if the user says so. The digests of those that were trained here are kept in the user's folder.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def remember(content: bytes) -> bool:
    """Note that a tokenizer was trained here. Returns whether there is a folder to note it in."""
    place = _place(content)
    if place is None:
        return False
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    except OSError:
        return False
    return True


def was_trained_here(content: bytes) -> bool:
    place = _place(content)
    return place is not None and place.is_file()


def _place(content: bytes) -> Path | None:
    """An empty file below XDG_STATE_HOME or ~/.local/state; None for a user without a home directory."""
    folder = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):  # the XDG specification says to ignore relative paths
        try:
            folder = str(Path.home() / ".local" / "state")
        except RuntimeError:
            return None
    return Path(folder) / "stack-parser" / "tokenizers" / hashlib.sha256(content).hexdigest()
