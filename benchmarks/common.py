"""What every benchmark shares: one thread, real data, interleaved timing, results as JSON and as tables.

A benchmark is a script with two functions: `measure(options)` returns plain data, `render(data)` makes Markdown
tables of it and of nothing else, so that the document can be written again without measuring again.

Rules, the same for everyone: one thread on one core; a warm-up that is not counted; medians of repeated runs;
peers in the same process, interleaved; ratios beside times.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import datetime
import functools
import gc
import importlib.metadata
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import report

__all__ = [
    "SPREAD",
    "K",
    "Options",
    "Skipped",
    "all_cores",
    "busy_elsewhere",
    "data_set",
    "ids_of",
    "in_new_process",
    "interleaved",
    "latencies",
    "least_setting",
    "memory",
    "other_core",
    "ratio",
    "run",
    "spread",
    "workspace",
]

T = TypeVar("T")
Setting = TypeVar("Setting", int, float)

ROOT = Path(__file__).resolve().parent.parent
K = 10
"""Neighbours asked for, everywhere."""
SPREAD = ("median", "least", "most")
"""Of repeated measurements."""
PACKAGES = (
    "numpy",
    "numba",
    "lmdb",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "datasketch",
    "pynndescent",
    "annoy",
    "rapidfuzz",
    "dtaidistance",
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Skipped(Exception):
    """The benchmark cannot run here; the text says what is missing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for."""

    quick: bool
    """Small sizes, to see that the script works; its figures mean nothing."""
    repeats: int | None
    folder: Path
    """Databases are written to a temporary folder in it: its file system is part of what is measured."""
    cache: Path
    """Data that takes long to make is kept here."""
    results: Path | None
    """Where the JSON goes; None: nowhere."""
    rows: int | None = None
    """Of the larger database, where that is asked for."""

    def pick(self, full: T, quick: T) -> T:
        """One of two sizes."""
        return quick if self.quick else full

    def rounds(self, full: int, quick: int = 1) -> int:
        """How often to repeat."""
        return self.repeats or self.pick(full, quick)


def run(
    name: str,
    measure: Callable[[Options], dict[str, Any]],
    render: Callable[[dict[str, Any]], str],
    draw: Callable[[dict[str, Any]], None] | None = None,
    sizes: str | None = None,
) -> None:
    """Run a benchmark as a program: measure, print its tables, save the result, renew its part of the document and its plots.

    sizes: it takes `--rows`, and what it measures of so many is saved under this name.
    """
    options = _arguments(name, sizes)
    if options.rows is not None:
        name = sizes or name
    _restart_with_one_thread()
    _pin()
    versions = _versions()
    started, busy = time.perf_counter(), busy_elsewhere()
    try:
        result = measure(options)
    except Skipped as reason:
        print(f"{name}: skipped: {reason}")
        return
    seconds = time.perf_counter() - started
    others = (busy_elsewhere() - busy) / seconds
    # Parts that were measured before, and kept, say so themselves.
    seconds, others = result.pop("taken", (seconds, others))
    if others > 0.1:
        print(f"{name}: other programs used {others:.1f} cores meanwhile, so these times mean little", file=sys.stderr)
    saved = {
        "benchmark": name,
        "quick": options.quick,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {**_machine(), "file_system": _file_system(options.folder)},
        "versions": versions,
        "others_cores": None if np.isnan(others) else round(others, 2),
        "seconds": round(seconds, 1),
        "result": _rounded(result),
    }
    print(report.section(saved, render))
    if options.results is not None:
        report.save(saved, options.results)
        if options.results == report.RESULTS:
            report.renew(name, report.section(saved, render))
            if draw is not None:
                draw(saved["result"])


def _arguments(name: str, sizes: str | None) -> Options:
    main = sys.modules["__main__"].__doc__ or name
    parser = argparse.ArgumentParser(prog=f"{name}.py", description=main.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works; saved with --results only")
    parser.add_argument("--repeats", type=int, help="timed repeats instead of the benchmark's own number")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where databases are written (%(default)s)")
    cache = Path(tempfile.gettempdir()) / "kinbin-benchmarks"
    parser.add_argument("--cache", type=Path, default=cache, help="where data that takes long to make is kept (%(default)s)")
    parser.add_argument("--results", type=Path, help="folder for the JSON, instead of benchmarks/results, which docs/benchmarks.md shows")
    if sizes is not None:
        parser.add_argument("--rows", type=int, help=f"rows of the larger database; saved as {sizes}")
    given = parser.parse_args()
    results = given.results.resolve() if given.results else None if given.quick else report.RESULTS
    return Options(given.quick, given.repeats, given.folder, given.cache, results, getattr(given, "rows", None))


# ------------------------------------------------------------------------------------- one thread


def _restart_with_one_thread() -> None:
    """Libraries read these variables when they are loaded, and NumPy is loaded by now: start this program over with them."""
    if any(os.environ.get(name) != value for name, value in _ONE_THREAD.items()):
        os.environ.update(_ONE_THREAD)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


@functools.cache
def _cores() -> frozenset[int]:
    """The cores that this process might use before it was pinned."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def _pin() -> None:
    """Keep this process, its threads and the processes it starts on the last core that it may use."""
    if _cores():
        os.sched_setaffinity(0, {max(_cores())})
    else:
        print("this system cannot pin a process to a core: threads of libraries are limited by their own settings only", file=sys.stderr)


