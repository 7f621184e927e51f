"""The kernels by name, those of vectors and those of objects. This is the one list of them: whoever offers kernels reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinbin.items.kind import Kind
    from kinbin.parameters import Value
    from kinbin.spaces.prints import Parameter
    from kinbin.spaces.space import Space

__all__ = ["KERNELS", "OBJECT_KERNELS", "kernel_named", "object_space_of", "space_of"]

_HOMES = {
    "minmax": "kinbin.spaces.minmax:MINMAX",
    "gmm": "kinbin.spaces.minmax:GMM",
    "ngmm": "kinbin.spaces.minmax:NGMM",
    "gint": "kinbin.spaces.minmax:GINT",
    "tv": "kinbin.spaces.minmax:TV",
    "chi2": "kinbin.spaces.chi2:CHI2",
    "exp_chi2": "kinbin.spaces.chi2:EXP_CHI2",
    "acos_chi2": "kinbin.spaces.chi2:ACOS_CHI2",
    "js": "kinbin.spaces.js:JS",
    "hellinger": "kinbin.spaces.hellinger:HELLINGER",
    "cosine": "kinbin.spaces.cosine:COSINE",
    "acos": "kinbin.spaces.cosine:ACOS",
    "rbf": "kinbin.spaces.cosine:RBF",
    "frbf": "kinbin.spaces.cosine:FRBF",
    "mm_acos": "kinbin.spaces.product:MM_ACOS",
    "mm_acos_chi2": "kinbin.spaces.product:MM_ACOS_CHI2",
}

_OBJECT_HOMES = {
    "levenshtein": "kinbin.spaces.levenshtein:LEVENSHTEIN",
    "damerau": "kinbin.spaces.damerau:DAMERAU",
    "indel": "kinbin.spaces.indel:INDEL",
    "jaro_winkler": "kinbin.spaces.jaro:JARO_WINKLER",
    "dtw": "kinbin.spaces.series:DTW",
    "euclidean": "kinbin.spaces.series:EUCLIDEAN",
    "hausdorff": "kinbin.spaces.points:HAUSDORFF",
    "modified_hausdorff": "kinbin.spaces.points:MODIFIED_HAUSDORFF",
}
"""Of objects; which kind of items has which stands in `Kind.kernels`."""
_OF_ONE_LENGTH = {"nested": "kinbin.spaces.nested:NESTED"}
"""Kernels of vectors whose length follows from the kernel's parameters: no part of products, nor of what is said of any vectors."""
_ALIASES = {
    **dict.fromkeys(("chi_squared", "chi_square", "chisquare", "chisquared", "chi_2", "x2", "additive_chi2"), "chi2"),
    **dict.fromkeys(("jensen_shannon", "jensenshannon", "jsd"), "js"),
    **dict.fromkeys(("bhattacharyya", "sqrt_cosine"), "hellinger"),
    **dict.fromkeys(("jaccard", "weighted_jaccard", "ruzicka", "tanimoto"), "minmax"),
    **dict.fromkeys(("intersection", "histogram_intersection"), "gint"),
    **dict.fromkeys(("total_variation", "l1", "manhattan", "cityblock"), "tv"),
    **dict.fromkeys(("gaussian",), "rbf"),
    **dict.fromkeys(("cos", "dot", "inner_product", "ip"), "cosine"),
    **dict.fromkeys(("angular", "arccos", "arc_cosine"), "acos"),
}
"""What users of other libraries call kernels, or what is nearest to that here: messages about unknown names say so."""
_OBJECT_ALIASES = {
    **dict.fromkeys(("edit", "edit_distance"), "levenshtein"),
    **dict.fromkeys(("osa", "damerau_levenshtein"), "damerau"),
    **dict.fromkeys(("lcs", "lcsseq"), "indel"),
    **dict.fromkeys(("jaro", "jarowinkler"), "jaro_winkler"),
    **dict.fromkeys(("dynamic_time_warping",), "dtw"),
    **dict.fromkeys(("l2",), "euclidean"),
    **dict.fromkeys(("chamfer", "mhd"), "modified_hausdorff"),
}
_TIMES = "*"
_TOLD = 1e15
"""Numbers that are larger are told by what they are."""
_MOST_PARTS = 3


