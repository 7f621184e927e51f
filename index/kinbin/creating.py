"""What is stored of a new collection, made of what its creator asked for, and how it differs from one that is there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypedDict

import numpy as np

from kinbin.errors import CollectionExists, InvalidInput, suggestion
from kinbin.explaining.names import declared_names
from kinbin.fields.vectors import in_field
from kinbin.hashing import HASH_VERSION, MAX_ROWS, SAMPLERS, check_hashes, default_sampler
from kinbin.items.functions import Functions
from kinbin.items.images import IMAGES
from kinbin.items.kind import Form, Kind
from kinbin.items.kinds import kind_named
from kinbin.items.objects import OBJECTS
from kinbin.items.vectors import VECTORS
from kinbin.limits import limit
from kinbin.parameters import arrived, one_of, told_values
from kinbin.records import CollectionConfig
from kinbin.rows.identity import check_name
from kinbin.spaces.own import own_space
from kinbin.spaces.registry import KERNELS, object_space_of, space_of
from kinbin.spaces.space import Space
from kinbin.storage.headers import Configuration

__all__ = [
    "CollectionOptions",
    "checked_options",
    "configuration_of_fields",
    "configuration_of_items",
    "differing",
    "exists_already",
    "functions_of",
    "refuse_beside_fields",
]

MOST_BANDS = 255
_MOST = {"bands": (1, MOST_BANDS, f"{MOST_BANDS}"), "rows": (1, MAX_ROWS, f"{MAX_ROWS}"), "seed": (0, 2**64 - 1, "2**64-1")}
"""Least and greatest whole number of an option, and how the greatest is said."""
_OF_FIELDS = ("kernel", "dim", "sampler", "bands", "rows", "parameters", "feature_names")
"""What each field has of its own."""


class Configured(Protocol):
    """What is there: a collection, or a schema's field."""

    @property
    def config(self) -> CollectionConfig:
        """Its configuration, as users see it."""

    @property
    def _space(self) -> Space: ...

    @property
    def _seed(self) -> int: ...


class CollectionOptions(TypedDict, total=False):
    """Options of a new collection that few need. See `Database.create_collection`."""

    parameters: Mapping[str, Any] | None
    sampler: str | None
    bands: int | None
    rows: int | None
    seed: int | None
    feature_names: Mapping[int, str] | Sequence[str] | None
    encoder: Callable[[Any], Any] | None
    decoder: Callable[[Any], Any] | None


def _is_parameter(kernel: object, name: str) -> bool:
    """Whether a kernel has a parameter of this name. What is none is told later."""
    return isinstance(kernel, str) and kernel in KERNELS and name in KERNELS[kernel].declared


def checked_options(kernel: object, dim: object, options: CollectionOptions) -> dict[str, Any]:
    """All options of how items are compared and hashed, numbers as Python's; None where one was left out.

    Raises:
        InvalidInput: a number is none, or out of its range. TypeError: there is no such option.
    """
    known = CollectionOptions.__annotations__
    for name in options:
        if name not in known:
            there = suggestion(name, known) or f"; there are {', '.join(known)}"
            if _is_parameter(kernel, name):
                there = f": a kernel's are given together, parameters={{{name!r}: …}}"
            raise TypeError(f"a new collection has no option {name!r}{there}")
    plain = {name: options.get(name) for name in ("parameters", "sampler", "feature_names")}
    numbers = {name: _whole_or_none(name, options.get(name), *bounds) for name, bounds in _MOST.items()}
    return {"kernel": kernel, "dim": _dimension(dim), **plain, **numbers}


def configuration_of_items(items: str, distance: object, asked: Mapping[str, Any]) -> Configuration:
    """What is stored of a new collection. asked: `checked_options`.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    kind, dim = kind_named(items), asked["dim"]
    if kind is not VECTORS and asked["feature_names"] is not None:
        raise InvalidInput.of("bad_parameter", f"feature_names are those of vectors, and {kind.name} are none", field="feature_names")
    own = kind.dimension(dim)
    if callable(distance):
        return replace(_configuration(_own_space_of(kind, own, asked), own, asked), items=kind.name)
    space = _space_of(kind, asked["kernel"], distance, asked["parameters"], own)
    return replace(_configuration(space, own if space.pyramid is None else dim, asked), items=kind.name)


def functions_of(items: str, distance: object, options: CollectionOptions) -> tuple[Any, Any, Any]:
    """The user's distance, encoder and decoder, checked before anything is made of what cannot be compared; None where there is none.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    own = (distance if callable(distance) else None, options.get("encoder"), options.get("decoder"))
    if own != (None, None, None) or items == OBJECTS.name:
        Functions().bind(*own, objects=items == OBJECTS.name)
    return own


