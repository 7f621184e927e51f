"""Requests that ask what a collection tells of itself. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from kinbin_client import _flows
from kinbin_client._cluster import Reading, reading_request
from kinbin_client._flows import Flow
from kinbin_client._objects import KEYS, encode_object
from kinbin_client._options import Filter, id_as_text
from kinbin_client._requests import Operation, collection_path, id_list, json_request, object_json, to_json, vector_json
from kinbin_client._responses import model_parser
from kinbin_client.insights import Explanation, Map
from kinbin_client.retry import Retry
from kinbin_client.vectors import encode_vector

__all__ = ["ExplainTerms", "MapTerms", "explained", "mapped"]

_parse_explanation = model_parser(Explanation)
_parse_map = model_parser(Map)


class ExplainTerms(TypedDict, total=False):
    """What an explanation is asked for besides; see `Collection.explain`."""

    field: str | None
    limit: int
    k: int
    s_curve: bool
    feature_names: Mapping[int, str] | list[str] | None
    after: str | None


class MapTerms(TypedDict, total=False):
    """What a map is asked for besides; see `Collection.map`."""

    field: str | None
    method: str
    fields: Iterable[str]
    seed: int
    filter: Filter | None


def mapped(name: str, sample: int, more: MapTerms) -> Operation[Map]:
    """A sample of the items in the plane."""
    body: dict[str, Any] = {"sample": sample, **{key: value for key, value in more.items() if value is not None}}
    if "fields" in more:
        body["fields"] = id_list(more["fields"] if isinstance(more["fields"], str) else list(more["fields"]))
    return Operation(json_request("POST", f"{collection_path(name)}/map", to_json(body, "map")), _parse_map)


def explained(
    name: str, about: tuple[Any, str | int | None], id: str | int, more: ExplainTerms, kinds: dict[str, str], retry: Retry
) -> Flow[Explanation]:
    """Why an item scores what it scores. about: a vector or object, and the id of a stored one; kinds: see `_flows.of_its_kind`."""
    query, query_id = about
    fields: dict[str, Any] = {"id": id_as_text(id), **{key: value for key, value in more.items() if value not in (None, False)}}
    waiting = Reading(after=fields.pop("after", None))
    if query_id is not None:
        fields["query_id"] = id_as_text(query_id)
    if isinstance(names := fields.get("feature_names"), Mapping):
        fields["feature_names"] = {str(feature): one for feature, one in names.items()}
    path = f"{collection_path(name)}/explain"

    def build(items: str) -> Flow[Explanation]:
        body = to_json(fields, "explain")
        if query is not None:
            key = KEYS[items]
            sent = vector_json(encode_vector(query)) if items == "vectors" else object_json(encode_object(items, query), key)
            body = b'{"' + key.encode() + b'":' + sent + b"," + body[1:]
        return _flows.send(Operation(reading_request(json_request("POST", path, body), waiting), _parse_explanation), retry)

    if query is None or fields.get("field") is not None:
        return build("vectors")
    return _flows.of_its_kind(kinds, name, retry, build)
