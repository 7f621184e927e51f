"""Answers that came as columns are the models that they stand for, whenever their hits are made."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import BaseModel

import kinbin
from kinbin_client import Answer, AnswerBatch, Chunking, Client, Hit, UnexpectedResponse
from kinbin_client._columns import COLUMNS_TYPE, parse_answers
from kinbin_client._lazy import maker_of
from kinbin_client._responses import Reply
from service_app import warm_up_once

COLUMNS: dict[str, Any] = {
    "counts": [2, 0, 1],
    "ids": ["a", "b", "a"],
    "scores": [0.75, 0.5, 1.0],
    "recall_lower_bounds": [None, 1.0, 0.9375],
    "no_bounds": ["links give no bound", None, None],
    "modes": ["links", "exact", "bands"],
    "candidates": [10, 20, 30],
    "verified": [1, 2, 3],
    "truncated": [[], [], ["postings"]],
    "steps": [["walk"], [], ["look up bands", "verify"]],
    "out_of_distribution": [False, True, False],
    "took_ms": 1.5,
    "a_field_of_later": {},
}
WORK: list[dict[str, Any]] = [
    {"mode": "links", "candidates": 10, "verified": 1, "truncated": [], "steps": ["walk"], "no_bound": "links give no bound"},
    {"mode": "exact", "candidates": 20, "verified": 2, "truncated": [], "steps": [], "out_of_distribution": True},
    {"mode": "bands", "candidates": 30, "verified": 3, "truncated": ["postings"], "steps": ["look up bands", "verify"]},
]
RESULTS: list[list[dict[str, Any]]] = [[{"id": "a", "score": 0.75}, {"id": "b", "score": 0.5}], [], [{"id": "a", "score": 1.0}]]
BOUNDS = [None, 1.0, 0.9375]
OBJECTS: dict[str, Any] = {
    "answers": [{"results": hits, "recall_lower_bound": bound, **work} for hits, bound, work in zip(RESULTS, BOUNDS, WORK, strict=True)],
    "took_ms": 1.5,
}


def from_columns(**changes: Any) -> AnswerBatch:
    """A batch of columns."""
    return parse_answers(Reply(200, {"content-type": COLUMNS_TYPE}, json.dumps({**COLUMNS, **changes}).encode()))


def from_objects() -> AnswerBatch:
    """The same batch, as it came before there were columns."""
    return parse_answers(Reply(200, {"content-type": "application/json"}, json.dumps(OBJECTS).encode()))


class Report(BaseModel):
    """A model of a user, which holds answers."""

    best: Answer


LOOKS: dict[str, Callable[[AnswerBatch], Any]] = {
    "fields": lambda batch: (batch.answers, batch.took_ms),
    "lengths": lambda batch: (len(batch), [len(answer) for answer in batch]),
    "ids": lambda batch: (batch.ids, [answer.ids for answer in batch]),
    "scores": lambda batch: (batch.scores, [answer.scores for answer in batch]),
    "distances": lambda batch: [answer.distances for answer in batch],
    "hits": lambda batch: [hit for answer in batch for hit in answer],
    "one": lambda batch: (batch[0].results[1].score, batch[-1].recall_lower_bound, batch[1].out_of_distribution),
    "equality": lambda batch: (batch == from_objects(), from_objects() == batch, batch[0] == batch[1]),
    "text": lambda batch: (repr(batch), str(batch[0])),
    "entries": lambda batch: (vars(batch), batch[0].__dict__, dict(batch[2].__dict__)),
    "dumps": lambda batch: (batch.model_dump(), batch.model_dump_json(), batch[0].model_dump(exclude_defaults=True)),
    "what was sent": lambda batch: (batch.model_dump_json(exclude_unset=True), [answer.model_fields_set for answer in batch]),
    "copies": lambda batch: (copy.copy(batch), copy.deepcopy(batch), batch[0].model_copy(update={"mode": "x"})),
    "pickles": lambda batch: pickle.loads(pickle.dumps(batch)),
    "an answer in another model": lambda batch: Report(best=batch[0]).model_dump_json(),
}


@pytest.mark.parametrize("look", LOOKS)
def test_columns_are_the_models_of_objects(look: str) -> None:
    """Whatever is looked at first, a batch that came as columns shows what the same batch shows that came as objects."""
    told = LOOKS[look](from_columns())
    assert told == LOOKS[look](from_objects())
    assert type(told) is type(LOOKS[look](from_objects()))


def test_hits_are_made_when_they_are_looked_at() -> None:
    """Ids, scores and what is known of an answer make no hit; its hits make no other's, and stay the same objects."""
    batch = from_columns()
    assert (batch.ids, len(batch), batch.took_ms) == ([["a", "b"], [], ["a"]], 3, 1.5)
    assert maker_of(batch) is not None
    first, _, last = batch
    assert (first.ids, first.scores, first.mode, len(last.steps)) == (["a", "b"], [0.75, 0.5], "links", 2)
    assert maker_of(first) is not None
    assert first.results[0] == Hit(id="a", score=0.75)
    assert maker_of(first) is None
    assert maker_of(last) is not None
    assert first.results is first.results
    assert batch[0] is first


