"""Integers as ids: what arrives as one is its decimal digits from then on, as in the library."""

from __future__ import annotations

from typing import Any

__all__ = ["LARGEST_ID", "LEAST_ID", "id_as_text"]

LEAST_ID, LARGEST_ID = -(2**63), 2**64 - 1


def id_as_text(identifier: Any) -> Any:
    """The digits of an integer of 64 bits. All else stays as it is, and is judged later."""
    return str(identifier) if type(identifier) is int and LEAST_ID <= identifier <= LARGEST_ID else identifier
