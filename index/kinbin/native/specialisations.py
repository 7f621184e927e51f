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

from numba import from_dtype
from numba import types as numba_types

from kinbin.native.machine_code import CALLED_WITHIN, REQUESTED, files_of, is_ready
from kinbin.native.records import LAYOUTS

__all__ = ["TABLE", "Specialisation", "known", "requested", "written"]

TABLE = Path(__file__).with_name("specialisations.txt")
_INNER_SECONDS = 1.0
_UNNAMED = re.compile(r"\w\(|Record")
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
        kernel = getattr(import_module(self.module), self.kernel)
        # The module of a kernel imports the layouts of the records that it takes, or whoever compiles does (`compiling`).
        return kernel, tuple(_type(text) for text in self.arguments)

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
    ours = (one for one in found if one.module.startswith("kinbin.") and (one.module, one.kernel, one.arguments) not in before)
    # What kernels hand to each other (tuples, a single record) has no name here.
    return [one for one in ours if not any(_UNNAMED.search(argument) for argument in one.arguments)]


def written(table: Iterable[Specialisation]) -> str:
    """The table as text."""
    head = (
        "# group (+: called by other kernels only), seconds to compile, kernel, types of its arguments (array[dimensions]; r: read-only)\n"
    )
    lines = (f"{x.group}{'+' if x.inner else ''} {x.seconds} {x.module}:{x.kernel} {' '.join(x.arguments)}\n" for x in table)
    return f"# Written by `make kernels`: {head[2:]}" + "".join(lines)


def _text(one: Any) -> str:
    if isinstance(one, numba_types.Tuple | numba_types.UniTuple):
        return f"({','.join(map(_text, one.types))})"
    if not isinstance(one, numba_types.Array):
        return str(one)
    assert one.layout == "C", "kernels take contiguous arrays"
    element = _layout_of(one.dtype) if isinstance(one.dtype, numba_types.Record) else str(one.dtype)
    return f"{element}[{one.ndim}]{'' if one.mutable else 'r'}"


def _layout_of(record: Any) -> str:
    """The name of the layout of records of this type."""
    return next(name for name, layout in LAYOUTS.items() if from_dtype(layout.dtype) == record)


def _type(text: str) -> Any:
    if text.startswith("("):
        return numba_types.BaseTuple.from_types(tuple(map(_type, text[1:-1].split(","))))
    array = _ARRAY.fullmatch(text)
    if array is not None:
        element = from_dtype(LAYOUTS[array[1]].dtype) if array[1] in LAYOUTS else getattr(numba_types, array[1])
        return numba_types.Array(element, int(array[2]), "C", readonly=bool(array[3]))
    return {"bool": numba_types.boolean, "none": numba_types.none}.get(text) or getattr(numba_types, text)
