"""What a search for duplicates tells."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Cluster", "Pair"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two items that are near each other."""

    a: str
    b: str
    """Ids; `a` comes before `b`, as UTF-8 bytes."""
    score: float
    """What the kernel prints, exactly: of kernels that print distances the distance."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Items that hang together by pairs that are near each other (single linkage)."""

    keep: str
    """The first of the ids."""
    ids: tuple[str, ...]
    """Two or more, ascending as UTF-8 bytes."""
    least: float
    """What the farthest of the pairs scores by which they were joined; two members that no pair joins may be farther apart."""
