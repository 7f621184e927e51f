"""Patches of scikit-learn's two photographs, for the demo: colour histograms with thumbnails, which a person judges at a glance."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kinbin

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NAME", "Patches", "cut", "fill"]

NAME = "photographs"
SIDE = 32
STRIDE = 10
"""Neighbouring patches share two thirds of their pixels, and there are enough of them to be sealed into a run and linked."""
LEVELS = 8
"""Of red, green and blue each: 512 colours."""


@dataclass(frozen=True, slots=True)
class Patches:
    """n patches in a fixed random order: ids such as patch-0017, pixels (n, 32, 32, 3), and payloads that say where each was cut."""

    ids: list[str]
    pixels: NDArray[Any]
    payloads: list[dict[str, Any] | None]

    @property
    def histograms(self) -> NDArray[Any]:
        """(n, 512) float32 counts of pixels by colour: the bin (8 · red + green) · 8 + blue, levels from 0 to 7; rows sum to 1,024."""
        import numpy as np

        levels = (self.pixels // (256 // LEVELS)).astype(np.int64)
        colours = (levels @ np.array([LEVELS * LEVELS, LEVELS, 1])).reshape(len(self.ids), -1)
        colours += np.arange(len(self.ids))[:, None] * LEVELS**3
        return np.bincount(colours.ravel(), minlength=len(self.ids) * LEVELS**3).reshape(len(self.ids), -1).astype(np.float32)


def cut(stride: int = STRIDE) -> Patches:
    """All 4,880 patches, or those of another stride. Cost: 0.2 ms a patch, most of it for thumbnails of some 300 bytes."""
    import numpy as np
    from sklearn.datasets import load_sample_images

    images = dict(zip(("china", "flower"), load_sample_images().images, strict=True))
    places = [
        (name, x, y)
        for name, image in images.items()
        for y in range(0, image.shape[0] - SIDE + 1, stride)
        for x in range(0, image.shape[1] - SIDE + 1, stride)
    ]
    # In the order of ids, which pages follow, neighbours would stand side by side, and the first hundred be sky.
    places = [places[position] for position in np.random.default_rng(0).permutation(len(places))]
    pixels = np.stack([images[name][y : y + SIDE, x : x + SIDE] for name, x, y in places])
    payloads: list[dict[str, Any] | None] = [
        {"photograph": name, "x": x, "y": y, "brightness": round(float(patch.mean()) / 255, 3), "image": _thumbnail(patch)}
        for (name, x, y), patch in zip(places, pixels, strict=True)
    ]
    return Patches([f"patch-{number:04d}" for number in range(len(places))], pixels, payloads)


def _thumbnail(patch: NDArray[Any]) -> str:
    """A patch as an address that holds the picture itself."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(patch).save(file, "WEBP", quality=60, method=0)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()


def fill(database: kinbin.Database) -> int:
    """Put the patches into the collection `photographs` if it is not there, or empty; how many were added, all or none."""
    if NAME in database.collections() and database.collection(NAME).count():
        return 0
    patches = cut()
    collection = database.create_collection(NAME, kernel="ngmm", dim=LEVELS**3, exist_ok=True)
    added = collection.add(patches.ids, patches.histograms, payloads=patches.payloads, atomic=True).indexed
    # Sealed at once: there are bands and buckets to be seen, and links begin to be made.
    collection.compact()
    return added
