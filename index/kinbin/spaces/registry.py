"""The kernels by name. This is the one list of them: whoever offers kernels reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinbin.spaces.space import Space

__all__ = ["KERNELS", "kernel_named"]

_HOMES = {
    "minmax": "kinbin.spaces.minmax:MINMAX",
    "gmm": "kinbin.spaces.minmax:GMM",
    "ngmm": "kinbin.spaces.minmax:NGMM",
    "gint": "kinbin.spaces.minmax:GINT",
    "chi2": "kinbin.spaces.chi2:CHI2",
}


class _Kernels(Mapping[str, "Space"]):
    """Spaces are imported when they are looked up: their names alone need neither a compiler nor numpy."""

    def __getitem__(self, name: str) -> Space:
        module, _, attribute = _HOMES[name].partition(":")
        space: Space = getattr(import_module(module), attribute)
        return space

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


KERNELS: Mapping[str, Space] = _Kernels()


def kernel_named(name: object) -> Space:
    """The kernel of this name.

    Raises:
        InvalidInput: no kernel has this name (code "bad_parameter").
    """
    from kinbin.parameters import one_of

    one_of("kernel", name, KERNELS)
    return KERNELS[str(name)]
