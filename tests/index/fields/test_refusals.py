"""What collections with several fields do not do."""

from __future__ import annotations

from typing import Any

import pytest

import kinbin

CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "duplicates": ({"min_score": 0.9, "field": "color"}, "field is one of colour, words.*did you mean 'colour'"),
    "tune": ({"sample": 5, "field": "none"}, "field is one of colour, words"),
    "rebuild": ({"rows": 2, "field": ""}, "field is one of colour, words"),
    "recall": ({"queries": 5, "weights": {"color": 1.0}}, "there is no field 'color' here"),
    "query_examples": ({"positive": ["a"]}, "add the scores up"),
    "query_each": ({"queries": []}, "one by one"),
    "change_indexes": ({"add": {"year": "none"}}, "the kind of an index is one of"),
}


@pytest.mark.parametrize("call", CALLS)
def test_refusals_say_what_to_do(call: str, db: kinbin.Database) -> None:
    """A field that is not there is refused by an error that names those that are; so is what such collections do not do."""
    pictures: Any = db.create_collection("pictures", fields={"colour": {"dim": 2}, "words": {}})
    given, says = CALLS[call]
    with pytest.raises(kinbin.InvalidInput, match=says) as refused:
        getattr(pictures, call)(**given)
    assert refused.value.problems[0].code == "bad_parameter"
