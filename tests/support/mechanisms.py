"""Kernels that stand for all: what the others share with one of these, its tests show."""

from __future__ import annotations

__all__ = ["MECHANISMS"]

MECHANISMS = ("gmm", "ngmm", "chi2", "hellinger", "cosine", "mm_acos")
"""Sums of rows as they are, and of shapes; scores of a kernel's own, hashed through its bound, or by random projections with codes of unit
roots; scores below zero, with codes of unit rows; a product. Scores of every kernel: tests/index/spaces."""
