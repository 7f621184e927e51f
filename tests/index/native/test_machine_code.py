"""Machine code of kernels on disk: when it is stale, where it lies, and who compiles."""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kinbin
from kinbin.native.machine_code import LEVELS, lock_byte, lock_file
from kinbin.native.specialisations import known

PACKAGE = Path(kinbin.__file__).parent

STAMPS = """
import sys
from pathlib import Path
import kinbin
from kinbin.native import machine_code
for _ in sys.stdin:
    # Nothing that was read before is kept.
    for one in vars(machine_code).values():
        getattr(one, "cache_clear", bool)()
    names = ("segments/scan.py", "codes/packed.py", "rows/dense.py")
    print(*(machine_code.stamp(Path(kinbin.__file__).parent / name) for name in names), flush=True)
"""

KERNEL = """
import numpy as np
from numba.core import event
from kinbin.native.jit import inline, strict

@inline
def twice(x):
    return x + x

@strict
def total(values):
    sum = 0.0
    for x in range(len(values)):
        sum += twice(values[x])
    return sum

if __name__ == "__mp_main__":
    compiled = event.RecordingListener()
    event.register("numba:compile", compiled)
    print(total(np.ones(4)), sum(kind.is_start for _, kind in compiled.buffer))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, without machine code."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "copy" / "kinbin", ignore=shutil.ignore_patterns("__pycache__", "_machine_code")))


def command(program: str, path: Path) -> list[str]:
    """A fresh interpreter with a program and a folder to import from first."""
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r})\n{program}"]


def run(program: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with a folder to import from first."""
    settings = {**os.environ, **environment}
    return subprocess.run(command(program, path), env=settings, capture_output=True, text=True, timeout=100, check=True)


