"""Payload indexes and facets: what is declared, and the values of a field with their counts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from kinbin_service.documented import FILTERED, NAMED, route
from kinbin_service.problems import Place
from kinbin_service.replies import encode, reply
from kinbin_service.routes.received import Name, received_json
from kinbin_service.routing import routes
from kinbin_service.schemas.answers import FacetsAnswer, IndexesAnswer
from kinbin_service.schemas.requests import FacetsRequest, IndexesRequest
from kinbin_service.service import service_of

__all__ = ["router"]

router = routes("items")
CHANGE = route(
    "Add and drop payload indexes", IndexesAnswer, body=IndexesRequest,
    refusals=NAMED | {"bad_parameter", "over_limit", "storage_full"},
)  # fmt: skip
FACETS = route(
    "Count the values of a field", FacetsAnswer, body=FacetsRequest, refusals=NAMED | FILTERED | {"bad_parameter", "search_deadline"}
)


@router.post("/v1/collections/{name}/indexes", **CHANGE)
async def change_indexes(request: Request, name: Name) -> Response:
    """Declared in one transaction, for every worker; built in the background, while filters read payloads as before.

    The same again changes nothing. A field with an index of another kind is refused, unless that is dropped with the same request.
    """
    async with received_json(request, IndexesRequest) as asked:
        request.state.place = Place(called={"indexes": "add"})
        database = service_of(request).database

        def change() -> bytes:
            return encode({"indexes": database.collection(name).change_indexes(asked.add, asked.drop)})

        return reply(await service_of(request).work(request, change, writes=True))


@router.post("/v1/collections/{name}/facets", **FACETS)
async def count_facets(request: Request, name: Name) -> Response:
    """Exact, with an index and without one. A list counts for each of its different values; objects are no values."""
    async with received_json(request, FacetsRequest) as asked:
        database = service_of(request).database

        def count() -> bytes:
            told = database.collection(name).facets(asked.field, asked.filter, asked.limit)
            values = [{"value": one.value, "count": one.count} for one in told.values]
            return encode({"field": told.field, "values": values, "distinct": told.distinct, "items": told.items})

        return reply(await service_of(request).read(request, count))
