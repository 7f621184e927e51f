"""A folder of images, and of folders of images: one item a file, by the order of their names."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import kinbin
from kinbin_service.importing.batches import Bad, BadRow, Batch, Columns, Naming, Position, SourceError
from kinbin_service.importing.vectors import Vector

__all__ = ["SUFFIXES", "THUMBNAIL", "ImageFolder", "image_files"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
THUMBNAIL = 96
"""Pixels of the longer side of thumbnails."""
_QUALITY = 80
"""Of thumbnails, which are JPEG: 2 to 4 kB each."""
_ID_BYTES = int(kinbin.LIMITS["id_bytes"].value)


def image_files(folder: Path) -> list[str]:
    """Paths of all images below a folder, relative to it, with slashes, sorted. Hidden ones, and links to folders, are passed over."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = Path(place).relative_to(folder)
        found += [(below / name).as_posix() for name in files if name.lower().endswith(SUFFIXES) and not name.startswith(".")]
    return sorted(found)


class ImageFolder:
    """The images below a folder. Ids are their paths; the payload has the path again, and the folder, which often is a label."""

    format = "images"
    unit = "rows"
    empty = 0

    def __init__(self, path: Path, *, naming: Naming | None = None, thumbnails: bool = False) -> None:
        self.path = path
        self._naming, self._thumbnails = naming, thumbnails
        self._files = image_files(path)
        if not self._files:
            raise SourceError(path, f"has no images: files that end in {', '.join(SUFFIXES)}, in it or in folders below")
        self.total = len(self._files)
        payload = ("file", "folder", "thumbnail") if thumbnails else ("file", "folder")
        self.columns = Columns(f"{self.total:,} images", naming.told if naming else "id from paths", payload)

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:
        """Batches of at most `rows` images from `start` on. Images are read when they are added, one at a time."""
        for first in range(start.rows, self.total, rows):
            yield self._batch(range(first, min(first + rows, self.total)), skip_bad)

    def done(self, position: Position) -> int:
        """Images before a position."""
        return position.rows

    def close(self) -> None:
        """Nothing is open."""

    def _batch(self, rows: range, skip_bad: bool) -> Batch:
        ids, places = [], []
        paths: list[Vector | Path] = []
        payloads: list[dict[str, Any] | None] = []
        bad: list[BadRow] = []
        for row in rows:
            item = self._item(row)
            if isinstance(item, Bad):
                if not skip_bad:
                    raise item.error
                bad.append(item.error)
                continue
            identifier, payload = item
            ids.append(identifier)
            paths.append(self.path / self._files[row])
            payloads.append(payload)
            places.append(row)
        return Batch(self.path, ids, paths, payloads, places, False, Position(rows.stop), tuple(bad), items="images")

    def _item(self, row: int) -> tuple[str, dict[str, Any]] | Bad:
        """Id and payload of an image."""
        name = self._files[row]
        identifier = self._naming.of(row) if self._naming else name
        payload = {"file": name, "folder": name.rpartition("/")[0]}
        try:
            if len(identifier.encode()) > _ID_BYTES:
                raise ValueError(f"its path has more than {_ID_BYTES} bytes, too many for an id: say --id-format '{{row}}'")
            if self._thumbnails:
                payload["thumbnail"] = _thumbnail(self.path / name)
        except ValueError as error:
            # Such are the library's refusals, and paths that are no text.
            return Bad(BadRow(self.path, f"{name!r}: {error}", row=row), Position(row + 1))
        return identifier, payload


def _thumbnail(path: Path) -> str:
    """A small JPEG of an image, as an address that browsers show. Raises InvalidInput."""
    pixels = kinbin.image_pixels(path)  # Says what to install, where Pillow is missing.
    from PIL import Image

    small = Image.fromarray(pixels)
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    out = BytesIO()
    small.save(out, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
