"""What is made when it is first wanted, once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["once"]

T = TypeVar("T")


def once(make: Callable[[], T]) -> Callable[[], T]:
    """A function that makes something at its first call, and gives the same ever after, whichever threads ask.

    `functools.cache` lets two threads make it and keeps one of both: of arrays whose addresses kernels are handed, the other is freed.
    Raises what `make` raises; the next call tries again.
    """
    lock, made = threading.Lock(), list[T]()

    def get() -> T:
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return get
