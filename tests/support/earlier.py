"""Collections as earlier formats have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

__all__ = ["unsalted"]


@contextmanager
def unsalted() -> Iterator[None]:
    """Inside, collections are made without a salt, of format 3."""
    with patch("kinbin.storage.headers.secrets.randbelow", lambda _: -1):
        yield