def test_answers_stay_immutable_and_know_their_names() -> None:
    """A field cannot be set before or after it was made, and what is no field is an AttributeError."""
    for touched in (False, True):
        answer = from_columns()[0]
        assert not touched or answer.results
        with pytest.raises(ValueError, match="frozen"):
            answer.results = []  # type: ignore[misc]  # the mistake under test
        with pytest.raises(AttributeError, match="hits"):
            answer.hits  # type: ignore[attr-defined]  # noqa: B018  # the same


def test_distances_and_parts_come_as_hits_have_them() -> None:
    """Distances are scores, too, and parts lie hit by hit."""
    batch = from_columns(scores=None, distances=[1.0, 2.0, 0.0], parts={"x": [1, 2, 3], "y": [4, 5, 6]})
    assert batch[0].distances == [1.0, 2.0]
    assert batch[1].distances is None
    assert batch[0].results[1] == Hit(id="b", score=2.0, distance=2.0, parts={"x": 2.0, "y": 5.0})
    assert batch[2].results[0].parts == {"x": 3.0, "y": 6.0}
    assert batch.scores == [[1.0, 2.0], [], [0.0]]


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": [2, 0]},
        {"counts": [2, 0, 2]},
        {"counts": [4, -1, 0]},
        {"ids": ["a", "b"]},
        {"ids": ["a", "b", 3]},
        {"scores": [1.0]},
        {"scores": None},
        {"scores": ["x", 0.5, 1.0]},
        {"distances": [1.0, 2.0, 3.0]},
        {"parts": {"x": [1.0]}},
        {"modes": ["links"]},
        {"steps": [[], []]},
        {"recall_lower_bounds": [None]},
    ],
)
def test_columns_that_do_not_agree_are_refused_when_they_come(changes: dict[str, Any]) -> None:
    """Lists of other lengths or types are an UnexpectedResponse at once, not later, when somebody looks."""
    with pytest.raises(UnexpectedResponse, match="not what the service documents"):
        from_columns(**changes)


def test_a_batch_in_several_requests_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into requests, a batch has the answers of the library in their order, by ids, by scores and by hits; all came as columns."""
    monkeypatch.setattr(kinbin, "warm_up", warm_up_once)
    rows = np.random.default_rng(5).random((40, 6), np.float32)
    types: list[str] = []
    found: Any = None

    def told(reply: Reply) -> AnswerBatch:
        types.append(reply.content_type)
        return parse_answers(reply)

    monkeypatch.setattr("kinbin_client._requests.parse_answers", told)
    with Client(path=tmp_path / "data") as client:
        client.create_collection("c", dim=6)
        collection = client.collection("c")
        collection.add([f"i{n}" for n in range(len(rows))], rows)
        for asked in (rows[:7], rows[:7].tolist()):
            whole = collection.query_batch(asked, k=3, mode="exact")
            parts = collection.query_batch(asked, k=3, mode="exact", chunking=Chunking(max_items=3))
            assert len(parts) == 7
            assert parts.ids == whole.ids == [answer.ids for answer in parts]
            assert parts.scores == whole.scores
            assert parts.answers == [one.model_copy(update={"took_ms": None}) for one in whole]
            assert parts.took_ms is not None
            assert [ids[0] for ids in parts.ids] == [f"i{n}" for n in range(7)]
            found = parts.ids, parts.scores
        assert set(types) == {COLUMNS_TYPE}
        assert len(types) == 8
    with kinbin.open(tmp_path / "data") as database:
        library = database.collection("c").query_batch(rows[:7], k=3, mode="exact")
    assert found == (library.ids.tolist(), library.scores.tolist())


def test_a_service_without_columns_is_understood() -> None:
    """A client asks for either form; objects, as earlier services send them, give the same batch."""
    accepted = []

    def answer(request: httpx.Request) -> httpx.Response:
        accepted.append(request.headers["accept"])
        return httpx.Response(200, json=OBJECTS)

    with Client("http://127.0.0.1:1", transport=httpx.MockTransport(answer)) as client:
        assert client.query_batch([[1.0]] * 3) == from_columns()
    assert accepted == [f"{COLUMNS_TYPE}, application/json"]
