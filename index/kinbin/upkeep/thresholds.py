"""When upkeep acts, and what memory it takes, as settings of the process: small ones let small collections go through all states."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from kinbin.errors import InvalidInput
from kinbin.upkeep import background, drafts, linking, sealing

__all__ = ["Thresholds", "set_upkeep"]

_MOST_ROWS, _MOST_SECONDS = 1_000_000, 3_600.0
_LEAST_BYTES, _MOST_BYTES = 1 << 20, 1 << 40


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When the background work of a process seals and links, and what memory linking takes."""

    seal_rows: int = 8_192
    """Fresh rows that are sealed into a run. A write waits while more than eight times as many are fresh."""
    quiet_seal_rows: int = 4_096
    """The same once writes have paused."""
    link_rows: int = 4_096
    """Collections of fewer rows are not linked by themselves."""
    quiet_seconds: float = 2.0
    """Without a write for so long, writes have paused."""
    link_bytes: int | None = None
    """Memory that linking takes, in the background or called for; what needs more lies in files of the collection's folder meanwhile.
    None: a quarter of the memory that the process may use, 256 MiB at least."""


def set_upkeep(**changes: float | None) -> Thresholds:
    """Change some of the `Thresholds` of this process, for all its collections from now on; the others stay. Returns those before.

    The defaults are what was measured to be best; smaller ones make many small runs, and so slower queries. Answers keep their promises.

    Raises:
        InvalidInput: there is no such threshold, or its value is out of range: rows from 1 to 1,000,000, seconds above 0, to 3,600,
            bytes from 1 MiB to 1 TiB, or None.
    """
    before = _current()
    known = [one.name for one in fields(Thresholds)]
    for name, value in changes.items():
        if name not in known:
            raise InvalidInput.of("bad_parameter", f"{name} is no threshold: there are {', '.join(known)}", field=name)
        if not _fits(name, value):
            raise InvalidInput.of("bad_parameter", f"{name} is {_kind(name)}, not {value!r:.80}", field=name)
    _set(replace(before, **changes))  # type: ignore[arg-type]
    return before


def _range(name: str) -> tuple[int, int]:
    """The least and the greatest whole number that a threshold may be."""
    return (_LEAST_BYTES, _MOST_BYTES) if name.endswith("_bytes") else (1, _MOST_ROWS)


def _fits(name: str, value: object) -> bool:
    """Whether a threshold may have this value."""
    if value is None:
        return name.endswith("_bytes")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if name.endswith("_seconds"):
        return 0 < value <= _MOST_SECONDS
    least, most = _range(name)
    return isinstance(value, int) and least <= value <= most


def _kind(name: str) -> str:
    """What a threshold has to be, in words."""
    if name.endswith("_seconds"):
        return f"a number above 0, to {_MOST_SECONDS:,g}"
    least, most = _range(name)
    return f"a whole number from {least:,} to {most:,}" + (", or None" if name.endswith("_bytes") else "")


def _current() -> Thresholds:
    return Thresholds(sealing.SEAL_ROWS, sealing.QUIET_SEAL_ROWS, linking.LEAST_ROWS, background.QUIET_SECONDS, drafts.LINK_BYTES)


def _set(wanted: Thresholds) -> None:
    sealing.SEAL_ROWS = wanted.seal_rows
    sealing.QUIET_SEAL_ROWS = wanted.quiet_seal_rows
    linking.LEAST_ROWS = wanted.link_rows
    background.QUIET_SECONDS = float(wanted.quiet_seconds)
    drafts.LINK_BYTES = wanted.link_bytes
    background.BACKLOG_ROWS = 8 * wanted.seal_rows
