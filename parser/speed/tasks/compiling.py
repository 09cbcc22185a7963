"""What `torch.compile` needs of a machine."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

COMPILED = "compiled"
"""The method of plugins that is compiled."""


def missing_compiler() -> str | None:
    """Return why nothing can be compiled here, or None."""
    compiler = os.environ.get("CXX", "g++")
    header = Path(sysconfig.get_path("include"), "Python.h")
    if shutil.which(compiler) is None:
        return f"torch.compile needs a C++ compiler, and there is no {compiler}: install it, or set CXX"
    if not header.is_file():
        return f"torch.compile needs the headers of Python, and there is no {header}: install python3-dev"
    return None
