"""Objects in the place of vectors: strings, series, point sets and images, each as the service takes it, under a key of its own."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

from kinbin_client.errors import InvalidArgument
from kinbin_client.vectors import MASKED, Array, Vector, Vectors, kind

__all__ = ["KEYS", "Many", "Objects", "One", "encode_object", "of_kind"]

KEYS = {"vectors": "vector", "strings": "string", "series": "series", "points": "points", "images": "image"}
"""What items of each kind carry."""
One: TypeAlias = Vector | str | bytes | os.PathLike[str] | Sequence[Sequence[float]]
"""One vector, or object: a string; a series, as a list or (n,) or (n, dims) array; a point set, as an (n, dims) array or list of lists; an
image, as a path, bytes, image of Pillow or (height, width, 3) array of uint8."""
Many: TypeAlias = Vectors | Sequence[One] | Sequence[Array]
"""Many of them."""
_FORMS = "an image is a path, bytes of a PNG, JPEG or WebP file, an image of Pillow, or a (height, width, 3) array of uint8"


@dataclass(frozen=True, slots=True)
class Objects:
    """Many objects of a kind, in the place of `Vectors`."""

    items: str
    """The kind: a key of KEYS."""
    objects: Any

    @property
    def key(self) -> str:
        """What each is carried under."""
        return KEYS[self.items]

    def encoded(self) -> tuple[int, Iterator[Any]]:
        """How many there are, and their JSON forms, made as they are asked for: files of images are read one by one.

        The iterator raises InvalidArgument with the position of an object that has none.
        """
        given = self.objects
        is_array = hasattr(given, "tolist") and not isinstance(given, type)
        if isinstance(given, str | bytes | bytearray | Mapping | Set) or not (is_array or isinstance(given, Sequence)):
            text = f"a batch of {self.items} is a list of them, this is {type(given).__name__}; put a single {self.key} into a list"
            raise InvalidArgument(text, code="bad_object")
        return len(given), self._each(given)

    def _each(self, given: Any) -> Iterator[Any]:
        for position, one in enumerate(given):
            try:
                yield encode_object(self.items, one)
            except InvalidArgument as error:
                raise InvalidArgument(str(error.args[0]), position, error.code) from None


def of_kind(items: str, many: Any) -> Any:
    """A batch as adds and queries take it: vectors as they are."""
    return many if items == "vectors" else Objects(items, many)


def encode_object(items: str, given: Any) -> Any:
    """The JSON form of one object of this kind; InvalidArgument if it has none. What it holds, the service judges."""
    if items == "strings":
        if not isinstance(given, str):
            hint = "; decode it first" if isinstance(given, bytes | bytearray) else ""
            raise _bad(f"a string is expected here, this is {type(given).__name__}{hint}")
        return str(given)
    if items == "images":
        return base64.b64encode(_image(given)).decode("ascii")
    if hasattr(given, "mask") and hasattr(given, "filled"):
        raise _bad(MASKED)
    plain = given.tolist() if hasattr(given, "tolist") and not isinstance(given, type) else given
    if isinstance(plain, str | bytes | Mapping | Set) or not isinstance(plain, Sequence):
        one = "series" if items == "series" else "point set"
        raise _bad(f"a {one} is an array of numbers, this is {kind(plain)}")
    return [step.tolist() if hasattr(step, "tolist") else list(step) if isinstance(step, tuple) else step for step in plain]


def _bad(text: str) -> InvalidArgument:
    return InvalidArgument(text, code="bad_object")


def _image(given: Any) -> bytes:
    """The file of an image."""
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, str | os.PathLike):
        try:
            return Path(given).read_bytes()
        except (OSError, ValueError) as error:
            raise _bad(f"the image {str(given)!r} cannot be read: {error}"[:160]) from None
    if type(given).__module__.partition(".")[0] == "PIL" and hasattr(given, "save"):
        out = BytesIO()
        given.save(out, "PNG")
        return out.getvalue()
    shape: tuple[int, ...] = getattr(given, "shape", ())
    if len(shape) != 3 or shape[2] != 3 or str(getattr(given, "dtype", "")) != "uint8" or 0 in shape:
        told = f"this array has shape {shape} and dtype {given.dtype}" if hasattr(given, "dtype") else f"this is {type(given).__name__}"
        raise _bad(f"{_FORMS}; {told}")
    return _png(given.tobytes(), shape[1], shape[0])


def _png(pixels: bytes, width: int, height: int) -> bytes:
    """A PNG file of red, green and blue in rows (PNG specification, third edition, sections 9 and 11)."""
    step = 3 * width
    lines = b"".join(b"\0" + pixels[start : start + step] for start in range(0, step * height, step))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
