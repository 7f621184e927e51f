"""Spaces that lack something, for the tests of the seam: the scores of `chi2`, without hashes, without codes, without either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kinbin.spaces.chi2 import CHI2
from kinbin.spaces.pairwise import CHI_SQUARED, Block, Pairwise
from kinbin.spaces.space import Code, Space

__all__ = ["BARE", "FINISHED", "FINISHED_AND_TOLD", "UNCODED", "UNHASHED", "UNTIED"]


def _like_chi2(name: str, *, hashes: bool, codes: bool) -> Space:
    return Space(
        name, name, CHI2.formula, shapes=True, signed=False, code=CHI2.code, score_at=CHI2.score_at, hashes=hashes, codes=codes
    )  # fmt: skip


UNHASHED = _like_chi2("unhashed", hashes=False, codes=True)
UNCODED = _like_chi2("uncoded", hashes=True, codes=False)
BARE = _like_chi2("bare", hashes=False, codes=False)
assert CHI2.code is not None
UNTIED = replace(_like_chi2("untied", hashes=True, codes=True), code=Code(CHI2.code.score, CHI2.code.best, CHI2.code.farthest))
"""Nothing says how often its pairs collide."""


def _as_it_is(sums: Sequence[Block], _left: Block, _right: Block) -> Block:
    return sums[0]


FINISHED = replace(BARE, pairwise=Pairwise((CHI_SQUARED,), _as_it_is))
"""It makes something of its sum, and does not say what."""
FINISHED_AND_TOLD = replace(BARE, pairwise=Pairwise((CHI_SQUARED,), _as_it_is, outer="(x * {a} / {a} + x * {b} / {b}) / 2"))
