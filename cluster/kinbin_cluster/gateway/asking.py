"""What a query asks of each shard: stored items by what they hold, offsets and deep answers as pages, and what is left out where.

A body is taken apart as little as it can be: where nothing of it is the gateway's business it goes to the nodes as it came, and what is
wrong in it they refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import kinbin
from kinbin_cluster.gateway.merging import MISSING, joined_pages, merged_batch, ties
from kinbin_cluster.gateway.reading import Part, Pointers, Reading, not_in_cluster
from kinbin_cluster.quick_message import ROWS, ROWS_PATH
from kinbin_cluster.shards import shard_of
from kinbin_service.ids import id_as_text
from kinbin_service.objects import KEYS, VECTOR
from kinbin_service.problems import Entry, Refusal
from kinbin_service.routes.asked import has_entries

__all__ = ["Query", "Spot", "ages_of", "shape_of", "stored"]

_MOST = int(kinbin.LIMITS["k"].value)
_DEEPEST = int(kinbin.LIMITS["offset"].value)
_CARRIED = (VECTOR, "vectors", *KEYS)
_EXAMPLES = ("positive", "negative")


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a body that names a stored item."""

    id: str
    pointer: str
    single: int
    """Which of the queries."""
    key: str
    """id, positive or negative."""
    position: int | None = None
    """Among examples."""