def all_cores() -> None:
    """Let this process, and those that it starts, use every core again: for what is measured as a whole, with its load."""
    if _cores():
        os.sched_setaffinity(0, _cores())


def other_core() -> int | None:
    """A core that is not this process's, if there is one."""
    return min(_cores()) if len(_cores()) > 1 else None


def in_new_process(function: Callable[..., T], *arguments: object) -> T:
    """Call a function of a module in a fresh process on the same core; it imports the module, then is called."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


# ------------------------------------------------------------------------------------------- data


def data_set(name: str) -> Mapping[str, NDArray[Any]]:
    """A data set of the folder that KINBIN_DATA names (otherwise data of the repository), loaded array by array."""
    folder = Path(os.environ.get("KINBIN_DATA") or ROOT / "data")
    file = folder / f"{name}.npz"
    if not file.exists():
        raise Skipped(f"no data set {name}: KINBIN_DATA names the folder of {name}.npz")
    loaded: Mapping[str, NDArray[Any]] = np.load(file)
    return loaded


def ids_of(start: int, stop: int) -> list[str]:
    """The ids of rows start … stop-1: their numbers."""
    return [str(i) for i in range(start, stop)]


@contextmanager
def workspace(options: Options) -> Iterator[Path]:
    """A folder for databases, removed afterwards."""
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kinbin-benchmark-", dir=options.folder) as folder:
        yield Path(folder)


# ------------------------------------------------------------------------------------------- time


def interleaved(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each task, `repeats` times, after one uncounted call. Tasks take turns, and the first one changes."""
    names = list(tasks)
    for name in names:
        tasks[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            gc.collect()
            started = time.perf_counter()
            tasks[name]()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def latencies(alone: Mapping[str, Callable[[int], Any]], count: int, *, loop: int = 1) -> dict[str, dict[str, float]]:
    """Microseconds of single queries. Everybody takes turns, each with other queries, so that nobody finds rows in the cache.

    loop: calls of one program before the next has its turn. With 1 nobody finds his own code in the caches either.
    """
    names = list(alone)
    count -= count % loop
    times = np.empty((len(names), count))
    for first in range(-20 * loop, count, loop):  # the first ones are overwritten by the last: a warm-up
        for place in range(len(names)):
            which = (place + first // loop) % len(names)
            for i in range(first, first + loop):
                query = (i + which * (count // len(names))) % count
                started = time.perf_counter()
                alone[names[which]](query)
                times[which, i] = time.perf_counter() - started
    times *= 1e6
    return {
        name: {"p50": float(np.median(row)), "p99": float(np.quantile(row, 0.99)), "mean": float(row.mean())}
        for name, row in zip(names, times, strict=True)
    }


def least_setting(recall_by_setting: Mapping[Setting, float], floor: float) -> Setting:
    """The first setting of a ladder that reaches the floor; the best one if none does."""
    for setting, recall in recall_by_setting.items():
        if recall >= floor:
            return setting
    return max(recall_by_setting, key=recall_by_setting.__getitem__)


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and most of repeated measurements."""
    return dict(zip(SPREAD, (statistics.median(values), min(values), max(values)), strict=True))


def ratio(of: list[float], to: list[float]) -> float:
    """Median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(of, to, strict=True))


def memory() -> dict[str, int]:
    """Bytes of this process: the peak, and what is resident now as memory of its own and as pages of files.

    The peak is the kernel's mark of this program alone; getrusage would count the program that started it as well.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in lines)
    wanted = {"peak": "VmHWM", "own": "RssAnon", "files": "RssFile"}
    return {name: int(fields[field].split()[0]) * 1024 for name, field in wanted.items() if field in fields}


# ------------------------------------------------------------------------------ what it was measured on


def _machine() -> dict[str, Any]:
    """Processor, cores, memory, system."""
    processor, flags = platform.processor(), set[str]()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                processor = value.strip()
            elif name.strip() == "flags":
                flags = set(value.split())
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except OSError:
        memory_bytes = 0
    vectors = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), platform.machine())
    system = f"{platform.system()} {platform.release()}"
    return {"processor": processor, "instructions": vectors, "cores": os.cpu_count(), "memory_gib": memory_bytes >> 30, "system": system}


def busy_elsewhere() -> float:
    """Seconds of all cores since the machine started that neither this process nor its ended children used; nan if unknown."""
    try:
        ticks = [int(field) for field in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    except OSError:
        return float("nan")
    user, nice, system, _idle, _waiting, *interrupts_and_stolen = ticks
    return (user + nice + system + sum(interrupts_and_stolen)) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def _file_system(folder: Path) -> str:
    """The type of the file system that holds a folder."""
    best = ("", "unknown")
    try:
        for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
            _, mount, kind, *_ = line.split()
            if folder.resolve().is_relative_to(mount) and len(mount) >= len(best[0]):
                best = (mount, kind)
    except OSError:
        pass
    return best[1]


def _versions() -> dict[str, str]:
    """Kinbin with its commit, Python, and the packages that matter here."""
    import kinbin

    versions = {"kinbin": kinbin.__version__, "commit": _commit(), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _commit() -> str:
    """The commit measured, with a plus when the files of the library differ from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain", "index", "service"], capture_output=True, text=True, check=False)
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "") if commit.returncode == 0 else "unknown"


def _rounded(value: Any) -> Any:
    """Plain data for JSON: floats to six figures, NumPy numbers and arrays as Python's."""
    if isinstance(value, Mapping):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(f"{value:.6g}")
    return int(value) if isinstance(value, np.integer) else value
