"""What the store keeps as JSON, decoded and checked once: configurations, and the headers of runs and link sets.

Each class has `decode`, which takes what JSON gives, and `encode`, which gives back what is written. Fields that a later version
added are passed over, so that an earlier one reads what it wrote; a field that is absent or malformed is damage, and is named.
`index/FORMAT.md`, sections 4 and 8, says what each field is.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.parameters import Value

__all__ = [
    "CONFIG", "CONFIGURATION", "CoderHeader", "Configuration", "ContrastHeader", "FieldNames", "Fields", "Identity", "LinkSetHeader",
    "ProjectionHeader", "RunHeader", "numbers",
]  # fmt: skip

CONFIG, CONFIGURATION = b"config", "the collection's configuration"
"""The key of what a collection was created with, and what messages call it."""
_MOST = 2**63 - 1
_MOST_SHIFT = 31
"""Local rows are 32-bit numbers: no block holds more of them than this shift says."""
_MOST_R, _MOST_BANDS = 8, 256
"""What hashes are specified for (index/HASHING.md)."""


class Fields:
    """A JSON object whose fields are checked one by one.

    Raises:
        CorruptData: it is no object; so does every method, of a field that is absent or not what it should be.
    """

    def __init__(self, data: object, what: str) -> None:
        """what: how messages name the object."""
        if not isinstance(data, dict):
            raise damaged(what, "no JSON object")
        self._data, self._what = data, what

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def refuse(self, name: str, wanted: str) -> CorruptData:
        """The error of a field that is not what is wanted."""
        return damaged(self._what, f"its field {name!r} is not {wanted}")

    def whole(self, name: str, least: int = 0, most: int = _MOST) -> int:
        """A whole number of a range, ends included."""
        value = self._data.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.refuse(name, f"a whole number from {least} to {most}")
        return value

    def whole_or_none(self, name: str, least: int, most: int = _MOST) -> int | None:
        """The same, or null; it must be there."""
        return None if name in self._data and self._data[name] is None else self.whole(name, least, most)

    def number(self, name: str) -> float:
        """A finite number, as it is stored."""
        value = self._data.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= _MOST:
            raise self.refuse(name, "a finite number")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._data.get(name)
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false")
        return value

    def text(self, name: str) -> str:
        """A string."""
        value = self._data.get(name)
        if not isinstance(value, str):
            raise self.refuse(name, "a string")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        value = self._data.get(name)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.refuse(name, "a list of strings")
        return value

    def array(self, name: str, *shape: int | None) -> NDArray[Any]:
        """Nested lists of finite numbers with this shape, of which None is any length: an array of int64 or float64."""
        try:
            array = np.asarray(self._data.get(name))
        except ValueError:
            array = np.empty(0, np.bool_)  # lists of several lengths
        fits = array.ndim == len(shape) and all(wanted in (None, got) for wanted, got in zip(shape, array.shape, strict=True))
        if not fits or array.dtype not in (np.int64, np.float64) or not np.isfinite(array).all():
            dimensions = " × ".join("any" if size is None else str(size) for size in shape)
            raise self.refuse(name, f"{dimensions} finite numbers")
        return array

    def object(self, name: str) -> dict[str, Any]:
        """A JSON object."""
        value = self._data.get(name)
        if not isinstance(value, dict):
            raise self.refuse(name, "an object")
        return value

    def values(self, name: str) -> dict[str, Value]:
        """A JSON object of finite numbers, words, and lists of finite numbers."""
        out: dict[str, Value] = {}
        for key, one in self.object(name).items():
            listed = one if isinstance(one, list) else [one]
            if not isinstance(one, str) and not all(_is_finite(part) for part in listed):
                raise self.refuse(name, "an object of finite numbers, words, and lists of such numbers")
            out[key] = one if isinstance(one, str) else tuple(map(float, one)) if isinstance(one, list) else float(one)
        return out

    def named(self, name: str) -> dict[int, str]:
        """A JSON object of words whose keys are features, ascending."""
        told = self.object(name)
        if not all(isinstance(word, str) and key.isascii() and key.isdigit() and int(key[:20]) <= _MOST for key, word in told.items()):
            raise self.refuse(name, "an object of words by features")
        return {feature: told[key] for feature, key in sorted((int(key), key) for key in told)}

    def fields(self, name: str) -> Fields:
        """The fields of a JSON object."""
        return Fields(self.object(name), f"{self._what}, {name!r}")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST


def damaged(what: str, why: str) -> CorruptData:
    """The error of a record whose checksum is right and whose content is not."""
    return CorruptData(f"{what} is damaged: {why}")


def numbers(data: object, what: str) -> list[int]:
    """A list of the numbers of runs or link sets, checked."""
    if not isinstance(data, list) or not all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 2**32 for one in data):
        raise damaged(what, "not a list of numbers")
    return data


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a collection was created with; only `bands` and `r` ever change, by a rebuild."""

    kernel: str
    dim: int | None
    """None: unbounded feature ids."""
    sampler: str
    bands: int | None
    """None: chosen run by run."""
    r: int | None
    """Hashes a band, `rows` to users and on disk. None: chosen run by run."""
    seed: int
    hash_version: int
    parameters: dict[str, Value] = field(default_factory=dict)
    """Of the kernel, by name. Absent on disk if it has none."""
    items: str = "vectors"
    """What the items are, the name of a kind. Absent on disk where they are vectors."""
    feature_names: dict[int, str] = field(default_factory=dict)
    """Of features that have one. Absent on disk if none has."""

    @classmethod
    def decode(cls, data: object) -> Configuration:
        """From JSON.

        Raises:
            CorruptData: a field is absent or malformed.
        """
        fields = Fields(data, CONFIGURATION)
        seed = fields.text("seed")
        if not (seed.isascii() and seed.isdigit()) or int(seed[:21]) >= 2**64:
            raise fields.refuse("seed", "a string of digits below 2**64")
        return cls(
            kernel=fields.text("kernel"), dim=fields.whole_or_none("dim", 1), sampler=fields.text("sampler"),
            bands=fields.whole_or_none("bands", 1, _MOST_BANDS), r=fields.whole_or_none("rows", 1, _MOST_R),
            seed=int(seed), hash_version=fields.whole("hash_version"),
            parameters=fields.values("parameters") if "parameters" in fields else {},
            items=fields.text("items") if "items" in fields else "vectors",
            feature_names=fields.named("feature_names") if "feature_names" in fields else {},
        )  # fmt: skip

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kernel": self.kernel, "dim": self.dim, "sampler": self.sampler, "bands": self.bands, "rows": self.r,
            "seed": str(self.seed), "hash_version": self.hash_version,
        } | self._optional()  # fmt: skip

    def _optional(self) -> dict[str, Any]:
        """What is absent on disk where it is as it always was."""
        told: dict[str, Any] = {"parameters": self.parameters} if self.parameters else {}
        if self.feature_names:
            told["feature_names"] = {str(feature): name for feature, name in self.feature_names.items()}
        return told if self.items == "vectors" else told | {"items": self.items}


