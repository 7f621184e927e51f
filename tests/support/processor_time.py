"""Bounds on work, for tests of what must not take long: of processor time, which a busy machine does not stretch as it does waiting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """The block takes this process, with all its threads, at most so much processor time: several times what it should take."""
    before = time.process_time()
    yield
    taken = time.process_time() - before
    assert taken <= seconds, f"{taken:.2f} s of processor time, where at most {seconds:g} s are right"
