"""Requests that write payloads, aliases and limits of collections. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from kinbin_client._payloads import payload_json
from kinbin_client._requests import Operation, Request, collection_path, id_list, json_request, to_json
from kinbin_client._responses import discard, model_parser
from kinbin_client._terms import Versions
from kinbin_client.errors import InvalidArgument
from kinbin_client.models import CompactReport, Holds, PayloadResult
from kinbin_client.retry import Repeat

__all__ = ["alias", "aliases", "compact", "drop_alias", "holds", "payloads", "set_holds"]


class _Aliases(BaseModel):
    aliases: dict[str, str]


_parse_payloads = model_parser(PayloadResult)
_parse_compacted = model_parser(CompactReport)
_LONG_SECONDS = 3_600.0
_parse_holds = model_parser(Holds)
_parse_aliases = model_parser(_Aliases)


def payloads(
    name: str, ids: Sequence[str | int], given: Sequence[Mapping[str, Any] | None], mode: str, if_versions: Versions | None
) -> Operation[PayloadResult]:
    """Replace or patch payloads. On condition of versions it is repeated only if it was not done: the second would meet its own work."""
    names = id_list(ids)
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidArgument("payloads are a list of JSON objects (dict) or None, one for each id", code="bad_parameter")
    if len(given) != len(names):
        raise InvalidArgument(f"{len(given)} payloads came with {len(names)} ids; send one (or None) for each", code="bad_parameter")
    if if_versions is not None and len(if_versions) != len(names):
        raise InvalidArgument("if_versions is a list with a version, 0 (not there) or None for each id", code="bad_parameter")
    items = []
    for position, (identifier, payload) in enumerate(zip(names, given, strict=True)):
        content = b"null" if payload is None else payload_json(payload, position)
        item = b'{"id":' + to_json(identifier, "id", position) + b',"payload":' + content
        if if_versions is not None:
            item += b',"if_version":' + to_json(if_versions[position], "if_version", position)
        items.append(item + b"}")
    body = b'{"mode":' + to_json(mode, "mode") + b',"items":[' + b",".join(items) + b"]}"
    repeat = Repeat.ALWAYS if if_versions is None else Repeat.IF_NOT_DONE
    return Operation(json_request("POST", f"{collection_path(name)}/payload", body, repeat), _parse_payloads)


def holds(name: str) -> Operation[Holds]:
    """What a collection may hold."""
    return Operation(Request("GET", f"{collection_path(name)}/limits"), _parse_holds)


def set_holds(name: str, items: int | None, size: int | None) -> Operation[Holds]:
    """Set it."""
    body = to_json({"items": items, "bytes": size}, "limits")
    return Operation(json_request("PUT", f"{collection_path(name)}/limits", body), _parse_holds)


def compact(name: str, shrink: bool) -> Operation[CompactReport]:
    """Merge everything now: of minutes, and the same again does no harm."""
    body = to_json({"shrink": shrink}, "request")
    sent = json_request("POST", f"{collection_path(name)}/compact", body)
    return Operation(Request(sent.method, sent.path, sent.body, sent.headers, sent.repeat, _LONG_SECONDS), _parse_compacted)


def _path(name: str) -> str:
    return collection_path(name).replace("/v1/collections/", "/v1/aliases/", 1)


def alias(name: str, collection: str) -> Operation[None]:
    """Let an alias lead to a collection."""
    return Operation(json_request("PUT", _path(name), to_json({"collection": collection}, "alias")), discard)


def aliases() -> Operation[dict[str, str]]:
    """Collections by alias."""
    return Operation(Request("GET", "/v1/aliases"), lambda reply: _parse_aliases(reply).aliases)


def drop_alias(name: str) -> Operation[None]:
    """Remove an alias; not repeated when it may have been done."""
    return Operation(Request("DELETE", _path(name), repeat=Repeat.IF_NOT_DONE), discard)