@dataclass(frozen=True, slots=True)
class FieldNames:
    """What the first store of a collection with several fields keeps in the place of a `Configuration`; it never changes."""

    names: tuple[str, ...]
    """Of the fields, in the order they were given; each has a store of its own."""
    hash_version: int

    @classmethod
    def decode(cls, data: object) -> FieldNames:
        """From JSON.

        Raises:
            CorruptData: a field is absent or malformed.
        """
        fields = Fields(data, CONFIGURATION)
        names = fields.texts("fields")
        if not names or len(set(names)) < len(names):
            raise fields.refuse("fields", "a list of different names")
        return cls(tuple(names), fields.whole("hash_version"))

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {"fields": list(self.names), "hash_version": self.hash_version}


MOST_SALT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Which store this file is, so that another one that is put in its place is noticed."""

    collection: str
    """The collection's name; of a field's store NAME/FIELD."""
    secret: str
    """Random, hexadecimal: two files of the same name differ in it."""
    of: str = ""
    """Of a field's store: the secret of the items' store; "": it does not say, as those of earlier versions do not."""
    salt: int = 0
    """Random: what the checksums of these files begin with, so that no page of others is sound here. It stays with the records: whoever
    restores a snapshot has that of the files it was made of. 0, and absent on disk: none, in files that were made before format 4."""

    @classmethod
    def new(cls, collection: str, of: str = "", *, salted: bool = True) -> Identity:
        """That of new files. salted: not of files of format 1, which get an identity at their next commit."""
        return cls(collection, secrets.token_hex(16), of, 1 + secrets.randbelow(MOST_SALT) if salted else 0)

    def field(self, name: str) -> Identity:
        """That of new files of a field of these."""
        return Identity.new(f"{self.collection}/{name}", self.secret)

    def has(self, field: Identity) -> bool:
        """Whether a field's store may be one of these items."""
        return not field.of or field.of == self.secret

    @classmethod
    def decode(cls, data: object) -> Identity:
        """From JSON.

        Raises:
            CorruptData: a field is absent or malformed.
        """
        fields = Fields(data, "the collection's identity")
        salt = fields.whole("salt", 1, MOST_SALT) if "salt" in fields else 0
        return cls(fields.text("collection"), fields.text("secret"), fields.text("of") if "of" in fields else "", salt)

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        told: dict[str, Any] = {"collection": self.collection, "secret": self.secret}
        return told | ({"of": self.of} if self.of else {}) | ({"salt": self.salt} if self.salt else {})


