"""How far a call of many requests is: told to a function, or shown by a bar of tqdm in terminals and notebooks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from kinbin_client.errors import InvalidArgument, install

__all__ = ["Progress", "Told", "shown"]

Told: TypeAlias = Callable[[int, int], object]
"""Called as told(done, total)."""
Progress: TypeAlias = Told | bool
"""A function that is called as progress(done, total) after every acknowledged request; True: a bar of tqdm."""


@contextmanager
def shown(progress: Progress | None, total: int, unit: str) -> Iterator[Told]:
    """What to tell after each request. A bar is closed at the end, also where a request fails.

    InvalidArgument, before anything is sent, for what is no progress, and for True where tqdm is not installed.
    """
    if progress is None or progress is False:
        yield _nobody
    elif progress is True:
        with _bar(total, unit) as bar:
            yield lambda done, _total: bar.update(done - bar.n)
    elif callable(progress):
        yield progress
    else:
        raise InvalidArgument("progress is True, for a bar, or a function of done and total", code="bad_parameter")


def _nobody(done: int, total: int) -> None:
    """Tell nobody."""


def _bar(total: int, unit: str) -> Any:
    try:
        module = importlib.import_module("tqdm.auto")
    except ImportError:
        text = f"progress=True shows a bar of tqdm: {install('progress')}, or give a function of done and total"
        raise InvalidArgument(text, code="bad_parameter") from None
    return module.tqdm(total=total, unit=f" {unit}", unit_scale=True)
