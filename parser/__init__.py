"""Trains StackLSTM dependency parsers in batches, and parses with them."""

import sys

__version__ = "0.1.0"

if sys.platform == "win32":
    raise ImportError("stack-parser runs on Linux and macOS; on Windows use it in WSL 2")
