"""Kernels that stand for all: what the others share with one of these, its tests show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hypothesis

__all__ = ["MECHANISMS", "cells"]

MECHANISMS = ("gmm", "ngmm", "chi2", "hellinger", "cosine", "mm_acos")
"""Sums of rows as they are, and of shapes; scores of a kernel's own, hashed through its bound, or by random projections with codes of unit
roots; scores below zero, with codes of unit rows; a product. Scores of every kernel: tests/index/spaces."""


def cells(kinds: Sequence[str], takes: Callable[[str, str], bool], most: int = 2) -> list[tuple[str, str]]:
    """Pairs of a mechanism and a kind of rows that it takes: `ngmm` with every kind, each other one with `most` of them, in turn.

    What each mechanism does with rows, and what each kind of rows needs, is shown so in half the time of all pairs, which the profile
    `thorough` takes.
    """
    out = []
    for place, mechanism in enumerate(MECHANISMS):
        taken = [kind for kind in kinds if takes(mechanism, kind)]
        some = taken if mechanism == "ngmm" or _thorough() else [taken[(place + i) % len(taken)] for i in range(min(most, len(taken)))]
        out += [(mechanism, kind) for kind in taken if kind in some]
    return out


def _thorough() -> bool:
    return hypothesis.settings().max_examples >= hypothesis.settings.get_profile("thorough").max_examples
