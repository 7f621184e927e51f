"""Build the wheels of the library with the server, machine code in it, and of the client: build_wheel.py FOLDER [LEVEL ...].

Run by the interpreter and with the packages that the code is for: numba's code is of use to the same version of Python and numba only.
With another numba the wheel works, and compiles. Levels: see `kinbin.warmup.shipping`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kinbin.warmup.shipping import all_levels, ship

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ("pyproject.toml", "README.md", "LICENSE", "index", "service", "cluster")
CLIENT = "clients/python"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "_machine_code")
SETUP = """
from setuptools import Distribution, setup


class WithMachineCode(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=WithMachineCode)
"""


def build(folder: Path, levels: list[str]) -> None:
    """Copy the sources, compile the kernels into the copy, and build a wheel for this platform from it."""
    with tempfile.TemporaryDirectory(prefix="kinbin-wheel-") as made:
        copy, client = Path(made) / "kinbin", Path(made) / "client"
        copy.mkdir()
        shutil.copytree(ROOT / CLIENT, client, ignore=LEFT_OUT)
        for name in INPUTS:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=LEFT_OUT)
            else:
                shutil.copy(source, copy / name)
        ship(copy / "index/kinbin/_machine_code", levels)
        (copy / "setup.py").write_text(SETUP, encoding="utf-8")
        options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
        for project in (copy, client):
            subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", *options, str(project)], check=True)  # noqa: S603


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build(Path(sys.argv[1]), sys.argv[2:] or all_levels())
