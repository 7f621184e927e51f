"""Requests that predict, measure and change how the rows of a collection lie in bands. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from kinbin_client._objects import KEYS, encode_object
from kinbin_client._requests import Operation, Request, collection_path, json_request, object_json, to_json, vector_json
from kinbin_client._responses import model_parser
from kinbin_client.errors import InvalidArgument
from kinbin_client.models import Rebuilt, RecallReport, Tuning
from kinbin_client.retry import Repeat
from kinbin_client.vectors import encode_vector

__all__ = ["measured_recall", "rebuild", "sampled_recall", "tune"]

_LONG_SECONDS = 3_600.0
"""Rows are hashed anew."""

_parse_tuning = model_parser(Tuning)
_parse_recall = model_parser(RecallReport)
_parse_rebuilt = model_parser(Rebuilt)


def tune(name: str, asked: Mapping[str, Any], choices: Iterable[tuple[int, int]] | None) -> Operation[Tuning]:
    """Predict. asked: k, target_recall, sample and seed."""
    body = {name: value for name, value in asked.items() if value is not None}
    if choices is not None:
        try:
            body["choices"] = [{"rows": rows, "bands": bands} for rows, bands in choices]
        except (TypeError, ValueError):
            raise InvalidArgument("choices are pairs of rows and bands", code="bad_parameter") from None
    return Operation(json_request("POST", f"{collection_path(name)}/tune", to_json(body, "request")), _parse_tuning)


def sampled_recall(name: str, queries: int, asked: Mapping[str, Any], modes: Iterable[str] | None, seed: int) -> Operation[RecallReport]:
    """Measure by stored rows. asked: k and target_recall."""
    parameters = {"queries": queries, **asked, "seed": seed}
    if modes is not None:
        parameters["modes"] = ",".join(_listed(modes))
    return Operation(Request("GET", f"{collection_path(name)}/recall?{urlencode(parameters)}"), _parse_recall)


def measured_recall(name: str, queries: Any, items: str, asked: Mapping[str, Any], modes: Iterable[str] | None) -> Operation[RecallReport]:
    """Measure by queries that are given: a matrix, or a list of vectors or objects of a kind of items."""
    if isinstance(queries, str | bytes | Mapping) or not isinstance(queries, Iterable):
        raise InvalidArgument(f"queries are a number of stored rows, or a list of them, not {type(queries).__name__}", code="bad_parameter")
    several = queries.tocsr() if hasattr(queries, "tocsr") else queries
    listed = b",".join(_one(query, items, position) for position, query in enumerate(several))
    more = {**asked} if modes is None else {**asked, "modes": _listed(modes)}
    body = b'{"queries":[' + listed + b"]," + to_json(more, "request")[1:]
    return Operation(json_request("POST", f"{collection_path(name)}/recall", body), _parse_recall)


def rebuild(name: str, rows: int | None, bands: int | None, field: str | None) -> Operation[Rebuilt]:
    """Lay the rows out anew; not repeated when it may have been begun, for it takes long."""
    body = to_json({"rows": rows, "bands": bands} | ({} if field is None else {"field": field}), "request")
    headers = json_request("POST", "/", body).headers
    return Operation(Request("POST", f"{collection_path(name)}/rebuild", body, headers, Repeat.IF_NOT_DONE, _LONG_SECONDS), _parse_rebuilt)


def _one(given: Any, items: str, position: int) -> bytes:
    if items == "vectors":
        return vector_json(encode_vector(given), position)
    key = KEYS[items]
    return b'{"' + key.encode() + b'":' + object_json(encode_object(items, given), key, position) + b"}"


def _listed(modes: Iterable[str]) -> list[str]:
    if isinstance(modes, str) or not isinstance(modes, Iterable):
        raise InvalidArgument("modes are a list of strings", code="bad_parameter")
    return [str(mode) for mode in modes]
