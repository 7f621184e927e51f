"""Whose copy of a shard is not like the others'. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

__all__ = ["divergent"]


def divergent(holder: str | None, digests: Mapping[str, str]) -> list[str]:
    """The nodes whose copy is to be made anew from the snapshot and the log, by name.

    digests: of each copy, at the same sequence. Those that differ from what most have; where no digest is most's, those that differ from
    the holder's: its copy is what snapshots are made of.
    """
    counted = Counter(digests.values())
    if len(counted) < 2:
        return []
    (most, votes), (_, second) = counted.most_common(2)
    if votes == second and holder is not None and holder in digests:
        most = digests[holder]
    return sorted(node for node, digest in digests.items() if digest != most)
