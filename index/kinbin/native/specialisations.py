"""Which kernels Python calls with which types, so that they can be compiled side by side before anybody calls them.

`specialisations.txt` is written by `make kernels`, from what a warm-up calls; a test compares the two. It is an aid only: what
it does not know is compiled when it is called, and what no longer fits is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from numba import types as numba_types

from kinbin.native.machine_code import CALLED_WITHIN, REQUESTED, files_of, is_ready

__all__ = ["TABLE", "Specialisation", "known", "requested", "written"]

TABLE = Path(__file__).with_name("specialisations.txt")
_INNER_SECONDS = 1.0
_ARRAY = re.compile(r"(\w+)\[(\d)\](r?)")


@dataclass(frozen=True, slots=True)
class Specialisation:
    """A kernel for one combination of argument types."""

    group: str
    """The stage of a warm-up that calls it first."""
    seconds: float
    """That compiling takes, of one core."""
    module: str
    kernel: str
    arguments: tuple[str, ...]
    inner: bool = False
    """Called by other kernels only, and so long to compile that another process should do it meanwhile."""

    def _found(self) -> tuple[Any, tuple[Any, ...]]:
        return getattr(import_module(self.module), self.kernel), tuple(_type(text) for text in self.arguments)

    def is_ready(self) -> bool:
        """Whether its code is there; also if there is no such kernel (any more)."""
        try:
            return is_ready(*self._found())
        except (AttributeError, ImportError):
            return True

    def files(self) -> list[Path]:
        """The files that hold its code."""
        return files_of(*self._found())

    def compile(self) -> None:
        """Load it, or compile it and keep the code.

        Raises:
            numba's errors: the kernel does not take these types (any more).
        """
        kernel, types = self._found()
        kernel.compile(types)


@cache
def known() -> tuple[Specialisation, ...]:
    """The table, in the order of need."""
    table = []
    for line in TABLE.read_text().splitlines():
        if not line.startswith("#"):
            group, seconds, place, *arguments = line.split()
            module, kernel = place.split(":")
            table.append(Specialisation(group.strip("+"), float(seconds), module, kernel, tuple(arguments), group.endswith("+")))
    return tuple(table)


def requested(group: str, since: Iterable[Specialisation]) -> list[Specialisation]:
    """What Python has called in this process besides what is given, and what that called within."""
    before = {(one.module, one.kernel, one.arguments) for one in since}
    calls = [(*key, seconds, False) for key, seconds in list(REQUESTED.items())]
    calls += [(*key, seconds, True) for key, seconds in list(CALLED_WITHIN.items()) if seconds > _INNER_SECONDS and key not in REQUESTED]
    found = (
        Specialisation(group, round(seconds, 1), module, name, tuple(map(_text, types)), inner)
        for module, name, types, seconds, inner in calls
    )
    return [one for one in found if one.module.startswith("kinbin.") and (one.module, one.kernel, one.arguments) not in before]


def written(table: Iterable[Specialisation]) -> str:
    """The table as text."""
    head = (
        "# group (+: called by other kernels only), seconds to compile, kernel, types of its arguments (array[dimensions]; r: read-only)\n"
    )
    lines = (f"{x.group}{'+' if x.inner else ''} {x.seconds} {x.module}:{x.kernel} {' '.join(x.arguments)}\n" for x in table)
    return f"# Written by `make kernels`: {head[2:]}" + "".join(lines)


def _text(one: Any) -> str:
    if not isinstance(one, numba_types.Array):
        return str(one)
    assert one.layout == "C", "kernels take contiguous arrays"
    return f"{one.dtype}[{one.ndim}]{'' if one.mutable else 'r'}"


def _type(text: str) -> Any:
    array = _ARRAY.fullmatch(text)
    if array is not None:
        return numba_types.Array(getattr(numba_types, array[1]), int(array[2]), "C", readonly=bool(array[3]))
    return {"bool": numba_types.boolean, "none": numba_types.none}.get(text) or getattr(numba_types, text)