@dataclass(frozen=True, slots=True, eq=False)
class ContrastHeader:
    """How a run's rows lie to each other: a sample that queries are planned by (`bands.contrast.Contrast`)."""

    histogram: NDArray[np.float64]
    """(q, bins)."""
    kth: NDArray[np.float64]
    """(q,)."""
    nonzeros: float
    wide: bool = False
    """Absent in runs of an earlier version."""

    @classmethod
    def decode(cls, fields: Fields) -> ContrastHeader:
        """From JSON."""
        histogram = fields.array("histogram", None, None).astype(np.float64)
        if not histogram.size:
            raise fields.refuse("histogram", "that of at least one row")
        kth = fields.array("kth", len(histogram)).astype(np.float64)
        return cls(histogram, kth, float(fields.number("nonzeros")), "wide" in fields and fields.flag("wide"))

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {"histogram": self.histogram.tolist(), "kth": self.kth.tolist(), "nonzeros": self.nonzeros, "wide": self.wide}


@dataclass(frozen=True, slots=True, eq=False)
class RunHeader:
    """The header of a run."""

    rows: int
    r: int
    """Hashes a band."""
    bands: int
    slot_bits: int
    """A band's table has 2**slot_bits slots."""
    posting_bytes: int
    """2 or 4."""
    block_shift: int
    """A block holds 2**block_shift rows."""
    sampler: str
    contrast: ContrastHeader
    checks: bool = True
    """Whether the checks of its rows are listed. Absent, and they are not, in runs of format 2."""

    @classmethod
    def decode(cls, data: object, what: str) -> RunHeader:
        """From JSON; what: how messages name it.

        Raises:
            CorruptData: a field is absent or malformed.
        """
        fields = Fields(data, what)
        posting_bytes = fields.whole("posting_bytes")
        if posting_bytes not in (2, 4):
            raise fields.refuse("posting_bytes", "2 or 4")
        return cls(
            rows=fields.whole("rows", 1, 2**32 - 1), r=fields.whole("r", 1, _MOST_R), bands=fields.whole("bands", 0, _MOST_BANDS),
            slot_bits=fields.whole("slot_bits", 0, 32), posting_bytes=posting_bytes,
            block_shift=fields.whole("block_shift", 0, _MOST_SHIFT), sampler=fields.text("sampler"),
            contrast=ContrastHeader.decode(fields.fields("contrast")), checks="checks" in fields and fields.flag("checks"),
        )  # fmt: skip

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rows": self.rows, "r": self.r, "bands": self.bands, "slot_bits": self.slot_bits, "posting_bytes": self.posting_bytes,
            "block_shift": self.block_shift, "sampler": self.sampler, "contrast": self.contrast.encode(),
            "checks": self.checks,
        }  # fmt: skip

    @property
    def table_bytes(self) -> int:
        """Bytes of a band: its offsets, then its postings."""
        return 4 * ((1 << self.slot_bits) + 1) + self.posting_bytes * self.rows


