"""Kinbin: near neighbours of histograms, counts, shingle sets and signed vectors under the min-max kernels.

import kinbin
db = kinbin.open("data/")
c = db.create_collection("photos", kernel="ngmm", dim=512)
c.add(ids, X)
a = c.query(x, k=10, target_recall=0.9)
a.ids, a.scores, a.recall_lower_bound
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinbin.collector import collector_paused

if TYPE_CHECKING:
    from kinbin.calibrate import measure_costs
    from kinbin.cancelling import cancelled_by
    from kinbin.collection import Collection
    from kinbin.costs import Costs
    from kinbin.database import Database, open
    from kinbin.duplicates.found import Cluster, Pair
    from kinbin.duplicates.shingling import Shingler
    from kinbin.duplicates.stream import Duplicates
    from kinbin.duplicates.texts import TextClusters, TextDuplicates
    from kinbin.errors import (
        AliasConflict,
        AliasNotFound,
        Closed,
        CollectionExists,
        CollectionNotFound,
        CorruptData,
        CursorExpired,
        FormatMismatch,
        InvalidInput,
        ItemConflict,
        KeyReused,
        KinbinError,
        Problem,
        SearchCancelled,
        SnapshotNotFound,
        StorageBusy,
        StorageError,
        StorageFull,
        VersionConflict,
    )
    from kinbin.explaining.told import Cell, Explanation, Factor, Rest, SharedBands, Term, Walked
    from kinbin.fields.collection import FieldsCollection
    from kinbin.hashing.sampler import SAMPLERS
    from kinbin.indexes.kinds import INDEX_KINDS
    from kinbin.items.images import image_pixels
    from kinbin.items.kinds import KINDS
    from kinbin.layouts.told import Map, MapPoint
    from kinbin.limits import LIMITS, Limit
    from kinbin.options import OPTIONS, Option, QueryOptions
    from kinbin.pinned import Pinned
    from kinbin.query.threads import set_threads
    from kinbin.records import (
        AddResult,
        Answer,
        AnswerBatch,
        BackupReport,
        CheckReport,
        CollectionConfig,
        CompactReport,
        DeleteResult,
        Facets,
        FacetValue,
        FieldsConfig,
        Group,
        Hit,
        Item,
        Page,
        PayloadResult,
        Query,
        RepairReport,
        SnapshotInfo,
        SnapshotReport,
        Sparse,
        Tokens,
    )
    from kinbin.rows.rows import Rows
    from kinbin.rows.shingles import shingles
    from kinbin.rows.tokens import token_feature
    from kinbin.schema import Checked, Schema
    from kinbin.snapshots.kept import Snapshots
    from kinbin.spaces.registry import KERNELS, OBJECT_KERNELS
    from kinbin.spaces.space import Kernel
    from kinbin.storage.commits import watch_commits
    from kinbin.together import Together
    from kinbin.trying import tune
    from kinbin.tuning.records import (
        BandsForecast,
        CurrentSetting,
        ModeRecall,
        Rebuilt,
        RecallReport,
        SimilarityHistogram,
        Suggestion,
        Tuning,
        WalkForecast,
    )
    from kinbin.upkeep.thresholds import Thresholds, set_upkeep
    from kinbin.warmup import Compiling, warm_up
    from kinbin.warmup.display import showing_compilation

__version__ = "0.1.0"

__all__ = [
    "INDEX_KINDS",
    "KERNELS",
    "KINDS",
    "LIMITS",
    "OBJECT_KERNELS",
    "OPTIONS",
    "SAMPLERS",
    "AddResult",
    "AliasConflict",
    "AliasNotFound",
    "Answer",
    "AnswerBatch",
    "BackupReport",
    "BandsForecast",
    "Cell",
    "CheckReport",
    "Checked",
    "Closed",
    "Cluster",
    "Collection",
    "CollectionConfig",
    "CollectionExists",
    "CollectionNotFound",
    "CompactReport",
    "Compiling",
    "CorruptData",
    "Costs",
    "CurrentSetting",
    "CursorExpired",
    "Database",
    "DeleteResult",
    "Duplicates",
    "Explanation",
    "FacetValue",
    "Facets",
    "Factor",
    "FieldsCollection",
    "FieldsConfig",
    "FormatMismatch",
    "Group",
    "Hit",
    "InvalidInput",
    "Item",
    "ItemConflict",
    "Kernel",
    "KeyReused",
    "KinbinError",
    "Limit",
    "Map",
    "MapPoint",
    "ModeRecall",
    "Option",
    "Page",
    "Pair",
    "PayloadResult",
    "Pinned",
    "Problem",
    "Query",
    "QueryOptions",
    "Rebuilt",
    "RecallReport",
    "RepairReport",
    "Rest",
    "Rows",
    "Schema",
    "SearchCancelled",
    "SharedBands",
    "Shingler",
    "SimilarityHistogram",
    "SnapshotInfo",
    "SnapshotNotFound",
    "SnapshotReport",
    "Snapshots",
    "Sparse",
    "StorageBusy",
    "StorageError",
    "StorageFull",
    "Suggestion",
    "Term",
    "TextClusters",
    "TextDuplicates",
    "Thresholds",
    "Together",
    "Tokens",
    "Tuning",
    "VersionConflict",
    "WalkForecast",
    "Walked",
    "cancelled_by",
    "image_pixels",
    "measure_costs",
    "open",
    "set_threads",
    "set_upkeep",
    "shingles",
    "showing_compilation",
    "token_feature",
    "tune",
    "warm_up",
    "watch_commits",
]

# Names are imported when they are first asked for: numba takes a third of a second, and a program that prints its help needs none of it.
_HOMES = {
    "kinbin.calibrate": "measure_costs",
    "kinbin.cancelling": "cancelled_by",
    "kinbin.collection": "Collection",
    "kinbin.costs": "Costs",
    "kinbin.database": "Database open",
    "kinbin.duplicates.found": "Cluster Pair",
    "kinbin.duplicates.shingling": "Shingler",
    "kinbin.duplicates.stream": "Duplicates",
    "kinbin.duplicates.texts": "TextClusters TextDuplicates",
    "kinbin.errors": (
        "AliasConflict AliasNotFound Closed CollectionExists CollectionNotFound CorruptData CursorExpired FormatMismatch InvalidInput "
        "ItemConflict KeyReused KinbinError Problem SearchCancelled SnapshotNotFound StorageBusy StorageError StorageFull VersionConflict"
    ),
    "kinbin.hashing.sampler": "SAMPLERS",
    "kinbin.spaces.registry": "KERNELS OBJECT_KERNELS",
    "kinbin.spaces.space": "Kernel",
    "kinbin.explaining.told": "Cell Explanation Factor Rest SharedBands Term Walked",
    "kinbin.fields.collection": "FieldsCollection",
    "kinbin.indexes.kinds": "INDEX_KINDS",
    "kinbin.items.images": "image_pixels",
    "kinbin.items.kinds": "KINDS",
    "kinbin.layouts.told": "Map MapPoint",
    "kinbin.limits": "LIMITS Limit",
    "kinbin.records": (
        "AddResult Answer AnswerBatch BackupReport CheckReport CollectionConfig CompactReport DeleteResult FacetValue Facets FieldsConfig "
        "Group Hit Item Page PayloadResult Query RepairReport SnapshotInfo SnapshotReport Sparse Tokens"
    ),
    "kinbin.options": "OPTIONS Option QueryOptions",
    "kinbin.pinned": "Pinned",
    "kinbin.query.threads": "set_threads",
    "kinbin.rows.rows": "Rows",
    "kinbin.rows.shingles": "shingles",
    "kinbin.schema": "Checked Schema",
    "kinbin.rows.tokens": "token_feature",
    "kinbin.storage.commits": "watch_commits",
    "kinbin.trying": "tune",
    "kinbin.together": "Together",
    "kinbin.tuning.records": (
        "BandsForecast CurrentSetting ModeRecall Rebuilt RecallReport SimilarityHistogram Suggestion Tuning WalkForecast"
    ),
    "kinbin.upkeep.thresholds": "Thresholds set_upkeep",
    "kinbin.snapshots.kept": "Snapshots",
    "kinbin.warmup": "Compiling warm_up",
    "kinbin.warmup.display": "showing_compilation",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = ("errors", "limits")
"""Modules that are reached as attributes too."""


def __getattr__(name: str) -> Any:
    """A public name, imported now (PEP 562)."""
    if name in _HOME_OF:
        with collector_paused():
            value = getattr(import_module(_HOME_OF[name]), name)
    elif name in _MODULES:
        value = import_module(f"kinbin.{name}")
    else:
        raise AttributeError(f"module 'kinbin' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
