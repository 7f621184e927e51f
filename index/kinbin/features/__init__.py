"""Kernels for scikit-learn: exact kernel matrices, feature maps whose inner products are kernels, graphs of nearest neighbours.

It needs the extra `features` (scikit-learn); the rest of the library does not.
"""

from __future__ import annotations

try:
    import sklearn as _sklearn  # noqa: F401
except ModuleNotFoundError as absent:
    raise ImportError("kinbin.features needs scikit-learn: install kinbin with its extra, kinbin[features]") from absent

from kinbin.features.d2ke import D2KEFeatures
from kinbin.features.fourier import FourierFeatures
from kinbin.features.graph import KinbinTransformer
from kinbin.features.hashed import GCWSFeatures, ProductFeatures, SignFeatures
from kinbin.features.kernel_matrix import pairwise
from kinbin.features.nested import NestedHistogramKernel
from kinbin.features.nystroem import NystroemFeatures
from kinbin.features.qgrams import QGramFeatures

__all__ = [
    "D2KEFeatures",
    "FourierFeatures",
    "GCWSFeatures",
    "KinbinTransformer",
    "NestedHistogramKernel",
    "NystroemFeatures",
    "ProductFeatures",
    "QGramFeatures",
    "SignFeatures",
    "pairwise",
]