@dataclass(slots=True)
class Query:
    """One body that asks for neighbours, of one vector or many."""

    content: dict[str, Any]
    singles: list[dict[str, Any]] = field(default_factory=list)
    """The queries in it that may have options, or ids: the body itself, or those of `queries`."""
    many: bool = False
    own: dict[int, dict[int, list[str]]] = field(default_factory=dict)
    """By shard and query, stored items that the query is about, and that are left out of the answer."""
    shards: int = 1
    """Of the collection; known once it is resolved."""

    @classmethod
    def of(cls, content: dict[str, Any]) -> Query:
        """The query of a body, which it may change from now on."""
        listed = content.get("queries")
        if not isinstance(listed, list):
            return cls(content, [content])
        if not has_entries(listed):
            return cls(content, many=True)
        content["queries"] = [dict(one) if _is_entry(one) else {VECTOR: one} for one in listed]
        return cls(content, content["queries"], many=True)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """k and offset of each query; as they are by default where they are malformed: the nodes refuse such bodies."""
        common = shape_of(self.content, self.content)
        if not self.many:
            return [common]
        if self.singles:
            return [shape_of(one, self.content) for one in self.singles]
        return [common] * len(self.content["queries"])

    @property
    def is_plain(self) -> bool:
        """Whether every shard is asked just this, and merging is all that is left to do."""
        shaped = any(offset for _, offset in self.shapes)
        return not shaped and not self.own and not any(True for _ in self.spots())

    def spots(self) -> Iterator[Spot]:
        """The stored items that it names."""
        for single, one in enumerate(self.singles):
            if sum(one.get(name) is not None for name in (*_CARRIED, "id", "positive")) != 1:
                # The nodes refuse it.
                continue
            at = f"#/queries/{single}" if self.many else "#"
            if isinstance(named := id_as_text(one.get("id")), str):
                yield Spot(named, f"{at}/id", single, "id")
            for key in _EXAMPLES:
                listed = one.get(key)
                for position, raw in enumerate(listed if isinstance(listed, list) else ()):
                    if isinstance(named := id_as_text(raw), str):
                        yield Spot(named, f"{at}/{key}/{position}", single, key, position)

    async def resolve(self, reading: Reading) -> None:
        """Put what stored items hold in the place of their ids.

        Raises:
            Refusal: one is not stored, or cannot be asked by.
        """
        spots = list(self.spots())
        if not spots:
            return
        items = await stored(reading, [(spot.id, spot.pointer) for spot in spots])
        for spot in spots:
            if spot.id not in items:
                text = f"no item of this collection has the id of {'the query' if spot.key == 'id' else 'this example'}"
                raise Refusal("unknown_id", text, [Entry(spot.pointer, text)])
        self.shards = reading.collection.shards
        keeps = [one.get("include_self", self.content.get("include_self", False)) for one in self.singles]
        for spot in spots:
            one = self.singles[spot.single]
            self._put(one, spot, items[spot.id])
            if keeps[spot.single] is not True:
                shard = shard_of(spot.id, reading.collection.shards)
                self.own.setdefault(shard, {}).setdefault(spot.single, []).append(spot.id)
        self._drop_include_self({spot.single for spot in spots}, keeps)

    def bodies(self, shard: int) -> tuple[dict[str, Any], list[int]]:
        """The body for a shard, and how many answers of it belong to each query."""
        excluded = self.own.get(shard, {})
        shapes = self.shapes
        if all(k + offset <= _MOST for k, offset in shapes):
            body = {**self.content, **(self._shallow(self.content, excluded.get(0)) if not self.many else {})}
            if self.many and self.singles:
                body["queries"] = [{**one, **self._shallow(one, excluded.get(i))} for i, one in enumerate(self.singles)]
            elif self.many:
                body |= self._shallow(self.content, None)
            return _without(body, "offset"), [1] * len(shapes)
        return self._deep(excluded, shapes)

    def pointers(self, counts: Sequence[int]) -> Pointers:
        """Where in the client's body that stands which a shard refuses in its own. counts: what `bodies` said of it."""
        owners = [single for single, count in enumerate(counts) for _ in range(count)]

        def client(pointer: str) -> str:
            steps = pointer.split("/")
            if len(steps) < 3 or steps[1] != "queries" or not steps[2].isdecimal() or int(steps[2]) >= len(owners):
                return pointer
            rest = steps[3:]
            if not self.many:
                return "/".join(["#", *rest])
            # Vectors that stood alone were put under their key.
            bare = not self.singles and rest[:1] == [VECTOR]
            return "/".join(["#", "queries", str(owners[int(steps[2])]), *rest[bare:]])

        return client

    async def merge(
        self, reading: Reading, parts: Sequence[Part], counts: Sequence[Sequence[int]], *, whole: bool = False
    ) -> list[dict[str, Any]]:
        """The answers, in the order of the queries. counts: of each part, what `bodies` said. whole: with what offsets leave out."""
        told = [
            [joined_pages(list(pages)) for pages in _cut(_answers(part.content), of)] for part, of in zip(parts, counts, strict=True)
        ]  # fmt: skip
        ages = await ages_of(reading, parts, told, self.shapes)
        return merged_batch(told, [(k + offset, 0) if whole else (k, offset) for k, offset in self.shapes], ages)

    def _put(self, one: dict[str, Any], spot: Spot, item: Mapping[str, Any]) -> None:
        carried = next((key for key in _CARRIED if key in item), None)
        if carried is None:
            raise not_in_cluster("stored items of this collection cannot be asked by", spot.pointer)
        if spot.key == "id":
            del one["id"]
            one[carried] = self._chosen(one, item[carried], spot) if carried == "vectors" else item[carried]
        else:
            one[spot.key] = list(one[spot.key])
            one[spot.key][spot.position] = item[carried] if carried == VECTOR else {carried: item[carried]}

    @staticmethod
    def _chosen(one: dict[str, Any], vectors: Mapping[str, Any], spot: Spot) -> dict[str, Any]:
        """The fields that are compared: those that are named, or weighed, or all."""
        fields, weights = one.pop("fields", None), one.get("weights")
        named = fields if isinstance(fields, list) else list(weights) if isinstance(weights, dict) else list(vectors)
        if not named or not all(isinstance(name, str) and name in vectors for name in named):
            text = f"fields are some of {', '.join(vectors)}"
            raise Refusal("bad_parameter", text, [Entry(f"{spot.pointer[:-3]}/fields", text)])
        return {name: vectors[name] for name in named}

    def _drop_include_self(self, resolved: set[int], keeps: Sequence[Any]) -> None:
        """Of queries that name no item any more; others keep it, and are refused."""
        common = self.content.pop("include_self", None) if self.many else None
        for i, one in enumerate(self.singles):
            if i in resolved:
                one.pop("include_self", None)
            elif common is not None:
                one["include_self"] = keeps[i]

    def _shallow(self, one: Mapping[str, Any], excluded: Sequence[str] | None) -> dict[str, Any]:
        """What a query asks a shard for in the place of its own k and offset, and of what it leaves out."""
        k, offset = shape_of(one, self.content)
        changed: dict[str, Any] = {"k": k + offset, "offset": 0} if offset else {}
        if excluded:
            mine = one.get("exclude", self.content.get("exclude", []))
            changed["exclude"] = [*self._of_shard(mine if isinstance(mine, list) else [], excluded), *excluded]
        return changed

    def _of_shard(self, listed: Sequence[Any], excluded: Sequence[str]) -> Sequence[Any]:
        """What is left out besides these, which are of one shard: all that is listed, or of as many as may be listed those of the shard."""
        most = kinbin.LIMITS["exclude"].value
        if not most - len(excluded) < len(listed) <= most:
            return listed
        shard = shard_of(excluded[0], self.shards)
        return [one for one in listed if not isinstance(one, str) or shard_of(one, self.shards) == shard]

    def _deep(self, excluded: Mapping[int, Sequence[str]], shapes: Sequence[tuple[int, int]]) -> tuple[dict[str, Any], list[int]]:
        """The same, where more are wanted of a query than a node answers at once: as pages of one snapshot, which are scored exactly.

        Searches of other depths may each miss other items: pages of several would have some twice and others never.
        """
        if not self.content.keys().isdisjoint(("vectors", "weights", "combine")) or any("vectors" in one for one in self.singles):
            raise not_in_cluster(f"in a cluster, k and offset of a collection of several fields are at most {_MOST:,} together", "#/offset")
        entries: list[dict[str, Any]] = []
        counts: list[int] = []
        for i, (one, (k, offset)) in enumerate(zip(self._entries(), shapes, strict=True)):
            entry = {**one, **self._shallow(one, excluded.get(i))}
            begins = range(0, k + offset, _MOST)
            entries += [{**entry, "k": min(_MOST, k + offset - begin), "offset": begin} for begin in begins]
            counts.append(len(begins))
        # What is no option the nodes refuse.
        own = {"k", "offset", "exclude", "queries", *(() if self.many else (*_CARRIED, *_EXAMPLES))}
        common = {name: value for name, value in self.content.items() if name not in own}
        return {**common, "mode": "exact", "queries": [{**one, **({"mode": "exact"} if "mode" in one else {})} for one in entries]}, counts

    def _entries(self) -> Iterable[dict[str, Any]]:
        """Each query with what it is about, and what it leaves out."""
        kept = ("exclude",) if "exclude" in self.content else ()
        common = {name: self.content[name] for name in kept}
        if not self.many:
            return [{**common, **{name: self.content[name] for name in (*_CARRIED, *_EXAMPLES) if name in self.content}}]
        plain = ({VECTOR: raw} if not isinstance(raw, dict) or raw.keys().isdisjoint(_CARRIED) else raw for raw in self.content["queries"])
        return [{**common, **one} for one in (self.singles or plain)]


