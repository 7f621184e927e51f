"""Link sets that were damaged: scores and scans stay right, nothing dies, check() tells, and the next link() heals."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import kinbin
import naive
from kinbin.codes.coder import Coder, packed_unit_coder
from kinbin.rows.rows import Rows
from kinbin.storage.format import CODE_PADDING, Part
from kinbin.storage.lookups import RUNS
from kinbin.storage.store import Store
from kinbin.storage.transactions import Writer
from linked import KINDS, code_layout, damage_links, flip, link_sets, names, orphans, rewrite, still, true_scores
from nursery import Nursery
from stored_headers import header_json, put_header_json

pytestmark = [pytest.mark.durability, pytest.mark.slow]

ROWS, ASKED = 300, 24
SETS = {
    "bytes": ("ngmm", "dense"), "norms": ("gmm", "dense"), "packed": ("ngmm", "sparse"), "units": ("cosine", "few words"),
    "packed units": ("js", "sparse"),
}  # fmt: skip
"""Kernels and kinds of rows: one that normalises, one whose link sets keep their norms, rows whose codes are packed, or projections, or
packed unit rows."""
PARTS = {
    "header": (Part.HEADER, range(5, 9)),
    "row numbers": (Part.ROW_NUMBERS, range(0, 8 * ROWS, 801)),
    "entries": (Part.ENTRIES, range(0, 200, 3)),
    "buckets": (Part.BUCKETS, range(0, 90, 9)),
    "errors": (Part.ERRORS, range(3, 4 * ROWS, 4)),
    "codes": (Part.CODES, range(CODE_PADDING, CODE_PADDING + 64 * ROWS, 11)),
    "links": (Part.LINKS, range(3, 40_000, 401)),
    "places of links": (Part.LINK_OFFSETS, range(0, 4 * ROWS, 97)),
    "norms": (Part.NORMS, range(3, 4 * ROWS, 4)),
    "places of codes": (Part.CODE_OFFSETS, range(0, 4 * ROWS, 97)),
    "directions": (Part.DIRECTIONS, range(2, 50_000, 40)),
    "features": (Part.FEATURES, range(0, 1_600, 9)),
}
ONLY = {
    "norms": ["norms"], "places of codes": ["packed", "packed units"], "buckets": ["bytes", "norms"], "directions": ["units"],
    "features": ["units"],
}  # fmt: skip
"""Parts that not every set has."""
CLOSE = KINDS | {"sparse": replace(KINDS["sparse"], clusters=30)}
"""Kinds of rows of which ten are near each other."""
CASES = [(name, part) for name in SETS for part in PARTS if name in ONLY.get(part, SETS)]
Vectors = dict[str, tuple[Any, Any]]
Damage = Callable[[str, Callable[[Writer, int], None]], Path]


@pytest.fixture(autouse=True)
def _still() -> Iterator[None]:
    with still():
        yield


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    """By kind: stored rows, and queries: some of them, and others."""
    out = {}
    for kind in ("dense", "sparse", "few words"):
        X, other = CLOSE[kind].rows(ROWS, seed=8), CLOSE[kind].rows(ASKED // 2, seed=9)
        stack = np.concatenate if kind == "dense" else sp.vstack
        out[kind] = X, stack([X[: ASKED // 2], other])
    return out


def _packed(rows: Rows, dim: int | None, near: tuple[Rows, int], nodes: int, *, roots: bool, seed: int) -> Coder:
    return packed_unit_coder(*near, roots=roots)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, vectors: Vectors) -> dict[str, Path]:
    """A closed database with one linked collection "c" for each set."""
    out = {}
    with still():
        for name, (kernel, kind) in SETS.items():
            out[name] = tmp_path_factory.mktemp("sound") / "data"
            with kinbin.open(out[name]) as database:
                collection = database.create_collection("c", kernel=kernel, dim=KINDS[kind].dim, seed=5)
                collection.add(names(range(ROWS)), vectors[kind][0])
                with pytest.MonkeyPatch.context() as patch:
                    if name == "packed units":
                        # Of themselves so few words would be projected.
                        patch.setattr("kinbin.upkeep.drafts.choose_unit_coder", _packed)
                    collection.link()
                layout = "packed" if name == "packed units" else code_layout(kernel, kind)
                assert collection.stats()["links"]["code_layout"] == layout
    return out


@pytest.fixture
def damaged(sound: dict[str, Path], tmp_path: Path) -> Damage:
    """A copy of the database of a set whose links were edited."""

    def damage(name: str, edit: Callable[[Writer, int], None]) -> Path:
        shutil.copytree(sound[name], tmp_path / "data")
        store = Store(tmp_path / "data" / "collections" / "c")
        damage_links(store, edit)
        store.close()
        return tmp_path / "data"

    return damage


_TRUTH: dict[str, NDArray[np.float64]] = {}


def truth(name: str, vectors: Vectors) -> NDArray[np.float64]:
    """(m, n) the slow twin's scores of the queries of a set, made when they are first asked for."""
    if name not in _TRUTH:
        kernel, kind = SETS[name]
        _TRUTH[name] = true_scores(kernel, *vectors[kind])
    return _TRUTH[name]