@dataclass(frozen=True, slots=True)
class ProjectionHeader:
    """Which unit rows were coded, and how they were projected, all but the directions (`codes.coder.Projection`)."""

    roots: bool
    residual: float

    @classmethod
    def decode(cls, fields: Fields) -> ProjectionHeader:
        """From JSON."""
        return cls(fields.flag("roots"), fields.number("residual"))

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {"roots": self.roots, "residual": self.residual}


@dataclass(frozen=True, slots=True)
class CoderHeader:
    """How the rows of a link set became codes, all but the buckets and the directions (`codes.coder.Coder`)."""

    width: int
    """Bytes a code; 0: packed."""
    hashed: bool
    step: float
    offset: float
    recall: float
    projection: ProjectionHeader | None = None
    """Only where codes are of unit rows: projections, or packed."""

    @classmethod
    def decode(cls, fields: Fields) -> CoderHeader:
        """From JSON."""
        projection = ProjectionHeader.decode(fields.fields("projection")) if "projection" in fields else None
        return cls(
            fields.whole("width", 0, 2**16), fields.flag("hashed"), fields.number("step"), fields.number("offset"), fields.number("recall"),
            projection,
        )  # fmt: skip

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        out = {"width": self.width, "hashed": self.hashed, "step": self.step, "offset": self.offset, "recall": self.recall}
        return out if self.projection is None else {**out, "projection": self.projection.encode()}


@dataclass(frozen=True, slots=True)
class LinkSetHeader:
    """The header of a link set."""

    rows: int
    horizon: int
    """The last row number it covers; -1: none."""
    coder: CoderHeader
    norms: bool
    """Whether it keeps norms: its kernel does not normalise."""
    code_shift: int
    """A block holds the codes of 2**code_shift nodes."""
    link_shift: int
    scratch_rows: int
    """Rows there were when the coder was chosen."""
    link_count: int
    """Of all nodes together, `links` on disk."""
    calibration: dict[str, Any]
    """JSON; `links.widths.CalibrationTable` decodes it."""

    @classmethod
    def decode(cls, data: object, what: str) -> LinkSetHeader:
        """From JSON; what: how messages name it.

        Raises:
            CorruptData: a field is absent or malformed.
        """
        fields = Fields(data, what)
        return cls(
            rows=fields.whole("rows", 0, 2**32 - 1), horizon=fields.whole("horizon", -1), coder=CoderHeader.decode(fields.fields("coder")),
            norms=fields.flag("norms"), code_shift=fields.whole("code_shift", 0, _MOST_SHIFT),
            link_shift=fields.whole("link_shift", 0, _MOST_SHIFT), scratch_rows=fields.whole("scratch_rows"),
            link_count=fields.whole("links"), calibration=fields.object("calibration"),
        )  # fmt: skip

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rows": self.rows, "horizon": self.horizon, "coder": self.coder.encode(), "norms": self.norms, "code_shift": self.code_shift,
            "link_shift": self.link_shift, "scratch_rows": self.scratch_rows, "links": self.link_count, "calibration": self.calibration,
        }  # fmt: skip
