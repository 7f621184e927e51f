"""Client of the Kinbin near-neighbour service: `Client` (blocking) and `AsyncClient` (asyncio).

    from kinbin_client import Client

    with Client("http://127.0.0.1:8080") as client:
        client.add(["a", "b"], [[0.1, 0, 2.5], [1, 2, 3]])
        answer = client.query([0.1, 0, 2], k=1)
        print(answer.ids, answer.scores, answer.recall_lower_bound)

Everything public is here; modules with an underscore may change. Needs httpx and pydantic only;
NumPy arrays and SciPy matrices are taken without being imported.
"""

from kinbin_client._chunks import Chunking
from kinbin_client._duplicates import Cluster, Duplicates, Pair
from kinbin_client._options import Query, QueryOptions
from kinbin_client._shingles import shingles
from kinbin_client._version import __version__
from kinbin_client.async_client import AsyncClient, AsyncCollection, AsyncFieldsCollection
from kinbin_client.client import Client, Collection, FieldsCollection
from kinbin_client.errors import (
    ApiError,
    BadRequest,
    ClientClosed,
    Conflict,
    ConnectionFailed,
    ConnectionLost,
    ConnectTimeout,
    Forbidden,
    InvalidArgument,
    InvalidInput,
    KinbinClientError,
    NotFound,
    Problem,
    RateLimited,
    ServerError,
    StorageFull,
    Timeout,
    TooLarge,
    TransportError,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    UnsupportedMedia,
)
from kinbin_client.insights import Cell, Constant, Explanation, Factor, Map, MapPoint, Rest, SharedBands, Term, Walked
from kinbin_client.models import (
    AddResult,
    Answer,
    AnswerBatch,
    CollectionInfo,
    CompactReport,
    DeleteResult,
    Facets,
    FacetValue,
    GetResult,
    Group,
    Health,
    Hit,
    Holds,
    Item,
    Limit,
    Page,
    PayloadResult,
    SkippedItem,
    Snapshot,
    SnapshotReport,
)
from kinbin_client.retry import Retry
from kinbin_client.snapshots import AsyncSnapshots, Snapshots
from kinbin_client.vectors import ByField, Sparse, Tokens, Vector, Vectors

__all__ = [
    "AddResult",
    "Answer",
    "AnswerBatch",
    "ApiError",
    "AsyncClient",
    "AsyncCollection",
    "AsyncFieldsCollection",
    "AsyncSnapshots",
    "BadRequest",
    "ByField",
    "Cell",
    "Chunking",
    "Client",
    "ClientClosed",
    "Cluster",
    "Collection",
    "CollectionInfo",
    "CompactReport",
    "Conflict",
    "ConnectTimeout",
    "ConnectionFailed",
    "ConnectionLost",
    "Constant",
    "DeleteResult",
    "Duplicates",
    "Explanation",
    "FacetValue",
    "Facets",
    "Factor",
    "FieldsCollection",
    "Forbidden",
    "GetResult",
    "Group",
    "Health",
    "Hit",
    "Holds",
    "InvalidArgument",
    "InvalidInput",
    "Item",
    "KinbinClientError",
    "Limit",
    "Map",
    "MapPoint",
    "NotFound",
    "Page",
    "Pair",
    "PayloadResult",
    "Problem",
    "Query",
    "QueryOptions",
    "RateLimited",
    "Rest",
    "Retry",
    "ServerError",
    "SharedBands",
    "SkippedItem",
    "Snapshot",
    "SnapshotReport",
    "Snapshots",
    "Sparse",
    "StorageFull",
    "Term",
    "Timeout",
    "Tokens",
    "TooLarge",
    "TransportError",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "UnsupportedMedia",
    "Vector",
    "Vectors",
    "Walked",
    "__version__",
    "shingles",
]
