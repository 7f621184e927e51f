"""Switching background work off, where a test must see sealing and merging happen only when it says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import kinbin.upkeep.background
import kinbin.upkeep.sealing

_inside: list[object] = []
_off = pytest.MonkeyPatch()


@contextmanager
def no_background(seal_rows: int | None = None) -> Iterator[None]:
    """Inside, nothing is sealed or merged but by `upkeep` and `compact`; `seal_rows`: that many fresh rows are sealed.

    Blocks may end in any order, as fixtures with parameters do: the last one that ends puts back what was there before the first.
    """
    if not _inside:
        _off.setattr(kinbin.upkeep.background.UpkeepThread, "wake", lambda thread: None)
        _off.setattr(kinbin.upkeep.background.UpkeepThread, "look", lambda thread: None)
    block = object()
    _inside.append(block)
    try:
        with pytest.MonkeyPatch.context() as patch:
            if seal_rows is not None:
                patch.setattr(kinbin.upkeep.sealing, "SEAL_ROWS", seal_rows)
            yield
    finally:
        _inside.remove(block)
        if not _inside:
            _off.undo()
