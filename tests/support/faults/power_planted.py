"""The story of `faults.power`, told by a node that notes how far it is before it does it: what the judge has to find."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from faults.plants import PLANTS
from faults.power import judge_disks
from faults.power import tell as tell_soundly

__all__ = ["judge_disks", "tell"]


def tell(connection: Connection, folder: str, record: str, flags: dict[str, Any], sync_folders: bool) -> None:
    """In a process of its own, which ends with the story."""
    PLANTS["notes-the-sequence-first"]()
    tell_soundly(connection, folder, record, flags, sync_folders)
