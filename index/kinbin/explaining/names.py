"""Names of features: of the tokens that a query was made of, and those that the caller gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from kinbin.errors import InvalidInput
from kinbin.limits import limit
from kinbin.parameters import arrived, at_most
from kinbin.records import Tokens
from kinbin.rows.tokens import token_feature

__all__ = ["declared_names", "names_of", "tokens_in"]


def tokens_in(given: Any) -> dict[int, str]:
    """The tokens of a vector that is made of such, by feature; of any other vector none."""
    if isinstance(given, Tokens):
        given = given.counts
    if not isinstance(given, Mapping | Set | list | tuple):
        return {}
    return {token_feature(one): one for one in given if isinstance(one, str)}


def names_of(given: object, dim: int | None) -> dict[int, str]:
    """Names that the caller gives: a mapping of features to names, or a list.

    A list names features 0, 1, … of vectors of some length (dim); without, it lists tokens, whose features follow from them.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {_feature(key): _name(name) for key, name in given.items()}
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidInput.of("bad_parameter", f"feature_names are a list, or a mapping of features to names, not {arrived(given)}",
                              field="feature_names")  # fmt: skip
    names = [_name(name) for name in given]
    return {token_feature(name): name for name in names} if dim is None else dict(enumerate(names))


def declared_names(given: object, dim: int | None) -> dict[int, str]:
    """Names that a new collection keeps, ascending by feature: see `names_of`. Of a dimension each feature has to be below it.

    Raises:
        InvalidInput: codes "bad_parameter", "over_limit".
    """
    names = names_of(given, dim)
    at_most("feature_names", len(names), "feature_names")
    if dim is not None and not isinstance(given, Mapping) and len(names) > dim:
        text = f"feature_names are {len(names)} names, but vectors have {dim} features"
        raise InvalidInput.of("bad_parameter", text, field="feature_names")
    end = limit("feature_id") + 1 if dim is None else dim
    for feature, name in names.items():
        if not 0 <= feature < end:
            whose = "features of sparse vectors" if dim is None else f"vectors of dimension {dim}"
            raise InvalidInput.of(
                "bad_parameter", f"feature_names: {whose} end before {end:.0f}, and feature {feature} is named", field="feature_names"
            )
        if not name.strip() or len(name) > limit("feature_name"):
            text = f"feature_names: a name has 1 to {limit('feature_name')} characters, that of feature {feature} has {len(name.strip())}"
            raise InvalidInput.of("bad_parameter", text, field="feature_names")
    return dict(sorted(names.items()))


def _feature(key: object) -> int:
    # Keys of JSON are strings.
    if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 19:
        return int(key)
    if not isinstance(key, bool) and hasattr(key, "__index__"):
        return int(key)
    raise InvalidInput.of("bad_parameter", f"feature_names maps feature ids to names; {arrived(key)} is no id", field="feature_names")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInput.of("bad_parameter", f"feature_names are strings, not {arrived(name)}", field="feature_names")
    return name
