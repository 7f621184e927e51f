"""Group commit: edits that wait for the writer at the same time share one transaction and one fsync."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Edit", "GroupCommit"]

Result = TypeVar("Result")


class Edit(Generic[Result]):
    """One edit that waits, and later its result or its error."""

    def __init__(self, apply: Callable[..., Result]) -> None:
        self.apply = apply
        self.done = False
        self.result: Result | None = None
        self.error: BaseException | None = None


class GroupCommit:
    """Gives every edit to one thread at a time, in the order they came.

    `commit` receives a list of edits, applies them in one transaction, and sets result or error of each;
    if it raises, no edit took place and every caller gets the error. Whoever arrives while a commit runs
    waits, and the first of them leads the next group: no thread of its own, no hand-over when alone.
    """

    def __init__(self, commit: Callable[[list[Edit[object]]], None], most: int = 64) -> None:
        self._commit = commit
        self._most = most
        self._waiting: deque[Edit[object]] = deque()
        self._lead = threading.Lock()

    def submit(self, apply: Callable[..., Result]) -> Result:
        """Apply an edit; returns when it is on disk.

        Raises:
            Whatever the edit or its transaction raised; then nothing of it was written.
        """
        edit: Edit[Result] = Edit(apply)
        self._waiting.append(edit)  # type: ignore[arg-type]
        while not edit.done:
            with self._lead:
                if not edit.done:
                    self._lead_group()
        if edit.error is not None:
            raise edit.error
        return edit.result  # type: ignore[return-value]

    def _lead_group(self) -> None:
        group = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        try:
            self._commit(group)
        except BaseException as error:  # noqa: BLE001 - whatever it is, every caller of the group has to hear of it
            for edit in group:
                edit.error = error
        finally:
            for edit in group:
                edit.done = True
