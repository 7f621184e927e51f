"""Bad rows that an import leaves out: counted, the first ones kept to be printed, all of them written to a file if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from kinbin_service.importing.batches import BadRow

__all__ = ["SHOWN", "BadRows"]

SHOWN = 20
"""So many are kept to be printed; the rest are counted."""


class BadRows:
    """What a command left out. `file` gets a line of JSON for each: {"file", "line" or "row", "reason"}, behind what it holds already."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.count = 0
        self.first: list[dict[str, Any]] = []

    def note(self, errors: Sequence[BadRow]) -> None:
        """Rows were left out. Raises OSError."""
        told = [_told(error) for error in errors]
        if told and self._file is not None:
            with self._file.open("ab") as file:
                file.write(b"".join(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in told))
        self.count += len(told)
        self.first += told[: SHOWN - len(self.first)]


def _told(error: BadRow) -> dict[str, Any]:
    place = {"line": error.line} if error.line is not None else {"row": error.row}
    return {"file": str(error.path), **place, "reason": error.detail}
