"""Whose copy of a shard is not like the others'. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ["divergent", "is_judged"]


def is_judged(digests: Mapping[str, str], live: Iterable[str], replicas: int) -> bool:
    """Whether it can be said which copies are wrong: all that live have told, or most of all replicas have told the same.

    The first two to tell are no majority of three: each good one could be taken for wrong beside a bad holder.
    """
    return set(live) <= digests.keys() or max(Counter(digests.values()).values(), default=0) * 2 > replicas


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