async def ages_of(
    reading: Reading, parts: Sequence[Part], told: Sequence[Sequence[dict[str, Any]]], shapes: Sequence[tuple[int, int]] | None = None
) -> dict[str, int]:
    """The row numbers of those items whose order their scores do not tell. told: of each part its answers; shapes: k and offset of each.

    Raises:
        Refusal: a shard does not answer any more.

    Cost: one more question to the shards, only where a score of the answer is in two of them and answers do not tell the numbers.
    """
    if all(ROWS in one for answers in told for one in answers):
        every = (zip(one["results"], one[ROWS], strict=True) for answers in told for one in answers)
        return {hit["id"]: number for pairs in every for hit, number in pairs}
    wanted: list[dict[str, None]] = [{} for _ in parts]
    for i, of_one in enumerate(zip(*told, strict=True)):
        for ids, more in zip(wanted, ties(of_one, None if shapes is None else sum(shapes[i])), strict=True):
            ids.update(dict.fromkeys(more))
    asked = [(part.shard, list(ids)) for part, ids in zip(parts, wanted, strict=True) if ids]
    if not asked:
        return {}
    seen = {part.shard: max(part.applied[0], reading.token.get(part.shard, 0)) for part in parts if part.applied is not None}
    later = Reading(reading.gateway, reading.collection, {**reading.token, **seen})
    uid = reading.collection.uid
    answers = await later.ask([(shard, ROWS_PATH, {"uid": uid, "shard": shard, "ids": ids}) for shard, ids in asked])
    pairs = [pair for answer, (_, ids) in zip(answers, asked, strict=True) for pair in zip(ids, answer.content["rows"], strict=True)]
    return {identifier: number for identifier, number in pairs if number is not None}


def shape_of(one: Mapping[str, Any], common: Mapping[str, Any]) -> tuple[int, int]:
    """k and offset of a query; what is malformed as it is by default, as nodes refuse it."""
    k, offset = one.get("k", common.get("k", 10)), one.get("offset", common.get("offset", 0))
    sound = type(k) is int and 1 <= k <= _MOST and type(offset) is int and 0 <= offset <= _DEEPEST
    return (k, offset) if sound else (10, 0)


async def stored(reading: Reading, named: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """What items hold, by id, of those that are stored. named: ids and where they stand in the body.

    Raises:
        Refusal: an id is none, or a shard is missing: what it holds cannot be left out here.
    """
    by_shard: dict[int, list[tuple[str, str]]] = {}
    for one in dict(named).items():
        by_shard.setdefault(_shard_of(one[0], reading.collection.shards), []).append(one)

    def pointers(listed: Sequence[tuple[str, str]]) -> Any:
        return lambda pointer: listed[int(pointer.split("/")[2])][1] if pointer.startswith("#/ids/") else "#"

    whole = Reading(reading.gateway, reading.collection, reading.token)
    parts = await whole.ask(
        [(shard, "/get", {"ids": [one for one, _ in listed], "include": ["vector"]}) for shard, listed in by_shard.items()],
        pointers={shard: pointers(listed) for shard, listed in by_shard.items()},
    )
    return {item["id"]: item for part in parts for item in part.content["items"]}


def _shard_of(identifier: str, shards: int) -> int:
    """The shard of an id; any shard refuses one that is no Unicode."""
    try:
        return shard_of(identifier, shards)
    except UnicodeEncodeError:
        return 0


def _is_entry(raw: Any) -> bool:
    """Whether this is a query under its key, and no vector."""
    return isinstance(raw, dict) and raw.keys() not in ({"indices", "values"}, {"tokens"})


def _answers(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] | None = content.get("answers")
    return [dict(content)] if answers is None else answers


def _cut(answers: Sequence[dict[str, Any]], counts: Sequence[int]) -> Iterator[Sequence[dict[str, Any]]]:
    begin = 0
    for count in counts:
        yield answers[begin : begin + count]
        begin += count


def _without(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != name or value}


def incomplete(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer that lacks shards: nothing is certain of it."""
    return {**answer, "recall_lower_bound": None, "no_bound": MISSING}
