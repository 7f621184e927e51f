"""When upkeep acts, as settings of the process: for small collections that are to go through all states, in tests above all."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from kinbin.errors import InvalidInput
from kinbin.upkeep import background, linking, sealing

__all__ = ["Thresholds", "set_upkeep"]

_MOST_ROWS, _MOST_SECONDS = 1_000_000, 3_600.0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When the background work of a process seals and links."""

    seal_rows: int = 8_192
    """Fresh rows that are sealed into a run. A write waits while more than eight times as many are fresh."""
    quiet_seal_rows: int = 4_096
    """The same once writes have paused."""
    link_rows: int = 4_096
    """Collections of fewer rows are not linked by themselves."""
    quiet_seconds: float = 2.0
    """Without a write for so long, writes have paused."""


def set_upkeep(**changes: float) -> Thresholds:
    """Change some of the `Thresholds` of this process, for all its collections from now on; the others stay. Returns those before.

    The defaults are what was measured to be best; smaller ones make many small runs, and so slower queries. Answers keep their promises.

    Raises:
        InvalidInput: there is no such threshold, or its value is out of range: rows from 1 to 1,000,000, seconds above 0, to 3,600.
    """
    before = _current()
    known = [one.name for one in fields(Thresholds)]
    for name, value in changes.items():
        if name not in known:
            raise InvalidInput.of("bad_parameter", f"{name} is no threshold: there are {', '.join(known)}", field=name)
        rows = name.endswith("_rows")
        fits = isinstance(value, int if rows else int | float) and not isinstance(value, bool)
        if not fits or not (1 <= value <= _MOST_ROWS if rows else 0 < value <= _MOST_SECONDS):
            kind = f"a whole number from 1 to {_MOST_ROWS:,}" if rows else f"a number above 0, to {_MOST_SECONDS:,g}"
            raise InvalidInput.of("bad_parameter", f"{name} is {kind}", field=name)
    _set(replace(before, **changes))  # type: ignore[arg-type]
    return before


def _current() -> Thresholds:
    return Thresholds(sealing.SEAL_ROWS, sealing.QUIET_SEAL_ROWS, linking.LEAST_ROWS, background.QUIET_SECONDS)


def _set(wanted: Thresholds) -> None:
    sealing.SEAL_ROWS = wanted.seal_rows
    sealing.QUIET_SEAL_ROWS = wanted.quiet_seal_rows
    linking.LEAST_ROWS = wanted.link_rows
    background.QUIET_SECONDS = float(wanted.quiet_seconds)
    background.BACKLOG_ROWS = 8 * wanted.seal_rows
