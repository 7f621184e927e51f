"""`kinbin import DIR`: folders of images, with thumbnails, bad files left out, and resumption."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import Result

import kinbin
from bundled import pictures
from kinbin_service.importing import state as states

Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Items = Callable[..., dict[str, kinbin.Item]]
Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve images in two folders and one beside them, one of them hidden, and a file that is none."""
    made = tmp_path / "pictures"
    for i, pixels in enumerate(pictures()[:12]):
        place = made / ("bears" if i % 2 else "ships/small")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{i:02d}.{'png' if i < 9 else 'webp'}", lossless=True)
    Image.fromarray(pictures()[12]).save(made / "TOP.JPEG")
    (made / "readme.txt").write_text("no image")
    Image.fromarray(pictures()[13]).save(made / ".hidden.png")
    return made


def test_folders_become_items(imported: Imported, items: Items, folder: Path, data: Path) -> None:
    """Each image below the folder is an item by its path, with file and folder in the payload, in a collection of images."""
    told = imported(folder, "--parameter", "levels=2", "--parameter", "base=chi2", "--parameter", "epsilon=0.25")
    assert (told["rows"], told["indexed"], told["kernel"], told["finished"]) == (13, 13, "nested", True)
    assert told["parameters"] == {"levels": 2, "base": "chi2", "lambda": 1.0, "epsilon": 0.25}
    found = items()
    assert set(found) == {f"{'bears' if i % 2 else 'ships/small'}/{i:02d}.{'png' if i < 9 else 'webp'}" for i in range(12)} | {"TOP.JPEG"}
    assert found["bears/03.png"].payload == {"file": "bears/03.png", "folder": "bears"}
    assert found["TOP.JPEG"].payload == {"file": "TOP.JPEG", "folder": ""}
    with kinbin.open(data) as database:
        collection = database.collection("c")
        assert collection.config.items == "images"
        assert collection.query(pictures()[3], k=1).ids == ["bears/03.png"]
        assert collection.query(folder / "ships/small/04.png", k=1).scores[0] == 1.0
    again = imported(folder)
    assert (again["indexed"], again["unchanged"]) == (0, 13)


def test_thumbnails_are_kept_on_request(imported: Imported, items: Items, tmp_path: Path) -> None:
    """With --thumbnails the payload has a small JPEG of the image, no larger than 96 pixels, as an address."""
    (tmp_path / "large").mkdir()
    pixels = np.kron(pictures()[0], np.ones((10, 5, 1), np.uint8))
    Image.fromarray(pixels).save(tmp_path / "large" / "a.png")
    imported(tmp_path / "large", "--thumbnails")
    payload = items()["a.png"].payload
    assert payload is not None
    kind, _, data = payload["thumbnail"].partition(",")
    assert kind == "data:image/jpeg;base64"
    shown = Image.open(io.BytesIO(base64.b64decode(data)))
    assert shown.size == (48, 96)
    assert abs(np.asarray(shown).mean() - pixels.mean()) < 5


def test_bad_images_are_told_by_name_or_left_out(imported: Imported, refused: Refused, items: Items, folder: Path) -> None:
    """A damaged image ends the import, named by its row and reason; --skip-bad imports all others, with thumbnails or without."""
    (folder / "bears" / "05.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    told = refused(folder)
    assert "row 3: 'bears/05.png': the file" in told
    assert "is no PNG, JPEG or WebP image" in told
    assert "row 3: 'bears/05.png': " in refused(folder, "--thumbnails")
    for more in ((), ("--thumbnails",)):
        summary = imported(folder, "--skip-bad", "--no-resume", *more)
        assert summary["rows_bad"] == 1
        assert len(items()) == 12


def test_an_interrupted_import_goes_on(
    imported: Imported, items: Items, folder: Path, run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """After a kill between two batches the same command goes on with the next image; a changed folder starts over."""
    save, noted = states.save, 0

    class Died(BaseException):
        pass

    def save_or_die(path: Path, state: states.ImportState) -> None:
        nonlocal noted
        noted += 1
        if noted == 4:
            raise Died
        save(path, state)

    monkeypatch.setattr(states, "save", save_or_die)
    with pytest.raises(Died):
        run("import", folder, "--data", data, "--collection", "c", "--batch", 4)
    monkeypatch.setattr(states, "save", save)
    assert len(items()) == 12
    told = imported(folder, "--batch", 4)
    assert (told["rows_skipped"], told["rows"], told["finished"]) == (8, 5, True)
    assert len(items()) == 13

    noted = 0
    monkeypatch.setattr(states, "save", save_or_die)
    with pytest.raises(Died):
        run("import", folder, "--data", data, "--collection", "c", "--batch", 4)
    monkeypatch.setattr(states, "save", save)
    Image.fromarray(pictures()[14]).save(folder / "AAA.png")
    told = imported(folder, "--batch", 4)
    assert (told["rows_skipped"], told["rows"]) == (0, 14)


def test_what_is_refused(refused: Refused, run: Run, folder: Path, tmp_path: Path, data: Path) -> None:
    """No images, two folders, options of other formats, a collection of vectors: each is one line that says what to do."""
    (tmp_path / "empty").mkdir()
    assert "has no images: files that end in .png, .jpg, .jpeg, .webp" in refused(tmp_path / "empty")
    assert "import folders one by one" in refused(folder, tmp_path / "empty")
    assert "is a folder: name the files in it" in refused(folder, "--format", "csv")
    assert "is no folder" in refused(folder / "TOP.JPEG", "--format", "images")
    assert "--array means nothing for images" in refused(folder, "--array", "x")
    assert "--thumbnails means nothing for a csv file" in refused(folder / "readme.txt", "--format", "csv", "--thumbnails")
    assert "dim of images follows from the kernel" in refused(folder, "--parameter", "levels=2", "--dim", "512")
    with kinbin.open(data) as database:
        assert database.collections() == []
        database.create_collection("c", dim=2)
    assert 'collection "c" is there and holds vectors, not images' in refused(folder)
