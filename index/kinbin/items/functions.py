"""Functions of the user's own: a distance, and what makes stored objects of theirs. None of them is stored."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kinbin.errors import InvalidInput

__all__ = ["CALLABLE", "Functions", "asker_now", "working_for"]

CALLABLE = "callable"
"""What the kernel of such a collection is called, where names are stored and told."""
_NAMES = ("distance", "encoder", "decoder")
Result = TypeVar("Result")


class _Thread(threading.local):
    asker: int | None = None


_THREAD = _Thread()


def asker_now() -> int:
    """The thread for which this one works: itself, but where `working_for` says another."""
    return threading.get_ident() if _THREAD.asker is None else _THREAD.asker


def working_for(asker: int, task: Callable[[], Result]) -> Result:
    """Do something for another thread: what a user's function raises meanwhile is that one's."""
    before, _THREAD.asker = _THREAD.asker, asker
    try:
        return task()
    finally:
        _THREAD.asker = before


@dataclass(slots=True, eq=False)
class Functions:
    """Those of one collection that is open here; all None until they are given. Calls come from any thread."""

    distance: Callable[[Any, Any], float] | None = None
    """(object, object) → how far apart they are, from 0 on."""
    encoder: Callable[[Any], Any] | None = None
    """object → what is stored of it: bytes, or an array of numbers. Of items="objects" only."""
    decoder: Callable[[Any], Any] | None = None
    """The inverse: what `distance` is handed and `get` returns. None: that is the stored form."""
    failures: dict[int, BaseException] = field(default_factory=dict)
    """By the thread that asked, what a function raised first, until it takes it."""

    def bind(self, distance: object, encoder: object, decoder: object, *, objects: bool) -> bool:
        """Take the functions; whether there were none before. objects: whether items need an encoder.

        Raises:
            InvalidInput: code "bad_parameter": one is none, or missing, or the collection has others already.
        """
        given = (distance, encoder, decoder)
        for name, one in zip(_NAMES, given, strict=True):
            if one is not None and not callable(one):
                raise InvalidInput.of("bad_parameter", f"{name} is a function, not {type(one).__name__}", field=name)
        if distance is None or (encoder is None) == objects or (decoder is not None and not objects):
            needed = "distance=f and encoder=g, which makes bytes or an array of an object" if objects else "distance=f, and no encoder"
            raise InvalidInput.of("bad_parameter", f"items of this collection are compared by a function: give {needed}", field="distance")
        fresh = self.distance is None
        if not fresh and given != (self.distance, self.encoder, self.decoder):
            text = "the collection is open with other functions: close every database that has it open, or give the same ones"
            raise InvalidInput.of("bad_parameter", text, field="distance")
        self.distance, self.encoder, self.decoder = given  # type: ignore[assignment]
        return fresh

    def missing(self) -> InvalidInput:
        """The error of whoever needs a function that was not given."""
        text = (
            "the collection is compared by a function that is not stored: open it in the library by collection(name, distance=f), with the"
        )
        return InvalidInput.of("distance_missing", f"{text} encoder and decoder that it was created with", field="distance")

    def fail(self, failure: BaseException) -> None:
        """Keep what a function raised, for the thread that asked."""
        self.failures.setdefault(asker_now(), failure)

    def take_failure(self) -> BaseException | None:
        """What went wrong in a function since this thread took the last one."""
        return self.failures.pop(asker_now(), None)