@pytest.fixture
def stamps(package: Path) -> Iterator[Callable[[], list[str]]]:
    """Stamps as the files are now: of a kernel of scans, one of packed codes, and one that rests on limits."""
    with subprocess.Popen(command(STAMPS, package.parent), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def look() -> list[str]:
            assert process.stdin is not None
            assert process.stdout is not None
            print(file=process.stdin, flush=True)
            return process.stdout.readline().split()

        yield look
        process.kill()


def edit(path: Path) -> None:
    """Change a file."""
    path.write_text(path.read_text() + "\n# another line\n")


def test_code_is_stale_when_what_it_was_made_from_has_changed(package: Path, stamps: Callable[[], list[str]]) -> None:
    """A kernel's stamp changes with its own file, with kernels that it calls and with constants, and with nothing else."""
    scan, packed, dense = stamps()
    edit(package / "codes" / "packed.py")
    after = stamps()
    assert [after[0] == scan, after[1] == packed, after[2] == dense] == [True, False, True]
    scan, packed, dense = after
    edit(package / "rows" / "record.py")
    after = stamps()
    assert [after[0] == scan, after[1] == packed, after[2] == dense] == [False, True, True]
    scan, packed, dense = after
    edit(package / "limits.py")
    after = stamps()
    assert [after[1] == packed, after[2] == dense] == [True, False]
    edit(package / "database.py")
    assert stamps() == after


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A folder with a module of kernels."""
    (tmp_path / "sums.py").write_text(KERNEL)
    return tmp_path


CALL = 'import runpy; runpy.run_path({path!r}, run_name="__mp_main__")'


def call(kernel: Path, **environment: str) -> tuple[str, int, str]:
    """The result, how many functions were compiled, and the log, of a process that calls the kernel."""
    done = run(CALL.format(path=str(kernel / "sums.py")), kernel, **environment)
    result, compiled = done.stdout.split()
    return result, int(compiled), done.stderr


@pytest.mark.slow
def test_code_is_kept_for_the_next_process(kernel: Path) -> None:
    """What one process compiles the next one loads; what is damaged is compiled again."""
    assert call(kernel)[:2] == ("8.0", 2)
    for path in (kernel / "__pycache__").glob("*.nbc"):
        path.write_bytes(path.read_bytes()[:-100])
    result, compiled, log = call(kernel)
    assert (result, compiled) == ("8.0", 2)
    assert "damaged" in log
    assert call(kernel)[:2] == ("8.0", 0)


def test_code_stays_in_memory_where_nothing_can_be_written(kernel: Path) -> None:
    """Without a folder that can be written kernels work, and the log says what that costs."""
    for name in ("__pycache__", "cache", "numba"):
        (kernel / name).touch()
    for closed in ({"XDG_CACHE_HOME": str(kernel / "cache")}, {"NUMBA_CACHE_DIR": str(kernel / "numba")}):
        result, compiled, log = call(kernel, **closed)
        assert (result, compiled) == ("8.0", 2)
        assert "compiled in memory" in log


def test_processes_share_the_work(kernel: Path) -> None:
    """Of processes that need a kernel at the same time one compiles it, the others wait and load it."""
    calling = command(CALL.format(path=str(kernel / "sums.py")), kernel)
    processes = [subprocess.Popen(calling, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=100)[0].split() for process in processes]
    assert [result for result, _ in outputs] == ["8.0"] * 3
    assert sum(int(compiled) for _, compiled in outputs) == 2


def test_a_claim_dies_with_its_holder(tmp_path: Path) -> None:
    """A process that is killed while it compiles holds up nobody."""
    program = f"""
import sys, time
from pathlib import Path
from kinbin.native.machine_code import lock_byte, lock_file
with lock_file(Path({str(tmp_path)!r})) as descriptor:
    print(lock_byte(descriptor, 5), flush=True)
    time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder, lock_file(tmp_path) as descriptor:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert lock_byte(descriptor, 6)
        assert not lock_byte(descriptor, 5)
        holder.kill()
        assert lock_byte(descriptor, 5, wait=True)


def test_what_only_kernels_call_cannot_be_called() -> None:
    """Python is told so, where there is no code for it to call, also after a kernel has compiled it."""
    from kinbin.hashing.arithmetic import mix64
    from kinbin.rows.lookup import clear_lookup
    from kinbin.spaces.shared import shared_narrow

    for _ in range(2):
        for function, arguments in ((mix64, (3,)), (clear_lookup, (None, None)), (shared_narrow, (0, 1, 1.0, None))):
            with pytest.raises(TypeError, match="called by kernels only"):
                function(*arguments)
        kinbin.warm_up(groups=["small"])


@pytest.mark.slow
def test_what_only_kernels_call_is_made_into_no_machine_code(kernel: Path) -> None:
    """It is kept as intermediate code, which another process links into a kernel that it compiles, and has not to compile again."""
    assert call(kernel)[:2] == ("8.0", 2)
    (kept,) = (kernel / "__pycache__").glob("*twice*.nbc")
    (_, parts), *_ = pickle.loads(kept.read_bytes())
    assert [part[:4] for part in parts] == [b"BC\xc0\xde"]
    for path in (kernel / "__pycache__").glob("*total*"):
        path.unlink()
    assert call(kernel)[:2] == ("8.0", 1)


@pytest.mark.slow
def test_code_that_came_with_the_package_is_used(package: Path, kernel: Path, tmp_path: Path) -> None:
    """Code for a level of processors is loaded on every processor of the level, unless the user names another one to compile for."""
    program = f"import sys; sys.path.insert(0, {str(package.parent)!r})\n" + CALL.format(path=str(kernel / "sums.py"))
    made, empty = str(tmp_path / "made"), str(tmp_path / "empty")
    generic = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert run(program, kernel, NUMBA_CACHE_DIR=made, **generic).stdout.split() == ["8.0", "2"]
    shipped = package / "_machine_code" / "baseline"
    shipped.mkdir(parents=True)
    for path in Path(made).rglob("*.nb[ic]"):
        shutil.copy(path, shipped)
    assert run(program, kernel, NUMBA_CACHE_DIR=empty).stdout.split() == ["8.0", "0"]
    assert not Path(empty).exists()
    assert run(program, kernel, NUMBA_CACHE_DIR=empty, NUMBA_CPU_NAME="x86-64").stdout.split() == ["8.0", "2"]


MORE = """
import numpy as np
from numba.core import event
from kinbin.native.jit import strict
from sums import total

@strict
def halved(values):
    return total(values) / 2

if __name__ == "__mp_main__":
    compiled = event.RecordingListener()
    event.register("numba:compile", compiled)
    print(halved(np.ones(4)), sum(kind.is_start for _, kind in compiled.buffer))
"""


@pytest.mark.slow
def test_a_kernel_that_was_kept_is_called_by_another(kernel: Path) -> None:
    """Its intermediate code is kept as well: the caller alone is compiled."""
    run("import numpy, sums; sums.total(numpy.ones(4))", kernel)
    (kernel / "more.py").write_text(MORE)
    assert run(CALL.format(path=str(kernel / "more.py")), kernel).stdout.split() == ["4.0", "1"]


def test_levels_are_ordered() -> None:
    """Levels of processors go down to one that asks for nothing."""
    assert list(LEVELS) == ["x86-64-v4", "x86-64-v3", "baseline"]
    assert LEVELS["baseline"] == ()


@pytest.mark.slow
def test_the_table_is_what_a_warm_up_calls(tmp_path: Path) -> None:
    """Every kernel that a warm-up calls is compiled ahead of need, in its group, and no other (`make kernels` writes the table)."""
    program = f"""
from kinbin.database import Database
from kinbin.native.specialisations import requested
from kinbin.warmup.workload import STAGES
found = []
with Database({str(tmp_path / "db")!r}) as database:
    for name, stage in STAGES.items():
        stage(database, bool)
        found += requested(name, found)
for one in found:
    if not one.inner:
        print(one.group, one.module, one.kernel, *one.arguments)
"""
    called = set(run(program, PACKAGE.parent).stdout.splitlines())
    assert called == {" ".join((one.group, one.module, one.kernel, *one.arguments)) for one in known() if not one.inner}
    assert all(hasattr(importlib.import_module(one.module), one.kernel) for one in known())
