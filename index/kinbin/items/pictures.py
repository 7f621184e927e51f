"""Images of any form → pixels. Pillow, an optional dependency, decodes files; what is too large is refused before it is decoded."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput, install
from kinbin.limits import limit
from kinbin.rows.matrices import Fault

__all__ = ["FORMATS", "pixels_of"]

FORMATS = ("PNG", "JPEG", "WEBP")
"""What is decoded; Pillow's other decoders are never tried."""
_FORMS = "an image is a path, bytes of a PNG, JPEG or WebP file, an image of Pillow, or a (height, width, 3) array of uint8"
_WHITE = (255, 255, 255, 255)
_GREY_BITS = {"I;16": 8, "I;16L": 8, "I;16B": 8, "I": 8}
"""Modes of grey values of 16 bits, and how far they are shifted to have eight."""


def pixels_of(given: Any) -> NDArray[np.uint8]:
    """(height, width, 3) red, green and blue of an image, in one piece.

    Of files and images of Pillow the first frame, turned as the camera says (EXIF), over white where it is transparent, and in RGB,
    as Pillow converts. Colour profiles are passed over. An array is taken as it is.

    Raises:
        Fault: code "bad_object": it is no image, or a damaged one; "over_limit": it has too many bytes or pixels (told by its header).
        InvalidInput: Pillow is not installed.
    """
    if isinstance(given, np.ndarray):
        return _of_array(given)
    if isinstance(given, str | os.PathLike):
        if not os.fspath(given):
            raise Fault("bad_object", f"{_FORMS}; this path is empty")
        return _of_bytes(_bytes_of(Path(given)), f"the file {str(given)[:80]!r} is")
    if isinstance(given, bytes | bytearray | memoryview):
        return _of_bytes(bytes(given))
    if type(given).__module__.partition(".")[0] == "PIL" and hasattr(given, "convert"):
        return _decoded(given)
    raise Fault("bad_object", f"{_FORMS}; this is {type(given).__name__}")


def _of_array(given: NDArray[Any]) -> NDArray[np.uint8]:
    if given.dtype != np.uint8 or given.ndim != 3 or given.shape[2] != 3:
        raise Fault("bad_object", f"{_FORMS}; this array has shape {given.shape} and dtype {given.dtype}")
    if isinstance(given, np.ma.MaskedArray):
        raise Fault("bad_object", f"{_FORMS}; this array is masked: fill the mask")
    _check_size(given.shape[1], given.shape[0])
    return np.ascontiguousarray(given)


def _check_size(width: int, height: int) -> None:
    if not width or not height:
        raise Fault("bad_object", "an image has at least one pixel, this one has none; leave it out")
    if width * height > limit("image_pixels"):
        text = f"an image has at most {limit('image_pixels'):,} pixels, this one has {width} × {height}; make it smaller"
        raise Fault("over_limit", text, "image_pixels")


def _check_bytes(size: int) -> None:
    if size > limit("image_bytes"):
        raise Fault("over_limit", f"the file of an image has at most {limit('image_bytes'):,} bytes, this one has {size:,}", "image_bytes")


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            _check_bytes(os.fstat(file.fileno()).st_size)
            # A pipe or a device has no size, and perhaps no end.
            data = file.read(int(limit("image_bytes")) + 1)
    except (OSError, ValueError) as error:
        raise Fault("bad_object", f"the image {str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}"[:160]) from None
    return data


def _of_bytes(data: bytes, what: str = "these bytes are") -> NDArray[np.uint8]:
    _check_bytes(len(data))
    library = _pillow()
    try:
        with library.open(BytesIO(data), formats=FORMATS) as image:
            return _decoded(image)
    except Fault:
        raise
    except (library.DecompressionBombError, library.DecompressionBombWarning):
        raise Fault("over_limit", f"an image has at most {limit('image_pixels'):,} pixels, this one has more", "image_pixels") from None
    except Exception as error:  # noqa: BLE001  # whatever foreign code raises of bytes that anybody sent
        raise Fault("bad_object", f"{what} no PNG, JPEG or WebP image, or a damaged one: {_reason(error)}"[:200]) from None


def _reason(error: Exception) -> str:
    """What Pillow says, without addresses."""
    return str(error).partition("<")[0].strip() or type(error).__name__


def _decoded(image: Any) -> NDArray[np.uint8]:
    """An image of Pillow. Only its header has been read until here."""
    from PIL import ImageOps

    _check_size(*image.size)
    library = _pillow()
    try:
        image = ImageOps.exif_transpose(image)
        if image.mode in _GREY_BITS:
            grey = (np.asarray(image).astype(np.int64) >> _GREY_BITS[image.mode]).clip(0, 255).astype(np.uint8)
            return np.ascontiguousarray(np.repeat(grey[:, :, None], 3, axis=2))
        if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
            image = library.alpha_composite(library.new("RGBA", image.size, _WHITE), image.convert("RGBA"))
        return np.ascontiguousarray(image.convert("RGB"), np.uint8)
    except Exception as error:  # noqa: BLE001  # the same
        raise Fault("bad_object", f"the image cannot be decoded: {_reason(error)}"[:160]) from None


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        text = f"images in files and bytes are decoded by Pillow: {install('images')}, or give arrays of uint8"
        raise InvalidInput.of("bad_parameter", text, field="image") from None
    return Image
