"""The options of a query as one object: the same answers and refusals as one by one, and the bounds that the table states."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kinbin
from refusals import refused

Options: Callable[..., kinbin.QueryOptions] = kinbin.QueryOptions
"""Unchecked by types: what is passed in is what is tested."""
METHODS: dict[str, Callable[..., Any]] = {
    "query": lambda c, **options: c.query([1, 2, 3], **options),
    "query_id": lambda c, **options: c.query_id("a", **options),
    "query_batch": lambda c, **options: c.query_batch([[1, 2, 3]], **options)[0],
}
OTHER: dict[str, Any] = {
    "k": 2,
    "target_recall": 0.5,
    "min_score": 0.9,
    "filter": {"year": 2020},
    "mode": "exact",
    "certify": True,
    "include": ("payload",),
    "max_distance": 3.0,
    "exclude": ("b",),
    "include_self": True,
    "offset": 1,
    "cursor": "",
    "group_by": {"field": "year"},
    "debug": True,
}
"""A value of every option that is not its default."""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """Three items, of which one has a payload."""
    with kinbin.open(tmp_path_factory.mktemp("options")) as db:
        made = db.create_collection("c", dim=3)
        made.add(["a", "b", "c"], [[1, 2, 3], [3, 2, 1], [1, 2, 4]], [{"year": 2020}, None, None])
        yield made


def content(answer: kinbin.Answer) -> tuple[Any, ...]:
    """What an answer says."""
    return [(hit.id, hit.score, hit.payload) for hit in answer], answer.mode, answer.recall_lower_bound, answer.items is None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [name for name in OTHER if name != "max_distance"])
def test_an_option_means_the_same_in_one_object(method: str, name: str, collection: kinbin.Collection) -> None:
    """Each option that this kernel knows, given in QueryOptions, gives the answer that it gives by itself."""
    ask = METHODS[method]
    assert set(OTHER) == set(kinbin.OPTIONS)
    assert content(ask(collection, options=Options(**{name: OTHER[name]}))) == content(ask(collection, **{name: OTHER[name]}))


def test_options_change_the_answer(collection: kinbin.Collection) -> None:
    """Options that came as one are not passed over."""
    answer = collection.query([1, 2, 3], options=kinbin.QueryOptions(k=1, mode="exact", include=["vector"]))
    assert (answer.ids, answer.mode) == (["a"], "exact")
    assert answer.items is not None
    assert answer.items[0].vector is not None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OTHER)
def test_options_beside_single_ones_are_refused(method: str, name: str, collection: kinbin.Collection) -> None:
    """Nobody could tell which of both is meant."""
    with refused("bad_parameter", f"options came beside {name}; put all of them into options", field="options"):
        METHODS[method](collection, options=kinbin.QueryOptions(), **{name: OTHER[name]})


@pytest.mark.parametrize("method", METHODS)
def test_other_things_are_no_options(method: str, collection: kinbin.Collection) -> None:
    """A dict in place of QueryOptions is refused with what is wanted."""
    with refused("bad_parameter", "options are QueryOptions or None, not dict", field="options"):
        METHODS[method](collection, options={"k": 3})


@pytest.mark.parametrize("method", METHODS)
def test_cancel_goes_with_options(method: str, collection: kinbin.Collection) -> None:
    """An event belongs to one call and is no option: it is taken beside them, and judged."""
    assert METHODS[method](collection, options=kinbin.QueryOptions(k=1), cancel=threading.Event()).ids == (
        ["c"] if method == "query_id" else ["a"]
    )
    with refused("bad_parameter", "cancel is a threading.Event or None, not bool", field="cancel"):
        METHODS[method](collection, options=kinbin.QueryOptions(k=1), cancel=True)


@pytest.mark.parametrize("name", [name for name, option in kinbin.OPTIONS.items() if option.largest is not None])
def test_the_bounds_of_the_table_are_those_that_are_kept(name: str) -> None:
    """The ends that the table of options states are taken, and what lies beyond is refused."""
    option = kinbin.OPTIONS[name]
    assert option.largest is not None
    step = 1 if name in {"k", "offset"} else 1e-9
    smallest = option.least if option.least is not None else option.above
    assert smallest is not None
    for good in (option.largest, smallest if option.least is not None else step):
        assert getattr(Options(**{name: good}), name) == good
    for bad in (option.largest + step, smallest - step if option.least is not None else smallest):
        with pytest.raises(kinbin.InvalidInput) as found:
            Options(**{name: bad})
        problem = found.value.problems[0]
        assert (problem.field, problem.limit) == (name, option.limit if bad > smallest else None)
        assert option.says in problem.detail or problem.limit


@pytest.mark.parametrize("name", ["mode", "include"])
def test_the_words_of_the_table_are_those_that_are_taken(name: str) -> None:
    """Every known word is taken; another is refused with all of them."""
    option = kinbin.OPTIONS[name]
    for word in option.known:
        assert getattr(Options(**{name: word}), name) in (word, (word,))
    with refused("bad_parameter", f"{name} {option.says}, not 'nothing near'", field=name):
        Options(**{name: "nothing near"})


def test_defaults_are_those_of_the_table() -> None:
    """The table of options is made from the fields: defaults, and a text for each."""
    assert {name: option.default for name, option in kinbin.OPTIONS.items()} == dataclasses.asdict(kinbin.QueryOptions())
    assert all(option.text and option.says for option in kinbin.OPTIONS.values())


@pytest.mark.parametrize(
    "include", [["vector", "payload", "vector"], {"payload", "vector"}, iter(("payload", "vector")), np.array(["payload", "vector"])]
)
def test_what_is_included_is_kept_as_a_tuple(include: Any) -> None:
    """Options may be used again and compared, whatever include came as."""
    assert Options(include=include) == Options(include=("vector", "payload"))


def test_options_need_no_numpy() -> None:
    """The command line describes its options from the table, and its help loads neither NumPy nor numba."""
    program = (
        "import sys, kinbin; kinbin.QueryOptions(k=3, include=['payload']); kinbin.OPTIONS; print({'numpy', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


def test_an_answer_is_iterated_over(collection: kinbin.Collection) -> None:
    """An answer gives its hits, best first: id and score, and what was included."""
    plain = collection.query([1, 2, 3], k=2)
    assert [(hit.id, hit.score, hit.payload, hit.vector) for hit in plain] == [
        (name, score, None, None) for name, score in zip(plain.ids, plain.scores, strict=True)
    ]
    assert len(list(plain)) == len(plain) == 2
    assert all(type(hit.score) is float for hit in plain)
    full = collection.query([1, 2, 3], k=2, include=("payload", "vector"))
    assert [hit.payload for hit in full] == [{"year": 2020}, None]
    assert [hit.vector.tolist() for hit in full if isinstance(hit.vector, np.ndarray)] == [[1, 2, 3], [1, 2, 4]]
    batch = collection.query_batch([[1, 2, 3], [3, 2, 1]], k=1, include=["payload"])
    assert [[(hit.id, hit.payload) for hit in answer] for answer in batch] == [[("a", {"year": 2020})], [("b", None)]]
