"""Compiles `kernels.c`, once for each set of instructions: `python -m parser.runtime.build`.

It needs a C compiler: that of the variable CC, `cc`, or the one in the package ziglang. Without the compiled
libraries, NumPy computes the same, which takes longer.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

SOURCE = Path(__file__).with_name("kernels.c")
FOLDER = Path(__file__).with_name("compiled")
# Contracted or reordered operations would give other bits on other processors.
OPTIONS = [
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
]
ON_X86 = {
    "avx512": "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma",
    "avxvnni": "-mavx2 -mfma -mavxvnni",
    "avx2": "-mavx2 -mfma",
}
"""The options for each set of instructions that not every processor has, the best first."""
ANY = "any"
"""The name of the library that every processor can run."""


def compiler() -> list[str] | None:
    """The command of a C compiler; None if there is none."""
    if given := os.environ.get("CC"):
        return shlex.split(given)
    if path := shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"):
        return [path]
    if path := shutil.which("python-zig"):
        target = f"{platform.machine()}-linux-gnu.2.17"  # the default is this very processor
        return [path, "cc", "-target", target]
    return None


def source_hash() -> str:
    """The hash of `kernels.c`, which its libraries contain."""
    return sha256(SOURCE.read_bytes()).hexdigest()


def build(folder: Path = FOLDER) -> list[Path]:
    """Compile into a folder. Returns the libraries; raises OSError or CalledProcessError if there is none.

    Sets of instructions that the compiler does not know are left out.
    """
    command, libraries = compiler(), []
    if command is None:
        raise FileNotFoundError("no C compiler: neither CC, cc, gcc, clang nor the package ziglang")
    folder.mkdir(parents=True, exist_ok=True)
    identity = f'-DSOURCE="{source_hash()}"'
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    for name, options in {**(ON_X86 if is_x86 else {}), ANY: ""}.items():
        library = folder / f"{name}.so"
        temporary = library.with_suffix(f".{os.getpid()}")  # another process may be using the library
        arguments = [*OPTIONS, *options.split(), identity, str(SOURCE), "-o", str(temporary)]
        try:
            subprocess.run([*command, *arguments], check=True)
        except subprocess.CalledProcessError:
            library.unlink(missing_ok=True)
            if name == ANY:
                raise
        else:
            libraries.append(temporary.replace(library))
    return libraries


if __name__ == "__main__":
    build()
