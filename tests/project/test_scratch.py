"""Where `make test` has tests write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import scratch

SYSTEMS_OWN = Path(tempfile.gettempdir())


def test_memory_with_room_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that takes files and has room is taken."""
    monkeypatch.setattr(scratch, "ROOM", 1)
    monkeypatch.setattr(scratch, "_memory_available", lambda: 1)
    assert scratch.scratch(tmp_path) == tmp_path


def test_memory_without_room_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the place or the machine's memory has too little room, as in most containers, the system's own place is taken."""
    monkeypatch.setattr(scratch, "ROOM", 1 << 62)
    assert scratch.scratch(tmp_path) == SYSTEMS_OWN
    monkeypatch.setattr(scratch, "ROOM", 1)
    monkeypatch.setattr(scratch, "_memory_available", lambda: 0)
    assert scratch.scratch(tmp_path) == SYSTEMS_OWN


def test_memory_that_is_not_there_is_not_taken(tmp_path: Path) -> None:
    """A machine that has no such place has its own."""
    assert scratch.scratch(tmp_path / "none") == SYSTEMS_OWN


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="this system does not tell")
def test_memory_that_starts_no_programs_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests start programs that they wrote: a place where that is forbidden is no place for them."""
    monkeypatch.setattr(scratch, "ROOM", 1)
    told = os.statvfs(tmp_path)

    class Told:
        f_flag = os.ST_NOEXEC
        f_bavail, f_frsize = told.f_bavail, told.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda _: Told)
    assert scratch.scratch(tmp_path) == SYSTEMS_OWN
