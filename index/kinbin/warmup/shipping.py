"""Machine code that is shipped: compiled when a wheel or an image is built, so that nobody compiles who installs it.

    python -m kinbin.warmup --ship FOLDER [LEVEL ...]

writes a folder for each level of processors (`LEVELS`; default: all of this architecture). Code for a level is compiled, not run: it
may be a higher one than this machine has. The level "native" is this very processor, whose code is taken from where it lies.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kinbin.native.machine_code import LEVELS, target_name
from kinbin.native.specialisations import known
from kinbin.warmup.pool import compile_missing
from kinbin.warmup.workload import STAGES

__all__ = ["all_levels", "ship"]

NATIVE = "native"
_CHILD = "import sys; sys.path[:] = {path!r}; from kinbin.warmup.shipping import collect; collect({folder!r})"


def all_levels() -> list[str]:
    """The levels of this machine's architecture, the lowest first."""
    return list(reversed(LEVELS)) if platform.machine() == "x86_64" else ["baseline"]


def ship(folder: Path, levels: Sequence[str]) -> None:
    """Write the code of all kernels for each level into a folder of its name.

    Raises:
        ValueError: there is no such level. RuntimeError: a kernel has no code.
    """
    for level in levels:
        if level not in (*LEVELS, NATIVE):
            raise ValueError(f"levels are {', '.join((*LEVELS, NATIVE))}, not {level}")
    for level in levels:
        if level == NATIVE:
            collect(str(folder / level))
            continue
        with tempfile.TemporaryDirectory(prefix="kinbin-") as compiled:
            # Numba reads these once, when it is imported: hence a process for each level.
            chosen = {"NUMBA_CPU_NAME": target_name(level), "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": compiled}
            program = _CHILD.format(path=sys.path, folder=str(folder / level))
            subprocess.run([sys.executable, "-c", program], env={**os.environ, **chosen}, check=True)  # noqa: S603 - this package


def collect(folder: str) -> None:
    """Compile all kernels for the processor that numba compiles for, and copy their code. What others inline is not needed."""
    from kinbin.warmup.display import showing_compilation

    with showing_compilation() as progress:
        compile_missing(list(STAGES), progress)
    target = Path(folder)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for one in known():
        if not one.inner:
            files = one.files()
            if not files:
                raise RuntimeError(f"{one.module}.{one.kernel} has no code: make kernels")
            for file in files:
                shutil.copy(file, target)
