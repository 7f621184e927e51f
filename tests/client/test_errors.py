"""The tree of errors: one root, attributes for programs, text for people, and every one of them can be pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest

from kinbin_client import errors
from kinbin_client.errors import ApiError, InvalidInput, KinbinClientError, Problem

EXAMPLES: dict[str, KinbinClientError] = {
    "KinbinClientError": errors.KinbinClientError("text"),
    "InvalidArgument": errors.InvalidArgument("text", 3),
    "ClientClosed": errors.ClientClosed(),
    "UnexpectedResponse": errors.UnexpectedResponse("text", 200, "text/html", "<html>"),
    "TransportError": errors.TransportError("text"),
    "Timeout": errors.Timeout("text", outcome_unknown=False),
    "ConnectionFailed": errors.ConnectionFailed("text"),
    "ConnectTimeout": errors.ConnectTimeout("text"),
    "ConnectionLost": errors.ConnectionLost("text"),
}


def classes(root: type[KinbinClientError] = KinbinClientError) -> Iterator[type[KinbinClientError]]:
    """The root and everything below it."""
    yield root
    for child in root.__subclasses__():
        yield from classes(child)


CLASSES = sorted(set(classes()), key=lambda error_class: error_class.__name__)


def example(error_class: type[KinbinClientError]) -> KinbinClientError:
    """An error of a class, with all its attributes set."""
    if issubclass(error_class, ApiError):
        return error_class(422, "zero_vector", "text", (Problem("#/items/3/vector", "zero"),), "k", 1.5, "r1")
    return EXAMPLES[error_class.__name__]


def public(error: BaseException) -> dict[str, object]:
    """What programs read of an error."""
    return {**vars(error), "acknowledged": getattr(error, "acknowledged", None), "args": error.args, "text": str(error)}


def test_tree_is_complete() -> None:
    """Every error class is public, and every public error belongs to the tree."""
    assert {error_class.__name__ for error_class in classes()} == set(errors.__all__) - {"Problem"}


@pytest.mark.parametrize("error_class", CLASSES)
@pytest.mark.parametrize("acknowledged", [None, 0, 7])
def test_error_survives_pickling(error_class: type[KinbinClientError], acknowledged: int | None) -> None:
    """Pickled or copied, an error keeps its class, its attributes and its text: it crosses process pools."""
    error = copy.copy(example(error_class))
    error.acknowledged = acknowledged
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is error_class
        assert public(again) == public(error)


def test_text_tells_what_was_acknowledged() -> None:
    """The text of a failed add says how many items had been acknowledged, when there were any."""
    error = InvalidInput(422, "zero_vector", "a vector is zero", (Problem("#/items/2003/vector", "zero"),))
    assert str(error) == "422 zero_vector: a vector is zero [#/items/2003/vector: zero]"
    error.acknowledged = 0
    assert "acknowledged" not in str(error)
    error.acknowledged = 2_000
    assert str(error).endswith("(2000 items of this add had been acknowledged; the failed request began at item 2000)")


def test_outcome_is_known_only_without_a_connection() -> None:
    """Only when no connection was made is it certain that nothing was done."""
    assert not errors.ConnectionFailed("x").outcome_unknown
    assert not errors.ConnectTimeout("x").outcome_unknown
    assert errors.Timeout("x").outcome_unknown
    assert errors.ConnectionLost("x").outcome_unknown
    assert errors.TransportError("x").outcome_unknown


def test_connect_timeout_is_caught_either_way() -> None:
    """A connection that takes too long is a timeout, and a connection that failed."""
    assert issubclass(errors.ConnectTimeout, errors.Timeout)
    assert issubclass(errors.ConnectTimeout, errors.ConnectionFailed)
    assert issubclass(errors.InvalidArgument, ValueError)


@pytest.mark.parametrize(
    ("pointer", "position", "shifted"),
    [
        ("#/items/3/vector", 3, "#/items/13/vector"),
        ("#/queries/0", 0, "#/queries/10"),
        ("#/ids/7", 7, "#/ids/17"),
        ("#/items", None, "#/items"),
        ("#/k", None, "#/k"),
        ("#/include/0", None, "#/include/0"),
        ("#/filter/$and/1", None, "#/filter/$and/1"),
        ("#", None, "#"),
        ("", None, ""),
    ],
)
def test_problem_has_a_position(pointer: str, position: int | None, shifted: str) -> None:
    """A problem of an item, query or id tells its position, and can be moved to the whole batch; others stay."""
    problem = Problem(pointer, "text")
    assert problem.position == position
    assert problem.shifted(10) == Problem(shifted, "text")
