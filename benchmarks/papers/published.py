"""What the papers print: test accuracies in per cent, row by row. None stands for what is not in a table.

"Generalized Intersection Kernel" (Li 2016), Table 1; "A Comparison Study of Nonlinear Kernels" (Li 2016), Tables 1 to 3;
"Nystrom Method for Approximating the GMM Kernel" (Li 2016), Table 1. The figures of the papers are plots without numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["BEST_GAMMA", "PAPERS", "Paper"]

Row = tuple[float, ...]


@dataclass(frozen=True)
class Paper:
    """One table of kernel SVMs."""

    title: str
    methods: tuple[str, ...]
    """Columns: `linear`, or a kernel of Kinbin's registry."""
    rows: dict[str, Row]


_GINT_METHODS: Final = ("linear", "rbf", "gmm", "ngmm", "gint")
_GINT: Final[dict[str, Row]] = {
    "ImageSeg": (83.81, 91.38, 95.05, 91.38, 90.62),
    "Magic": (78.04, 83.90, 87.02, 84.10, 81.75),
    "Musk": (95.09, 99.33, 99.24, 99.12, 99.09),
    "Musk2k": (94.80, 97.63, 98.02, 98.02, 97.85),
    "Optdigits": (95.27, 98.72, 97.72, 97.44, 96.77),
    "PageBlocks": (95.87, 97.08, 96.56, 97.08, 97.04),
    "Satimage": (72.45, 85.20, 90.40, 83.50, 83.15),
    "Shuttle500": (91.81, 99.52, 99.65, 99.61, 99.59),
    "SkinSeg10k": (93.36, 99.74, 99.81, 99.74, 99.74),
    "SpamBase": (85.91, 92.38, 94.17, 94.00, 93.70),
    "Splice": (85.10, 90.02, 95.22, 94.94, 93.84),
    "Vertebral": (80.65, 83.23, 89.02, 81.29, 81.94),
    "Vowel": (39.39, 94.70, 96.97, 89.39, 85.61),
    "Wholesale": (89.55, 90.91, 93.18, 89.55, 89.55),
}
"""Table 1: the 14 of its 40 rows whose data may be there; the other 26 are named in docs/papers.md."""

_COMPARISON_METHODS: Final = ("linear", "gmm", "rbf", "frbf", "acos", "acos_chi2", "gmm*acos", "gmm*acos_chi2")
_COMPARISON: Final[dict[str, Row]] = {
    "Letter": (62.4, 96.2, 97.6, 97.6, 97.0, 97.0, 97.2, 97.2),
    "Letter4k": (61.2, 91.4, 94.0, 94.1, 93.3, 93.3, 92.9, 92.8),
    "MNIST10k": (90.0, 95.7, 96.8, 96.9, 95.2, 95.2, 96.1, 96.1),
    "Optdigits": (95.3, 97.7, 98.7, 98.7, 97.7, 97.5, 97.8, 97.9),
    "Phoneme": (91.4, 92.5, 92.4, 92.5, 92.2, 90.2, 92.6, 92.1),
    "Satimage": (78.5, 90.5, 89.8, 89.8, 89.5, 89.4, 91.2, 90.9),
    "Segment": (92.6, 98.1, 97.5, 97.5, 97.6, 97.2, 98.1, 98.3),
    "Spam": (92.6, 95.0, 94.6, 94.6, 94.2, 95.2, 94.9, 95.0),
    "Splice": (85.1, 95.2, 90.0, 89.8, 89.2, 91.7, 95.9, 95.7),
    "Vowel": (40.9, 59.1, 65.6, 65.6, 63.0, 61.3, 58.9, 58.7),
}
"""Tables 1 (linear), 2 and 3: the 10 of the 35 rows whose data may be there. Its min-max kernel of nonnegative rows is `gmm`."""

_NYSTROEM_METHODS: Final = ("linear", "rbf", "gmm")
_NYSTROEM: Final[dict[str, Row]] = {
    "SVMGuide3": (36.5, 100.0, 100.0),
    "Letter15k": (61.7, 97.4, 97.3),
}
"""Table 1: 2 of the 3 rows that have kernel SVMs."""

PAPERS: Final = {
    "gint": Paper("Generalized Intersection Kernel, Table 1", _GINT_METHODS, _GINT),
    "comparison": Paper("A Comparison Study of Nonlinear Kernels, Tables 1 to 3", _COMPARISON_METHODS, _COMPARISON),
    "nystroem": Paper("Nystrom Method for Approximating the GMM Kernel, Table 1", _NYSTROEM_METHODS, _NYSTROEM),
}

BEST_GAMMA: Final = {
    "Letter": (100.0, 100.0),
    "Letter4k": (40.0, 50.0),
    "MNIST10k": (5.0, 5.0),
    "Optdigits": (8.0, 8.0),
    "Phoneme": (10.0, 9.0),
    "Satimage": (150.0, 150.0),
    "Segment": (15.0, 15.0),
    "Spam": (1.2, 1.7),
    "Splice": (15.0, 16.0),
    "Vowel": (20.0, 20.0),
    "SVMGuide3": (120.0, 120.0),
    "Letter15k": (11.0, 11.0),
}
"""The gamma that the papers found best: RBF, fRBF (the Nyström paper has RBF only). Linearisations use it, as theirs do."""
