"""Looks at every page of the dashboard with 50,000 items: `python benchmarks/dashboard.py --folder /tmp/looked`.

Keyless and keyed, wide and light, narrow and dark. Prints how long each page takes until it is there, and how long until its button
(Measure, Find) was answered; what the console and axe-core said; and how long queries take from the page. Leaves a picture of every page
in the folder. Ends with 1 if a page is not sound, the first page takes a second, or a query 100 ms.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kinbin
from kinbin_service import photographs

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import PHONE, WIDE, Looked, browsing  # noqa: E402 - a folder of the tests
from service_process import ServerProcess  # noqa: E402

ITEMS = 50_000
STRIDE = 3
NAME = photographs.NAME
KEY = "of-this-measurement"
WORDS = ("query", "scores", "recall", "buckets", "map", "duplicates", "items", "snapshots", "console")
PRESSED = {
    "scores": ("Measure", "What bands would do"), "recall": ("Measure", "Measured by mode"), "duplicates": ("Find", None),
}  # fmt: skip
"""Pages that wait for a button: its name, and the caption of the table that the answer has; None: it has pairs or clusters."""
PLACES = ("", "console", *(f"c/{NAME}/{word}" for word in WORDS))
QUERIES = 50
FIRST_PAGE_SECONDS, QUERY_MS = 1.0, 100.0


def fill(data: Path, items: int) -> None:
    """So many patches with thumbnails, in bands and links."""
    if data.exists():
        return
    patches = photographs.cut(STRIDE)
    with kinbin.open(data) as database:
        collection = database.create_collection(NAME, dim=512)
        histograms = patches.histograms
        for start in range(0, items, 10_000):
            part = slice(start, min(start + 10_000, items))
            collection.add(patches.ids[part], histograms[part], payloads=patches.payloads[part])
        collection.compact()
        collection.link()


def press(looked: Looked, word: str) -> float | None:
    """Seconds from the click until the finished answer is there, or a refusal; None: the page has no such button."""
    if word not in PRESSED:
        return None
    button, caption = PRESSED[word]
    page = looked.page
    # The legend of a chart is a table, too, and is there before any answer.
    done = page.get_by_role("table", name=caption) if caption else page.locator("main .page b", has_text="clusters.")
    began = time.perf_counter()
    page.get_by_role("button", name=button, exact=True).click()
    done.or_(page.locator(".trouble")).first.wait_for()
    return time.perf_counter() - began


def looked_at(looked: Looked, folder: Path, label: str) -> Iterator[str]:
    """Open every page, say how long each took, and yield what is wrong with it."""
    for place in PLACES:
        began = time.perf_counter()
        if place == PLACES[0] and label.startswith("keyed"):
            looked.page.goto(f"{looked.address}/dashboard")
            looked.page.get_by_label("Key", exact=True).wait_for()
            asked = time.perf_counter() - began
            looked.give_key(KEY)
            looked.wrong.clear()  # the browser itself notes the 401
            began = time.perf_counter() - asked  # without the time that typing takes
        page = looked.open(place)
        seconds = time.perf_counter() - began
        answered = press(looked, place.rpartition("/")[2])
        page.wait_for_timeout(300)
        page.screenshot(path=folder / f"{label} {place.replace('/', '-') or 'first'}.png", full_page=True)
        wrong = [*looked.wrong, *looked.findings(), *(["wider than its window"] if looked.sideways() > 0 else [])]
        wrong += page.locator(".trouble").all_inner_texts()
        looked.wrong.clear()
        pressed = "" if answered is None else f"answered in {answered:.2f} s; "
        print(f"{label:<16} {place or '(first page)':<28} {seconds:6.2f} s  {pressed}{'; '.join(wrong) or 'sound'}", flush=True)
        yield from (f"{label}, {place}: {one}" for one in wrong)
        if place == PLACES[0] and seconds >= FIRST_PAGE_SECONDS:
            yield f"{label}: the first page took {seconds:.2f} s"


def timed_queries(looked: Looked, ids: list[str]) -> list[float]:
    """Milliseconds of queries by id, each from the click of the page's form until its answer is there."""
    page = looked.open(f"c/{NAME}/query")
    taken = []
    for identifier in ids:
        page.get_by_label("Id").fill(identifier)
        page.get_by_role("button", name="Search").click()
        page.locator(".asked b", has_text=identifier).wait_for()
        taken.append(float(page.locator(".took").get_attribute("data-milliseconds") or "inf"))
    return taken


def main() -> int:
    """Look at all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("looked"), help="for the database and the pictures")
    parser.add_argument("--items", type=int, default=ITEMS, help="of the database, where the folder has none yet")
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    fill(folder / "data", given.items)
    with kinbin.open(folder / "data") as database:
        stored = database.collection(NAME).count()
    ids = [f"patch-{number:04d}" for number in np.random.default_rng(0).choice(stored, QUERIES, replace=False)]
    wrong: list[str] = []
    with browsing() as browser:
        for keyed in (False, True):
            (folder / "data.log").unlink(missing_ok=True)  # where a server is seen to become ready
            with ServerProcess(folder / "data", **({"api_key": KEY} if keyed else {})) as server:
                for name, how in (("wide light", WIDE), ("phone dark", PHONE)):
                    looked = Looked(browser, f"http://127.0.0.1:{server.port}", **how)
                    looked.context.set_default_timeout(60_000)
                    wrong += looked_at(looked, folder, f"{'keyed' if keyed else 'open'} {name}")
                    taken = sorted(timed_queries(looked, ids))
                    print(f"queries from the page: median {statistics.median(taken):.1f} ms, longest {taken[-1]:.1f} ms")
                    if taken[-1] >= QUERY_MS:
                        wrong.append(f"a query took {taken[-1]:.0f} ms")
                    looked.context.close()
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
