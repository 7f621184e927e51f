"""What collections with several fields do not do."""

from __future__ import annotations

from typing import Any

import pytest

import kinbin

CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "duplicates": ({"min_score": 0.9}, "a collection of their own"),
    "tune": ({"sample": 5}, "takes rows and bands of each field"),
    "recall": ({"queries": 5}, "a collection of their own"),
    "rebuild": ({"rows": 2}, "create another"),
}


@pytest.mark.parametrize("call", CALLS)
def test_refusals_say_what_to_do(call: str, db: kinbin.Database) -> None:
    """What is done with one vector of each item is refused, by an error of the library that says what to do instead."""
    pictures: Any = db.create_collection("pictures", fields={"colour": {"dim": 2}, "words": {}})
    given, says = CALLS[call]
    with pytest.raises(kinbin.InvalidInput, match=says) as refused:
        getattr(pictures, call)(**given)
    assert refused.value.problems[0].code == "bad_parameter"