def recalls(name: str, vectors: Vectors, answers: kinbin.AnswerBatch) -> NDArray[np.float64]:
    """Recall of each answer to the queries of a set, whose scores must be right."""
    out = []
    for answer, row in zip(answers, truth(name, vectors), strict=True):
        assert np.abs(answer.scores - row[[int(one) for one in answer.ids]]).max(initial=0.0) <= naive.SCORE_ERROR
        assert len(set(answer.ids)) == len(answer.ids)
        out.append(naive.recall(answer.scores, row, 10))
    return np.array(out)


def asked(vectors: Vectors, name: str) -> Any:
    """The queries of a set."""
    return vectors[SETS[name][1]][1]


def new(name: str) -> Any:
    """One row more for a set."""
    return CLOSE[SETS[name][1]].rows(1, seed=77)


@pytest.mark.parametrize(("name", "part"), CASES)
def test_what_is_damaged_is_not_relied_on(damaged: Damage, vectors: Vectors, name: str, part: str) -> None:
    """Whatever bytes of a link set are inverted: scores are right, scans complete, and bounds, where there are any, true."""
    with kinbin.open(damaged(name, flip(*PARTS[part]))) as database:
        collection = database.collection("c")
        assert (recalls(name, vectors, collection.query_batch(asked(vectors, name), mode="exact")) == 1.0).all()
        auto = collection.query_batch(asked(vectors, name), mode="auto", certify=True)
        found = recalls(name, vectors, auto)
        assert found[[mode == "exact" for mode in auto.modes]].min(initial=1.0) == 1.0
        assert found.mean() >= 0.9
        assert (auto.recall_lower_bounds >= 0.9).all()
        recalls(name, vectors, collection.query_batch(asked(vectors, name), mode="links"))


@pytest.mark.parametrize(("name", "part"), [case for case in CASES if case[1] not in ("codes", "norms", "places of codes")])
def test_walks_fall_back(damaged: Damage, vectors: Vectors, name: str, part: str) -> None:
    """Mode links finds as much as it should though the links are broken: by bands, where a walk cannot be had; by a scan without."""
    with kinbin.open(damaged(name, flip(*PARTS[part]))) as database:
        answers = database.collection("c").query_batch(asked(vectors, name), mode="links")
        assert recalls(name, vectors, answers).mean() >= 0.9
        assert answers.mode == ("bands" if kinbin.KERNELS[SETS[name][0]].hashes else "exact")


@pytest.mark.parametrize(("name", "part"), CASES)
def test_check_tells_of_damaged_links(damaged: Damage, name: str, part: str) -> None:
    """check() finds damage in any part of a link set, and says in a sentence what it is."""
    with kinbin.open(damaged(name, flip(*PARTS[part]))) as database:
        report = database.collection("c").check()
        assert not report.ok
        assert any("link" in problem for problem in report.problems), report.problems


@pytest.mark.parametrize(("name", "part"), CASES)
def test_linking_heals(damaged: Damage, vectors: Vectors, name: str, part: str) -> None:
    """After link() a damaged link set is replaced by a sound one: walks find what they should, and check() is content."""
    with kinbin.open(damaged(name, flip(*PARTS[part]))) as database:
        collection = database.collection("c")
        before = link_sets(collection)
        collection.link()
        assert link_sets(collection) != before
        assert not orphans(collection)
        answers = collection.query_batch(asked(vectors, name), mode="links")
        assert answers.mode == "links"
        assert recalls(name, vectors, answers).mean() >= 0.95
        assert collection.check().ok


@pytest.mark.parametrize(("name", "part"), [case for case in CASES if case[0] != "norms"])
def test_linking_more_heals(damaged: Damage, vectors: Vectors, name: str, part: str) -> None:
    """The same where rows came since: what is there already is not taken over without a look."""
    with kinbin.open(damaged(name, flip(*PARTS[part]))) as database:
        collection = database.collection("c")
        collection.add(["new"], new(name))
        collection.link()
        answers = collection.query_batch(vectors[SETS[name][1]][0], k=1, mode="links")
        assert np.mean([answer.ids[0] == str(i) for i, answer in enumerate(answers)]) > 0.98
        assert collection.query_batch(new(name), k=1, mode="links")[0].ids == ["new"]
        assert collection.check().ok


