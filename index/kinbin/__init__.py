"""Kinbin: near neighbours of histograms, counts, shingle sets and signed vectors under the min-max kernels.

import kinbin
db = kinbin.open("data/")
c = db.create_collection("photos", kernel="ngmm", dim=512)
c.add(ids, X)
a = c.query(x, k=10, target_recall=0.9)
a.ids, a.scores, a.recall_lower_bound
"""

from kinbin.collection import Collection
from kinbin.database import Database, open
from kinbin.errors import (
    Closed,
    CollectionExists,
    CollectionNotFound,
    CorruptData,
    FormatMismatch,
    InvalidInput,
    ItemConflict,
    KinbinError,
    Problem,
    StorageBusy,
    StorageError,
    StorageFull,
)
from kinbin.kernels.registry import KERNELS, Kernel
from kinbin.limits import LIMITS, Limit
from kinbin.records import AddResult, Answer, AnswerBatch, CheckReport, CollectionConfig, DeleteResult, Item, Page, Sparse, Tokens
from kinbin.search.threads import set_threads
from kinbin.vectors.shingles import shingles
from kinbin.vectors.tokens import token_feature
from kinbin.warmup import warm_up

__version__ = "0.1.0"

__all__ = [
    "KERNELS",
    "LIMITS",
    "AddResult",
    "Answer",
    "AnswerBatch",
    "CheckReport",
    "Closed",
    "Collection",
    "CollectionConfig",
    "CollectionExists",
    "CollectionNotFound",
    "CorruptData",
    "Database",
    "DeleteResult",
    "FormatMismatch",
    "InvalidInput",
    "Item",
    "ItemConflict",
    "Kernel",
    "KinbinError",
    "Limit",
    "Page",
    "Problem",
    "Sparse",
    "StorageBusy",
    "StorageError",
    "StorageFull",
    "Tokens",
    "open",
    "set_threads",
    "shingles",
    "token_feature",
    "warm_up",
]
