"""Memory, progress and signals of an import, apart from its files."""

from __future__ import annotations

import io
import signal
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest
import scipy.sparse
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import dump_svmlight_file

from kinbin_service.importing import FORMATS, ReadOptions
from kinbin_service.importing.batches import Position
from kinbin_service.importing.formats import open_source
from kinbin_service.importing.job import stopping_on_signals
from kinbin_service.importing.lines import LINE_BYTES
from kinbin_service.importing.progress import LogLines, watch

ROWS, WIDTH = 4_000, 128


def write_csv(path: Path, matrix: NDArray[np.float64]) -> None:
    """Numbers with all their digits."""
    path.write_text("".join(",".join(map(repr, row)) + "\n" for row in matrix.tolist()))


def write_ndjson(path: Path, matrix: NDArray[np.float64]) -> None:
    """Items with ids."""
    path.write_bytes(b"".join(orjson.dumps({"id": str(row), "vector": vector}) + b"\n" for row, vector in enumerate(matrix.tolist())))


def write_ts(path: Path, matrix: NDArray[np.float64]) -> None:
    """Series behind a header."""
    path.write_text("@data\n" + "".join(",".join(map(repr, row)) + "\n" for row in matrix.tolist()))


WRITERS: dict[str, Callable[[Path, NDArray[np.float64]], object]] = {
    "npy": np.save,
    "npz": lambda path, matrix: scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(matrix)),
    "csv": write_csv,
    "ndjson": write_ndjson,
    "text": write_csv,
    "ts": write_ts,
    "svmlight": lambda path, matrix: dump_svmlight_file(matrix, np.zeros(len(matrix)), str(path)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_memory_is_bounded_by_one_batch(tmp_path: Path, name: str, rng: np.random.Generator) -> None:
    """Reading a file of 4 MB of numbers in batches of 50 rows never holds more than a quarter of it, in any format."""
    path = tmp_path / f"f.{name}"
    WRITERS[name](path, rng.random((ROWS, WIDTH)))
    source = open_source(path, ReadOptions(), tmp_path)
    tracemalloc.start()
    try:
        rows = sum(len(batch) for batch in source.batches(Position(), 50))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        source.close()
    assert rows == ROWS
    assert peak < ROWS * WIDTH * 8 / 4


def test_unpacked_archives_leave_nothing_behind(tmp_path: Path, rng: np.random.Generator) -> None:
    """The arrays of an archive are unpacked into nameless files: nothing is left, even if the process is killed."""
    work = tmp_path / "work"
    work.mkdir()
    np.savez_compressed(tmp_path / "f.npz", rng.random((100, 3)))
    source = open_source(tmp_path / "f.npz", ReadOptions(), work)
    assert next(source.batches(Position(), 10)).ids[0] == "0"
    assert list(work.iterdir()) == []
    source.close()


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    """A text file that is one endless line is refused before memory runs out."""
    with (tmp_path / "f.ndjson").open("wb") as file:
        file.truncate(LINE_BYTES + 2)
    source = open_source(tmp_path / "f.ndjson", ReadOptions(), tmp_path)
    with pytest.raises(Exception, match=r"f\.ndjson:1: the line is longer than 67,108,864 bytes"):
        next(source.batches(Position(), 10))
    source.close()


def test_progress_on_a_terminal() -> None:
    """On a terminal the bar shows name, share, rows, rate and time left."""
    screen = io.StringIO()
    with watch(Console(file=screen, force_terminal=True, width=120)) as progress:
        progress.start("[b].csv", 200, 50)
        progress.advance(100, 7)
        progress.advance(200, 7)
    shown = screen.getvalue()
    for part in ("[b].csv", "100%", "14 rows", "rows/s", "time left"):
        assert part in shown


def test_progress_in_a_log() -> None:
    """Elsewhere a line is printed now and then, with share, rows, rate and time left."""
    log = io.StringIO()
    assert isinstance(watch(Console(file=log)), LogLines)
    with LogLines(Console(file=log, width=40), every=0.0) as progress:
        progress.start("f.csv", 200, 100)
        progress.advance(150, 7_000)
    (line,) = log.getvalue().splitlines()
    assert line.startswith("f.csv: 75%, 7,000 rows, ")
    assert line.endswith(" s left")
    with LogLines(Console(file=log), every=3_600.0) as progress:
        progress.start("quiet.csv", 0, 0)
        progress.advance(0, 1)
    assert "quiet" not in log.getvalue()


def test_the_first_signal_asks_and_the_second_interrupt_breaks_off() -> None:
    """One Ctrl-C waits for the batch under way, another does not; behind the block signals mean what they meant before."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stopping_on_signals() as stop:
        assert stop.signal is None
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