def set_all(value: float, step: int = 1) -> Callable[[NDArray[Any]], None]:
    """A change of every `step`-th number."""

    def change(array: NDArray[Any]) -> None:
        array[::step] = value

    return change


def shift(by: int) -> Callable[[NDArray[Any]], None]:
    """A change of all numbers."""

    def change(array: NDArray[Any]) -> None:
        array[:] = array + np.array(by).astype(array.dtype)

    return change


def recalibrated(header: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The header with another entry in its calibration."""
    return {**header, "calibration": {**header["calibration"], name: value}}


def widened(header: dict[str, Any]) -> dict[str, Any]:
    """A header of codes wider than they are."""
    return {**header, "coder": {**header["coder"], "width": 1024}}


def last_word(writer: Writer, number: int) -> int:
    """The place of the last word of the links."""
    return len(writer.run_part(number, Part.LINKS)) // 4 - 1


OUT_OF_BOUNDS: dict[str, Callable[[Writer, int], None]] = {
    "links to nodes far away": rewrite(Part.LINKS, "<u4", set_all(2**31, 5)),
    "links that are all of a list's length": rewrite(Part.LINKS, "<u4", set_all(250)),
    "lists without end": rewrite(Part.LINKS, "<u4", set_all(2**32 - 1)),
    "lists cut off": lambda w, n: w.put_run_part(n, Part.LINKS, 0, bytes(w.run_part(n, Part.LINKS))[:5_000]),
    "places beyond the block": rewrite(Part.LINK_OFFSETS, "<u4", set_all(2**32 - 1)),
    "places far beyond the block": rewrite(Part.LINK_OFFSETS, "<u4", shift(2**30)),
    "places at the end of the block": lambda w, n: rewrite(Part.LINK_OFFSETS, "<u4", set_all(last_word(w, n)))(w, n),
    "places that are one off": rewrite(Part.LINK_OFFSETS, "<u4", shift(1)),
    "places that are too few": lambda w, n: w.put_run_part(n, Part.LINK_OFFSETS, 0, bytes(w.run_part(n, Part.LINK_OFFSETS))[:-4]),
    "entries that are not there": rewrite(Part.ENTRIES, "<u4", set_all(ROWS)),
    "no entries": lambda w, n: w.put_run_part(n, Part.ENTRIES, 0, b""),
    "buckets beyond the code": rewrite(Part.BUCKETS, "<u2", set_all(60_000)),
    "buckets that are too few": lambda w, n: w.put_run_part(n, Part.BUCKETS, 0, bytes(w.run_part(n, Part.BUCKETS))[:2]),
    "rows that are not there": rewrite(Part.ROW_NUMBERS, "<u8", shift(10**6)),
    "rows in another order": rewrite(Part.ROW_NUMBERS, "<u8", lambda array: array.__setitem__(slice(None), array[::-1].copy())),
    "rows that are too few": lambda w, n: w.put_run_part(n, Part.ROW_NUMBERS, 0, bytes(w.run_part(n, Part.ROW_NUMBERS))[:-8]),
    "codes that are too few": lambda w, n: w.put_run_part(n, Part.CODES, 0, bytes(w.run_part(n, Part.CODES))[:-64]),
    "a header of something else": lambda w, n: put_header_json(w, n, {"rows": "many"}),
    "a header without calibration": lambda w, n: put_header_json(w, n, {**header_json(w, n), "calibration": {}}),
    "a header that counted for fewer pools": lambda w, n: put_header_json(w, n, recalibrated(header_json(w, n), "met", [1.0])),
    "a header that counted no numbers": lambda w, n: put_header_json(w, n, recalibrated(header_json(w, n), "scanned", {})),
    "a header with other widths": lambda w, n: put_header_json(w, n, widened(header_json(w, n))),
    "a header with other blocks": lambda w, n: put_header_json(w, n, {**header_json(w, n), "code_shift": 2, "link_shift": 2}),
    "a list of link sets that are not there": lambda w, n: w.put_link_sets([n + 1_000]),
    "no values": lambda w, n: w.delete_run(n),
}  # fmt: skip


PACKED_OUT_OF_BOUNDS: dict[str, Callable[[Writer, int], None]] = {
    "codes without end": rewrite(Part.CODES, "<u4", set_all(2**32 - 1)),
    "codes longer than their block": rewrite(Part.CODES, "<u4", set_all(10**6)),
    "codes of nothing": rewrite(Part.CODES, "<u4", set_all(0)),
    "codes cut off": lambda w, n: w.put_run_part(n, Part.CODES, 0, bytes(w.run_part(n, Part.CODES))[:20_000]),
    "no codes": lambda w, n: w.put_run_part(n, Part.CODES, 0, bytes(CODE_PADDING)),
    "places of codes beyond the block": rewrite(Part.CODE_OFFSETS, "<u4", set_all(2**32 - 1)),
    "places of codes that are one off": rewrite(Part.CODE_OFFSETS, "<u4", shift(1)),
    "places of codes that are too few": lambda w, n: w.put_run_part(
        n, Part.CODE_OFFSETS, 0, bytes(w.run_part(n, Part.CODE_OFFSETS))[:-4]
    ),
    "a header without a step": lambda w, n: put_header_json(w, n, stepless(header_json(w, n))),
    "a header of bytes": lambda w, n: put_header_json(w, n, widened(header_json(w, n))),
}  # fmt: skip


UNITS_OUT_OF_BOUNDS: dict[str, Callable[[Writer, int], None]] = {
    "directions that are no numbers": rewrite(Part.DIRECTIONS, "<f4", set_all(np.nan, 7)),
    "directions without end": rewrite(Part.DIRECTIONS, "<f4", set_all(3e38)),
    "directions that are too few": lambda w, n: w.put_run_part(n, Part.DIRECTIONS, 0, bytes(w.run_part(n, Part.DIRECTIONS))[:-256]),
    "directions cut off": lambda w, n: w.put_run_part(n, Part.DIRECTIONS, 0, bytes(w.run_part(n, Part.DIRECTIONS))[:-4]),
    "no directions": lambda w, n: w.put_run_part(n, Part.DIRECTIONS, 0, b""),
    "features in another order": rewrite(Part.FEATURES, "<u8", lambda array: array.__setitem__(slice(None), array[::-1].copy())),
    "features that are all one": rewrite(Part.FEATURES, "<u8", set_all(5)),
    "features that are too few": lambda w, n: w.put_run_part(n, Part.FEATURES, 0, bytes(w.run_part(n, Part.FEATURES))[:-8]),
    "no features": lambda w, n: w.put_run_part(n, Part.FEATURES, 0, b""),
    "projections without a step": lambda w, n: put_header_json(w, n, stepless(header_json(w, n))),
    "projections of another width": lambda w, n: put_header_json(w, n, widened(header_json(w, n))),
    "a header of folded codes": lambda w, n: put_header_json(w, n, folded(header_json(w, n))),
}  # fmt: skip


def folded(header: dict[str, Any]) -> dict[str, Any]:
    """A header that says nothing of a projection."""
    return {**header, "coder": {name: value for name, value in header["coder"].items() if name != "projection"}}


def stepless(header: dict[str, Any]) -> dict[str, Any]:
    """A header of codes whose step is 0."""
    return {**header, "coder": {**header["coder"], "step": 0.0}}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name, kinds in (
            ("bytes", OUT_OF_BOUNDS),
            ("packed", PACKED_OUT_OF_BOUNDS),
            ("units", UNITS_OUT_OF_BOUNDS),
            ("packed units", [*PACKED_OUT_OF_BOUNDS, "a header of folded codes"]),
        )
        for kind in kinds
    ],
)
def test_numbers_out_of_bounds_are_not_followed(damaged: Damage, vectors: Vectors, nursery: Nursery, name: str, kind: str) -> None:
    """Link sets whose checksums are right and whose numbers are not kill nobody: items are answered with right scores, or refused."""
    edit = {**OUT_OF_BOUNDS, **PACKED_OUT_OF_BOUNDS, **UNITS_OUT_OF_BOUNDS}[kind]
    child = nursery.start("nursery:serve_database", str(damaged(name, edit)), "c")
    assert child.receive() == "open"
    child.call("run", "sharing:be_quiet")
    for mode in ("links", "auto", "bands"):
        recalls(name, vectors, child.call("query_batch", asked(vectors, name), mode=mode))
    assert child.call("stats")["count"] == ROWS
    child.call("check")
    child.call("add", ["new"], new(name))
    child.call("link")
    for mode in ("links", "auto", "exact"):
        assert child.call("query_batch", new(name), k=1, mode=mode)[0].ids == ["new"]


def test_every_part_is_damaged_by_a_test(sound: dict[str, Path]) -> None:
    """The parts that are damaged here are all that link sets have."""
    parts = set()
    for path in sound.values():
        with kinbin.open(path) as database, database.collection("c")._store.read() as reader:
            (number,) = reader.link_sets()
            keys = [key for key, _, _ in reader._trees.scan(RUNS, b"")]
            parts |= {key[4:5] for key in keys if int.from_bytes(key[:4], "big") == number}
    assert parts == {part for part, _ in PARTS.values()}
