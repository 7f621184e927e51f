"""The OpenAPI document: routes and wire models put together. `make docs` writes the committed file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import kinbin
from kinbin_service.documented import PROBLEMS, REFERRED
from kinbin_service.keys import changes
from kinbin_service.problems import CODES, MEDIA_TYPE
from kinbin_service.schemas.answers import ProblemAnswer
from kinbin_service.schemas.queries import QueryEntry, QueryOptions
from kinbin_service.schemas.requests import AddOptions, ItemIn
from kinbin_service.schemas.snapshots import RestoreOptions

__all__ = ["COMMITTED", "CONTRACT_VERSION", "document", "text"]

CONTRACT_VERSION = kinbin.__version__
"""The contract is that of the package: what a version adds stands in its changelog, and the routes under /v1 only grow."""

COMMITTED = Path(__file__).resolve().parent.parent / "openapi.json"

DESCRIPTION = """\
Finds the near neighbours of histograms, counts, shingle sets and signed vectors under the min-max family of kernels, \
and of strings, series, point sets and images by distances of their own: \
exact scores, and a proved lower bound on mean recall, or the reason why an answer has none.

Every request passes the same gates in this order: size (413), host (421, 403), key (401, 403), room to wait (429), \
parsing (400, 415), validation (422), admission (429, 503). \
An add, or a delete by ids, is one transaction, durable when it is answered. Of a key that occurs twice in a JSON object, the last \
one counts.

A 408, a 429 and a 503 other than `storage_busy` and `outcome_unknown` mean that nothing was done: any request may be sent again. \
After a lost connection, a timeout, `storage_busy`, `outcome_unknown` or a proxy's 502 or 504 the request may have been done. Reads, \
upserts with ids, deletes and PUT may be sent again all the same; that has the effect of one request that came later (what others \
wrote to the same items in between is overwritten or deleted). Any add may be sent again for 24 hours with the `Idempotency-Key` \
that it had: it is done once. Not to be sent again without one: a matrix without `X-Kinbin-Ids`, whose items would be there twice \
under new ids; mode `insert`, which answers 409 if the first was done; mode `update`, which answers 409 if an item was deleted \
since. Nor writes on condition of a version, and dropping a collection. Get the ids, or the collection, to see what was done.
"""


_REFERENCE = re.compile(rb'"#/components/schemas/(\w+)"')


def document(app: FastAPI) -> dict[str, Any]:
    """The document of an application, made once."""
    if app.openapi_schema is None:
        made = get_openapi(title="Kinbin", version=CONTRACT_VERSION, description=DESCRIPTION, routes=app.routes)
        _add_schemas(made)
        _add_problems(made)
        made["security"] = [{"bearer": []}, {"header": []}, {}]
        app.openapi_schema = made
    return app.openapi_schema


def _add_schemas(made: dict[str, Any]) -> None:
    """Request models, which the routes read themselves, and what they refer to."""
    always: tuple[type[BaseModel], ...] = (AddOptions, QueryEntry, QueryOptions, RestoreOptions, ProblemAnswer)
    # Other applications of the process have routes and models of their own (a gateway).
    used = set(_REFERENCE.findall(orjson.dumps(made["paths"])))
    named = {one.__name__: one for one in always} | {name: model for name, model in REFERRED.items() if name.encode() in used}
    models = [(named[name], "validation") for name in sorted(named)]
    _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # modes are literals
    schemas = made["components"]["schemas"]
    schemas.update(definitions["$defs"])
    assert ItemIn.__name__ in schemas
    for leftover in ("HTTPValidationError", "ValidationError"):
        schemas.pop(leftover, None)
    made["components"]["schemas"] = dict(sorted(schemas.items()))
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "where a key is set"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "the same key in another header"},
    }


def _add_problems(made: dict[str, Any]) -> None:
    """A response for every status of the table of codes, and references to them from the routes, which list their codes."""
    responses: dict[str, Any] = {}
    for status in sorted({code.status for code in CODES.values()}):
        titles = [f"`{name}`: {code.title}." for name, code in CODES.items() if code.status == status]
        responses[str(status)] = {
            "description": " ".join(titles),
            "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{ProblemAnswer.__name__}"}}},
        }
        if status in (429, 503):
            responses[str(status)]["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    made["components"]["responses"] = responses
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            if "stopping" in operation[PROBLEMS] and changes(method.upper(), path):
                # It has begun, and its server waits no longer.
                operation[PROBLEMS] = sorted({*operation[PROBLEMS], "outcome_unknown"})
            for status in sorted({CODES[name].status for name in operation[PROBLEMS]}):
                operation["responses"][str(status)] = {"$ref": f"#/components/responses/{status}"}


def text(app: FastAPI) -> bytes:
    """The document as the committed file holds it."""
    return orjson.dumps(document(app), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
