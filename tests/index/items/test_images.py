"""Images as items: every form gives the same counts, what is no image is refused, and answers are those of the kernel."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import kinbin
import naive
from background import no_background
from bundled import grids, pictures

PARAMETERS = {"levels": 3, "base": "tv", "lambda": 1.0, "epsilon": 0.5}
Pixels = NDArray[np.uint8]


def encoded(pixels: Pixels, form: str = "PNG", **options: Any) -> bytes:
    """A file of an image."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **options)
    return out.getvalue()


def counts(pixels: Pixels, side: int) -> NDArray[np.float32]:
    """(side · side · 512,) by the definition: cell i begins with pixel ⌊i n / side⌋."""
    out = np.zeros((side, side, 512), np.float32)
    rows, columns = ([n * i // side for i in range(side + 1)] for n in pixels.shape[:2])
    for y in range(side):
        for x in range(side):
            cell = pixels[rows[y] : rows[y + 1], columns[x] : columns[x + 1]].astype(int) // 32
            for r, g, b in cell.reshape(-1, 3).tolist():
                out[y, x, r * 64 + g * 8 + b] += 1
    return out.reshape(-1)


def vector(collection: kinbin.Collection, identifier: str = "a") -> Any:
    """What is kept of an item."""
    (item,) = collection.get([identifier])
    assert item is not None
    assert item.object is None
    return item.vector


@pytest.mark.parametrize(("height", "width"), [(32, 32), (7, 50), (33, 29), (3, 2), (1, 1)])
def test_cells_have_whole_pixels(height: int, width: int, db: kinbin.Database, rng: np.random.Generator) -> None:
    """The counts of any size are those of the definition, whether the grid divides it or has empty cells; each pixel counts once."""
    pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
    collection = db.create_collection("c", items="images", parameters=PARAMETERS)
    assert (collection.config.kernel, collection.config.items, collection.config.dim) == ("nested", "images", 8192)
    collection.add(["a"], [pixels])
    np.testing.assert_array_equal(vector(collection), counts(pixels, 4))
    assert vector(collection).sum() == height * width


def test_every_form_is_the_same_image(db: kinbin.Database, tmp_path: Path) -> None:
    """A path, a Path, bytes of PNG, JPEG and WebP, Pillow's images and arrays are taken; the same pixels are stored once."""
    pixels = pictures()[0]
    png, jpeg, webp = encoded(pixels), encoded(pixels, "JPEG", quality=95), encoded(pixels, "WEBP", lossless=True)
    (tmp_path / "one.png").write_bytes(png)
    forms = [pixels, png, bytearray(png), memoryview(png), webp, Image.fromarray(pixels), str(tmp_path / "one.png"), tmp_path / "one.png"]
    collection = db.create_collection("c", items="images", parameters=PARAMETERS)
    added = collection.add([str(i) for i in range(len(forms) + 1)], [*forms, jpeg])
    assert added.indexed == len(forms) + 1
    for i in range(len(forms)):
        np.testing.assert_array_equal(vector(collection, str(i)), counts(pixels, 4))
    for form in [*forms, pixels[:, ::-1][:, ::-1]]:
        answer = collection.query(form, k=len(forms) + 1)
        assert answer.scores[:-1].tolist() == [1.0] * len(forms)
        assert answer.ids[-1] == str(len(forms))
    decoded = np.asarray(Image.open(io.BytesIO(jpeg)))
    np.testing.assert_array_equal(vector(collection, str(len(forms))), counts(decoded, 4))
    assert collection.add(["array", "again"], np.stack([pixels, pixels])).indexed == 2


def test_modes_become_colours(db: kinbin.Database) -> None:
    """Palettes, greys of 8 and 16 bits, CMYK, transparency (over white) and a camera's turn are what a viewer shows."""
    pixels = pictures()[1]
    grey = pixels[:, :, 0]
    turned = Image.fromarray(pixels)
    exif = turned.getexif()
    exif[0x0112] = 6  # a quarter turn to the right
    half = np.dstack([pixels, np.where(np.arange(32)[:, None] < 16, 255, 0) * np.ones((1, 32), int)]).astype(np.uint8)
    palette = Image.fromarray(pixels).convert("P", palette=Image.Palette.ADAPTIVE)
    cases: list[tuple[bytes, Pixels]] = [
        (encoded(grey), np.repeat(grey[:, :, None], 3, axis=2)),
        (encoded(grey.astype(np.uint16) * 257), np.repeat(grey[:, :, None], 3, axis=2)),
        (encoded(half), np.where(np.arange(32)[:, None, None] < 16, pixels, 255).astype(np.uint8)),
        (encoded(pixels, exif=exif), np.rot90(pixels, -1)),
    ]
    out = io.BytesIO()
    palette.save(out, "PNG")
    cases.append((out.getvalue(), np.asarray(palette.convert("RGB"))))
    cmyk = Image.fromarray(pixels).convert("CMYK")
    out = io.BytesIO()
    cmyk.save(out, "JPEG", quality=95)
    cases.append((out.getvalue(), np.asarray(Image.open(io.BytesIO(out.getvalue())).convert("RGB"))))
    collection = db.create_collection("c", items="images", parameters={"levels": 2})
    collection.add([str(i) for i in range(len(cases))], [data for data, _ in cases])
    for i, (_, shown) in enumerate(cases):
        np.testing.assert_array_equal(vector(collection, str(i)), counts(shown, 2), err_msg=str(i))


def claimed(width: int, height: int) -> bytes:
    """A PNG whose header claims so many pixels, and which has nearly none: to decode it fails otherwise than to refuse it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")


def text_bomb() -> bytes:
    """A PNG with compressed text that unfolds to 100 MB."""
    data = encoded(np.zeros((4, 4, 3), np.uint8))
    body = b"zTXt" + b"a\0\0" + zlib.compress(b"\0" * 100_000_000, 9)
    return data[:33] + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body)) + data[33:]


BAD: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a number": (lambda: 3, "bad_object", "an image is a path, bytes of a PNG.* this is int"),
    "a list": (lambda: [[[1, 2, 3]]], "bad_object", "this is list"),
    "floats": (lambda: np.zeros((4, 4, 3)), "bad_object", r"shape \(4, 4, 3\) and dtype float64"),
    "a grey array": (lambda: np.zeros((4, 4), np.uint8), "bad_object", r"shape \(4, 4\)"),
    "four colours": (lambda: np.zeros((4, 4, 4), np.uint8), "bad_object", r"shape \(4, 4, 4\)"),
    "no pixels": (lambda: np.zeros((0, 4, 3), np.uint8), "bad_object", "at least one pixel"),
    "a masked array": (lambda: np.ma.zeros((4, 4, 3), np.uint8), "bad_object", "masked"),
    "a path to nothing": (lambda: "/nowhere/at/all.png", "bad_object", "cannot be read"),
    "a folder": (lambda: "/", "bad_object", "the image '/' cannot be read: Is a directory"),
    "no path": (lambda: "", "bad_object", "this path is empty"),
    "a file of text": (lambda: __file__, "bad_object", "the file '.*' is no PNG, JPEG or WebP image"),
    "a path with a zero": (lambda: "a\0b", "bad_object", "cannot be read"),
    "no bytes": (lambda: b"", "bad_object", "no PNG, JPEG or WebP"),
    "text": (lambda: b"<svg/>", "bad_object", "no PNG, JPEG or WebP image, or a damaged one: cannot identify"),
    "another format": (lambda: encoded(np.zeros((4, 4, 3), np.uint8), "BMP"), "bad_object", "no PNG, JPEG or WebP"),
    "half a file": (lambda: encoded(pictures()[0])[:600], "bad_object", "decoded|damaged"),
    "half a JPEG": (lambda: encoded(pictures()[0], "JPEG")[:600], "bad_object", "decoded|damaged"),
    "a bomb": (lambda: claimed(8_000, 8_000), "over_limit", r"at most 50,000,000 pixels, this one has 8000 × 8000"),
    "a larger bomb": (lambda: claimed(12_000, 12_000), "over_limit", "at most 50,000,000 pixels"),
    "the largest bomb": (lambda: claimed(2**30, 2**30), "over_limit", "at most 50,000,000 pixels"),
    "a bomb of text": (text_bomb, "bad_object", "no PNG, JPEG or WebP image, or a damaged one"),
    "a huge file": (lambda: bytes(33_554_433), "over_limit", "at most 33,554,432 bytes, this one has 33,554,433"),
    "an endless file": (lambda: "/dev/zero", "over_limit", "at most 33,554,432 bytes"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_image_is_refused(case: str, db: kinbin.Database) -> None:
    """Each kind of bad object is refused by its position, before it is decoded where it is too large; nothing of the batch is written."""
    make, code, text = BAD[case]
    collection = db.create_collection("c", items="images")
    good = pictures()[0]
    with pytest.raises(kinbin.InvalidInput, match=text) as refused:
        collection.add(["a", "b"], [good, make()])
    problem = refused.value.problems[0]
    assert (problem.code, problem.position, problem.field) == (code, 1, "image")
    assert collection.count() == 0
    with pytest.raises(kinbin.InvalidInput, match=text) as refused:
        collection.query(make())
    assert refused.value.problems[0].position is None


@pytest.mark.parametrize("batch", ["one.png", b"\x89PNG", {"a": 1}])
def test_one_image_is_no_batch(batch: Any, db: kinbin.Database) -> None:
    """A single image where a batch is expected is refused, not taken for many."""
    with pytest.raises(kinbin.InvalidInput, match="put a single image into a list"):
        db.create_collection("c", items="images").add(["a"], batch)


def test_images_are_searched_like_vectors(tmp_path: Path) -> None:
    """Scores are the twin's with filters, after deletes and reopening; ids are queries too, and a query may bring its vectors along."""
    images = pictures()[:150]
    X = grids(images, 4)
    true = naive.nested_scores(X[0], X, 3)
    with no_background():
        with kinbin.open(tmp_path / "db") as database:
            collection = database.create_collection("c", items="images", kernel="nested", parameters=PARAMETERS)
            collection.add([str(i) for i in range(150)], list(images), [{"even": i % 2 == 0} for i in range(150)])
            collection.compact()
            collection.delete(["0"])
        with kinbin.open(tmp_path / "db") as database:
            collection = database.collection("c")
            answer = collection.query(images[0], k=5, filter={"even": True}, include=("vector", "payload"))
            wanted = sorted(range(2, 150, 2), key=lambda i: -true[i])[:5]
            np.testing.assert_allclose(answer.scores, true[wanted], atol=naive.SCORE_ERROR)
            assert answer.items is not None
            for item in answer.items:
                np.testing.assert_array_equal(item.vector, X[int(item.id)].reshape(-1))
            assert collection.query_id("7", k=1, include_self=True).ids == ["7"]
            batch = collection.query_batch(list(images[:3]), k=2)
            assert [one.ids[0] for one in batch][1:] == ["1", "2"]
            assert collection.check().ok


@pytest.mark.parametrize("kernel", ["chi2", "ngmm", "hellinger", "tv"])
def test_plain_histograms(kernel: str, db: kinbin.Database) -> None:
    """Images without a grid are searched by any kernel of histograms."""
    images = pictures()[:60]
    X = grids(images, 1).reshape(60, -1)
    collection = db.create_collection("c", items="images", kernel=kernel)
    collection.add([str(i) for i in range(60)], list(images))
    answer = collection.query(images[3], k=60)
    true = naive.dense_scores(kernel, X[3], X)[[int(i) for i in answer.ids]]
    np.testing.assert_allclose(answer.scores, true, atol=naive.SCORE_ERROR)


def test_what_images_cannot_be_created_with(db: kinbin.Database) -> None:
    """A dimension, a distance and a kernel of signed vectors or strings are refused, and nothing is created."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"dim": 512}, "dim of images follows from the kernel"),
        ({"kernel": "levenshtein"}, "kernel is one of nested, chi2"),
        ({"distance": "nested"}, "prints scores, no distances"),
        ({"kernel": "chi2", "parameters": {"levels": 3}}, "no parameter 'levels'"),
    ]
    for given, text in cases:
        with pytest.raises(kinbin.InvalidInput, match=text):
            db.create_collection("c", items="images", **given)
    assert db.collections() == []
