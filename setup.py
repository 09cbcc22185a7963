"""Compiles the kernels of parser/runtime when the program is installed or its wheel is built."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

KERNELS = runpy.run_path(str(Path(__file__).with_name("parser") / "runtime" / "build.py"))


class BuildWithKernels(build_py):
    def run(self) -> None:
        super().run()
        folder = KERNELS["FOLDER"]
        if not self.editable_mode:
            folder = Path(self.build_lib) / "parser" / "runtime" / folder.name
        try:
            KERNELS["build"](folder)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"the kernels are not compiled, so NumPy computes what they do: {error}", file=sys.stderr)


class WithLibraries(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class WheelOfPlatform(bdist_wheel):
    """The libraries need no particular Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    distclass=WithLibraries,
    cmdclass={"build_py": BuildWithKernels, "bdist_wheel": WheelOfPlatform},
    # A compiler that is a package, where there is no other.
    setup_requires=[] if KERNELS["compiler"]() else ["ziglang"],
)