def refuse_beside_fields(items: str, distance: object) -> None:
    """See that nothing came that items of several fields do not have; the same for a database, and for a schema.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    if items != "vectors" or distance is not None:
        raise InvalidInput.of("bad_parameter", "items of several fields are vectors, whose kernels print scores", field="fields")


def configuration_of_fields(fields: object, asked: Mapping[str, Any]) -> dict[str, Configuration]:
    """What is stored of each field of a new collection. asked: the options that were given for the whole, refused but for the seed.

    Raises:
        InvalidInput: codes "bad_parameter", "bad_name", "over_limit".
    """
    if given := [name for name in _OF_FIELDS if asked[name] is not None]:
        raise InvalidInput.of("bad_parameter", f"{', '.join(given)} came beside fields: each field has its own", field=given[0])
    if not isinstance(fields, Mapping) or not fields:
        raise InvalidInput.of("bad_parameter", 'fields are a mapping, as {"colour": {"kernel": "chi2", "dim": 512}}', field="fields")
    if len(fields) > limit("fields"):
        raise InvalidInput.of("over_limit", f"a collection has at most {limit('fields')} fields", field="fields", limit="fields")
    seed = asked["seed"]
    configs = {}
    for i, (name, own) in enumerate(fields.items()):
        check_name(name, "field")
        if not isinstance(own, Mapping):
            raise InvalidInput.of(
                "bad_parameter", f"field {name!r} is a mapping of {', '.join(_OF_FIELDS)}, not {arrived(own)}", field="fields"
            )
        for option in own:
            if option not in _OF_FIELDS:
                text = f"field {name!r}: {arrived(option)} is none of {', '.join(_OF_FIELDS)}{suggestion(option, _OF_FIELDS)}"
                raise InvalidInput.of("bad_parameter", text, field="fields")
        try:
            configs[name] = _field_configuration(own, None if seed is None else (seed + i) % 2**64)
        except InvalidInput as error:
            raise in_field(name, error) from None
    return configs


def differing(wanted: Configuration, there: Configured, asked: Mapping[str, Any], field: str | None = None) -> list[str]:
    """What is not as wanted of a collection that is there, for people. asked: what need not be alike where it is None.

    field: of which it is one; told with each.
    """
    have = there.config
    pairs: dict[str, tuple[object, object]] = {"items": (wanted.items, have.items), "kernel": (wanted.kernel, have.kernel)}
    pairs["dim"] = (wanted.dim, there._space.stored_dim(have.dim))
    if wanted.kernel == have.kernel:
        pairs["parameters"] = (wanted.parameters, have.parameters)
    named = {"sampler": wanted.sampler, "bands": wanted.bands, "rows": wanted.r}
    pairs |= {key: (value, getattr(have, key)) for key, value in named.items() if asked.get(key) is not None}
    where = "" if field is None else f" in field {field}"
    texts = [f"{key} {_told(got)}, not {_told(one)}{where and ','}{where}" for key, (one, got) in pairs.items() if one != got]
    if asked.get("feature_names") is not None and wanted.feature_names != have.feature_names:
        texts.append(f"{'other names of features' if have.feature_names else 'no names of features'}{where}")
    if asked.get("seed") is not None and wanted.seed != there._seed:
        texts.append(f"another seed{where}")
    return texts


def exists_already(apart: list[str]) -> CollectionExists:
    """The error for a name that is taken; apart: what differs there."""
    return CollectionExists(f"the collection exists{' with ' + ', '.join(apart) if apart else ''}; choose another name or drop it first")


def _configuration(space: Space, dim: int | None, asked: Mapping[str, Any]) -> Configuration:
    """What is stored of a space and its vectors; the sampler is checked here, and that this machine computes its hashes."""
    sampler, seed = asked.get("sampler"), asked.get("seed")
    if sampler is not None:
        one_of("sampler", sampler, SAMPLERS)
        if space.samplers and sampler not in space.samplers:
            text = f"kernel {space.name} is hashed by {' or '.join(space.samplers)}, not by {sampler}"
            raise InvalidInput.of("bad_parameter", text, field="sampler")
    names = declared_names(asked.get("feature_names"), dim)
    if names and space.pyramid is not None:
        text = f"kernel {space.name} compares cells, not features: it has no use for names of these"
        raise InvalidInput.of("bad_parameter", text, field="feature_names")
    dim = _row_dimension(space, dim)
    sampler = sampler or _default_sampler(space, dim)
    check_hashes(sampler)
    return Configuration(
        space.name, dim, sampler, asked.get("bands"), asked.get("rows"),
        secrets.randbits(64) if seed is None else seed, HASH_VERSION, dict(space.parameters),
        feature_names=names,
    )  # fmt: skip


def _field_configuration(asked: Mapping[str, Any], seed: int | None) -> Configuration:
    """The same of one field."""
    space = space_of(asked.get("kernel") or "ngmm", asked.get("parameters"))
    if space.ascending:
        text = f"{space.name} prints distances, which cannot be combined with scores; take a kernel that prints scores"
        raise InvalidInput.of("bad_parameter", text, field="fields")
    numbers = {name: _whole_or_none(name, asked.get(name), *_MOST[name]) for name in ("bands", "rows")}
    plain = {name: asked.get(name) for name in ("sampler", "feature_names")}
    return _configuration(space, _dimension(asked.get("dim")), {**plain, "seed": seed, **numbers})


def _space_of(kind: Kind, kernel: object, distance: object, parameters: object, dim: int | None) -> Space:
    """The kernel of a new collection, by either name.

    Raises:
        InvalidInput: code "bad_parameter": both came, or one that such items do not have, or it is the wrong name for what is printed.
    """
    if kernel is not None and distance is not None:
        raise InvalidInput.of("bad_parameter", "distance is another name for kernel: give one of them", field="distance")
    word = "kernel" if distance is None else "distance"
    default = kind.kernels[0] if kind.kernels else "ngmm"
    space = object_space_of(kind, (default if kernel is None else kernel) if distance is None else distance, parameters, dim, word)
    if distance is not None and not space.ascending:
        text = f"{space.name} prints scores, no distances: name it as kernel"
        raise InvalidInput.of("bad_parameter", text, field="distance")
    return space


def _own_space_of(kind: Kind, dim: int | None, asked: Mapping[str, Any]) -> Space:
    """Items of a kind under a function.

    Raises:
        InvalidInput: code "bad_parameter": such items are not compared by functions, or an option means nothing here.
    """
    if kind.vectors or kind.wide(Form(dim)) or kind is IMAGES:
        text = 'a function compares items="strings", "series", "points" or "objects"; vectors and images have kernels'
        raise InvalidInput.of("bad_parameter", text, field="items")
    if given := [name for name in ("kernel", "parameters", "sampler") if asked[name] is not None]:
        raise InvalidInput.of(
            "bad_parameter", f"{given[0]} came beside a function, which takes none: bind it to the function", field=given[0]
        )
    functions = Functions()
    return own_space(kind, Form(dim, functions=functions), functions)


def _row_dimension(space: Space, dim: int | None) -> int | None:
    """The length of the rows of vectors of this length, which some kernels' parameters tell."""
    if space.pyramid is not None and dim not in (None, space.pyramid.dim):
        text = f"kernel {space.name} of {space.pyramid.levels} level(s) takes vectors of dimension {space.pyramid.dim}, not {dim}"
        raise InvalidInput.of("bad_parameter", f"{text}; leave dim out, or choose other levels", field="dim")
    return space.stored_dim(dim)


def _default_sampler(space: Space, dim: int | None) -> str:
    """The faster one of those that are preferred. A kernel that is not hashed stores a name that nobody reads."""
    law = SAMPLERS[space.samplers[0]] if space.samplers else "minmax"
    return default_sampler(space.shapes, dim, law)


def _told(value: object) -> str:
    """A part of a configuration, for people."""
    return told_values(value) if isinstance(value, dict) else str(value)


def _dimension(dim: object) -> int | None:
    return _whole_or_none("dim", dim, 1, int(limit("dimension")), f"{limit('dimension')}")


def _whole_or_none(name: str, value: object, least: int, most: int, most_text: str) -> int | None:
    """A whole number of a range, NumPy's among them, as Python's; None stays None."""
    if value is None:
        return None
    if not isinstance(value, int | np.integer) or isinstance(value, bool | np.timedelta64) or not least <= value <= most:
        raise InvalidInput.of("bad_parameter", f"{name} is a whole number from {least} to {most_text}, or null", field=name)
    return int(value)