@cache
def _imported(home: str) -> Space:
    module, _, attribute = home.partition(":")
    space: Space = getattr(import_module(module), attribute)
    return space


class _Kernels(Mapping[str, "Space"]):
    """Spaces are imported when they are looked up: their names alone need neither a compiler nor numpy."""

    def __init__(self, homes: Mapping[str, str], aliases: Mapping[str, str]) -> None:
        self._homes = homes
        self.aliases = aliases
        """See `errors.nearest`."""

    def __getitem__(self, name: str) -> Space:
        return _imported(self._homes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    @property
    def parts(self) -> list[str]:
        """Names of those that products are made of. Imports all."""
        return [name for name in self if _no_part(name) is None]


_VECTOR_KERNELS = _Kernels(_HOMES, _ALIASES)
KERNELS: Mapping[str, Space] = _VECTOR_KERNELS
"""Of vectors."""
OBJECT_KERNELS: Mapping[str, Space] = _Kernels(_OBJECT_HOMES, _OBJECT_ALIASES)
"""Of objects: strings, series, point sets."""


class _Names(tuple[str, ...]):
    """Names of kernels, with the other names of these (`errors.nearest`)."""

    __slots__ = ()

    @property
    def aliases(self) -> dict[str, str]:
        """By name elsewhere, that here."""
        return {key: one for key, one in (_ALIASES | _OBJECT_ALIASES).items() if one in self}


def kernel_named(name: object, *, of_one_length: bool = True) -> Space:
    """The kernel of this name, "nested" too; "gmm*acos" is the product of two (or three), in whatever order.

    of_one_length: False where "nested" and its like are not taken.

    Raises:
        InvalidInput: no kernel has this name, or the product is none (code "bad_parameter").
    """
    from kinbin.parameters import one_of

    if isinstance(name, str) and _TIMES in name:
        return _product(name.split(_TIMES))
    if of_one_length and isinstance(name, str) and name in _OF_ONE_LENGTH:
        return _imported(_OF_ONE_LENGTH[name])
    product = f"a product of two or three of them, such as gmm{_TIMES}acos"
    one_of("kernel", name, KERNELS, f"{product}, or {', '.join(_OF_ONE_LENGTH)}" if of_one_length else f"or {product}")
    return KERNELS[str(name)]


def _product(names: list[str]) -> Space:
    """The product of these kernels."""
    from kinbin.errors import InvalidInput
    from kinbin.parameters import one_of

    for name in names:
        if name not in KERNELS and name not in _OF_ONE_LENGTH:
            one_of("kernel", name, _VECTOR_KERNELS.parts)
        if what := _no_part(name):
            raise InvalidInput.of("bad_parameter", f"kernel {name} {what}: it is no part of a product", field="kernel")
    if not 2 <= len(names) <= _MOST_PARTS or len(set(names)) < len(names):
        raise InvalidInput.of("bad_parameter", f"a product has two or three different kernels, not {_TIMES.join(names)}", field="kernel")
    from kinbin.spaces.product import product_of

    return product_of([KERNELS[name] for name in names])


def _no_part(name: str) -> str | None:
    """Why a kernel of vectors is no part of products; None: it is one."""
    if name in _OF_ONE_LENGTH:
        return "is of vectors of one length"
    from kinbin.spaces.prints import Print
    from kinbin.spaces.space import unchanged

    space = KERNELS[name]
    if space.context is not None:
        return "is a product itself"
    if space.ascending:
        return "prints distances"
    if space.printed_range[0] < 0.0:
        return "prints negative numbers"
    if space.printed_range[1] > 1.0:
        return "prints more than 1"
    # Products print what their parts print, in machine code.
    own = not isinstance(space.printed, Print) and space.printed is not unchanged
    return "prints scores in a way of its own" if own else None


def space_of(name: object, parameters: object = None, *, of_one_length: bool = True) -> Space:
    """The kernel of this name with these values of its parameters: a mapping of names to values.

    Values are numbers, words or lists of numbers, as the kernel declares; those left out have their defaults. of_one_length: see
    `kernel_named`.

    Raises:
        InvalidInput: no kernel has this name, it has no such parameter, or a value is not what the parameter may be
            (code "bad_parameter"; `field` is "kernel" or "parameters").
    """
    return _with(kernel_named(name, of_one_length=of_one_length), parameters)


def object_space_of(kind: Kind, name: object, parameters: object = None, dim: int | None = None, word: str = "kernel") -> Space:
    """The same of items of a kind, of so many dimensions: one of those that the kind lists. word: what the caller calls it.

    Raises:
        InvalidInput: as `space_of`; `field` may be `word`.
    """
    from kinbin.errors import InvalidInput
    from kinbin.items.kinds import KINDS
    from kinbin.parameters import one_of

    if not kind.kernels:
        if isinstance(name, str) and name in OBJECT_KERNELS:
            owner = next(other for other, one in KINDS.items() if name in one.kernels)
            text = f'{name} compares {owner}, these items are vectors: say items="{owner}"'
            if name == "euclidean":
                text += "; of vectors, the kernel cosine orders rows of one length as the Euclidean distance does"
            raise InvalidInput.of("bad_parameter", text, field=word)
        return space_of(name, parameters)
    one_of(word, name, _Names(kind.kernels))
    space = _with(OBJECT_KERNELS[str(name)] if name in OBJECT_KERNELS else kernel_named(name), parameters)
    return space if space.sized is None or dim is None else space.sized(dim)


def _with(space: Space, parameters: object) -> Space:
    """A kernel with values of its parameters."""
    if parameters is None:
        return space
    values = {key: one.default for key, one in space.declared.items()} | _judged(space, parameters)
    return space if space.of is None or values == space.parameters else space.of(values)


def _judged(space: Space, parameters: object) -> dict[str, Value]:
    """The parameters that were given, checked."""
    from kinbin.errors import InvalidInput, suggestion
    from kinbin.parameters import arrived

    if not isinstance(parameters, Mapping):
        text = f'parameters are an object of names and numbers, as {{"gamma": 2.0}}, not {arrived(parameters)}'
        raise InvalidInput.of("bad_parameter", text, field="parameters")
    for key in parameters:
        if key not in space.declared:
            known = f"has {', '.join(space.declared)}" if space.declared else "takes none"
            text = f"kernel {space.name} has no parameter {arrived(key)}{suggestion(key, list(space.declared))}: it {known}"
            raise InvalidInput.of("bad_parameter", text, field="parameters")
    return {key: _judged_value(key, space.declared[key], value) for key, value in parameters.items()}


def _judged_value(key: str, parameter: Parameter, value: object) -> Value:
    from kinbin.errors import InvalidInput
    from kinbin.parameters import arrived, is_number

    if parameter.words:
        if isinstance(value, str) and value in parameter.words:
            return value
    elif isinstance(value, list | tuple):
        if 1 <= len(value) <= parameter.several and all(_fits(parameter, one) for one in value):
            return tuple(float(one) for one in value)
    elif _fits(parameter, value):
        return int(value) if parameter.whole else float(value)  # type: ignore[arg-type, call-overload]
    # Of NaN all comparisons are false.
    told = arrived(value) if not is_number(value) or value >= _TOLD or value <= -_TOLD else f"{value:g}"  # type: ignore[operator]
    raise InvalidInput.of("bad_parameter", f"the parameter {key} {parameter.says}, not {told}", field="parameters")


def _fits(parameter: Parameter, value: object) -> bool:
    """Whether this is a number of the parameter's range."""
    from kinbin.parameters import is_number

    # Comparisons with NaN are false.
    inside = is_number(value) and parameter.least <= value <= parameter.most  # type: ignore[operator]
    return bool(inside and (not parameter.whole or int(value) == value))  # type: ignore[call-overload]
