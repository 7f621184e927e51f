"""Machine code of kernels on disk: where it lies, when it is stale, who compiles. Numba's internals are used here and in `libraries` only.

1. Code is stale when the source changed that it was compiled from: a kernel's own file, and all that it imports of Kinbin, for
   callees are inlined and constants frozen. (Numba watches a function's own file only, so that stored hashes might change their
   meaning.) Sources are read when they are imported: an edit while a process runs is none of what it compiles.
2. It is looked for in what came with the package (`_machine_code/LEVEL`, for named levels of processors, from the highest that this
   one has), then where processes of this machine leave it: NUMBA_CACHE_DIR if set, else `__pycache__` beside the source, or the user's
   cache folder. The first that can be written takes what is compiled; if none can, code stays in memory, and the log says so.
3. One thread of one process compiles a kernel; whoever needs it meanwhile waits, then loads it. The claim is a lock on a byte
   of a file, which dies with its holder.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import pickle
import platform
import re
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from numba.core import config as numba_config
from numba.core.caching import IndexDataCacheFile, _Cache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral

from kinbin.native.libraries import rebuilt, reduced

__all__ = [
    "CALLED_WITHIN",
    "LEVELS",
    "REQUESTED",
    "SHIPPED",
    "files_of",
    "is_ready",
    "keep_code",
    "stamp",
    "target_name",
    "writable_folder",
]

LEVELS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "baseline": (),
}
"""Levels of processors, the highest first, and the features by which one is known; each has those of the levels below too."""

_PACKAGE = Path(__file__).parent.parent
SHIPPED = _PACKAGE / "_machine_code"
"""Where a wheel's machine code lies, a folder for each level."""
REQUESTED: dict[tuple[str, str, tuple[Any, ...]], float] = {}
"""What Python called in this process: (module, kernel, types of arguments), and the seconds of a core that compiling or loading took."""

_CONFIG: Any = numba_config
CALLED_WITHIN: dict[tuple[str, str, tuple[Any, ...]], float] = {}
"""The same of kernels that others called when these were compiled, but for those that are inlined."""
_IMPORT = re.compile(rb"^(?:from|import) +(kinbin\.[\w.]+)", re.MULTILINE)
_COMPILERS = frozenset(Path(__file__).with_name(name) for name in ("jit.py", "memory.py"))
_DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    ImportError,
    TypeError,
    pickle.UnpicklingError,
    RuntimeError,
)
log = logging.getLogger("kinbin.native")


# ------------------------------------------------------------------------------------------ sources


class _Source(NamedTuple):
    """A source file as it was when this process first read it, and the files of Kinbin that it imports."""

    digest: bytes
    imports: tuple[Path, ...]


@cache
def _read(path: Path) -> _Source:
    content = path.read_bytes()
    found = dict.fromkeys(one for name in _IMPORT.findall(content) for one in _files_of(name))
    found.pop(path, None)
    return _Source(hashlib.blake2b(content, digest_size=16).digest(), tuple(found))


@cache
def _files_of(name: bytes) -> tuple[Path, ...]:
    """The sources of a module; of a package all, as what is imported from it may come from any of them."""
    base = _PACKAGE.joinpath(*name.decode().rstrip(".").split(".")[1:])
    found = sorted(base.glob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
    return tuple(one for one in found if one.is_file())


_WALKED: set[Path] = set()


def _read_all(path: Path) -> None:
    """Read a file and all that it imports, directly or not, but for what was read before."""
    waiting = [path]
    while waiting:
        one = waiting.pop()
        if one not in _WALKED:
            _WALKED.add(one)
            waiting += _read(one).imports


def _reachable(path: Path) -> set[Path]:
    """A file and all that it imports, directly or not. Reads them."""
    found, waiting = {path}, [path]
    while waiting:
        new = set(_read(waiting.pop()).imports) - found
        found |= new
        waiting += new
    return found


@cache
def _compiles(path: Path) -> bool:
    return not _COMPILERS.isdisjoint(_reachable(path))


@cache
def stamp(path: Path) -> str:
    """A digest of what the kernels of a file are made from. Cost: some 20 µs a file that was not read before.

    That is the file, what it imports and compiles too (and so on), and what these import: constants.
    """
    watched, waiting = {path}, [path]
    while waiting:
        new = set(_read(waiting.pop()).imports) - watched
        watched |= new
        waiting += [one for one in new if _compiles(one)]
    digest = hashlib.blake2b(digest_size=16)
    for name, content in sorted((os.path.relpath(one, _PACKAGE), _read(one).digest) for one in watched - {path}):
        digest.update(name.encode() + b"\0" + content)
    digest.update(_read(path).digest)
    return digest.hexdigest()


# ------------------------------------------------------------------------------------------ places


@cache
def _processor_levels() -> tuple[str, ...]:
    """The levels of this processor, the highest first. Machines of other architectures have the last only."""
    features = llvm.get_host_cpu_features()
    levels = ["baseline"]
    if platform.machine() in {"x86_64", "AMD64"}:
        for name in ("x86-64-v3", "x86-64-v4"):
            if not all(features.get(feature) for feature in LEVELS[name]):
                break
            levels.insert(0, name)
    return tuple(levels)


@cache
def _shipped() -> tuple[tuple[Path, str | None], ...]:
    """Folders of code that came with the package and runs here, the best first, each with the processor that it was compiled for.

    None: this very processor. A processor that NUMBA_CPU_NAME names is taken at its word.
    """
    folders: list[tuple[Path, str | None]] = [(SHIPPED / "native", None)]
    if not _CONFIG.CPU_NAME:
        folders += [(SHIPPED / level, target_name(level)) for level in _processor_levels()]
    return tuple((folder, target) for folder, target in folders if folder.is_dir())


def target_name(level: str) -> str:
    """What LLVM calls a level."""
    return "generic" if level == "baseline" else level


@lru_cache(maxsize=64)
def _folders(beside: Path) -> tuple[Path, ...]:
    """Where processes of this machine may leave the code of the sources in a folder, in the order of preference."""
    name = "kinbin-" + hashlib.blake2b(os.fsencode(beside), digest_size=8).hexdigest()
    users = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 - Path.expanduser fails without a home
    if _CONFIG.CACHE_DIR:
        return (Path(_CONFIG.CACHE_DIR) / name,)
    return (beside / "__pycache__", *([users / "kinbin" / name] if users.is_absolute() else []))


@lru_cache(maxsize=64)
def writable_folder(beside: Path) -> Path | None:
    """The first of them that can be written; None (and a line in the log) if none can."""
    for folder in _folders(beside):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    tried = ", ".join(str(folder) for folder in _folders(beside))
    log.warning("kernels are compiled in memory, by every process anew: none of %s can be written; set NUMBA_CACHE_DIR to a folder", tried)
    return None


# ------------------------------------------------------------------------------------------ code


class _Code(_Cache):
    """The code of one kernel, for each combination of argument types: what numba calls its cache."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self._source = Path(function.__code__.co_filename)
        self._beside = self._source.parent
        # All that the stamp depends on is read now, while it is what Python has imported.
        _read_all(self._source)
        body = function.__code__
        self._body = hashlib.blake2b(body.co_code + repr(body.co_names).encode(), digest_size=8).hexdigest()
        plain = re.sub(r"[<>]", "", self.name)
        self._base = f"{plain}-{function.__code__.co_firstlineno}.py{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"

    @property
    def cache_path(self) -> str:
        """Where new code goes; empty for memory."""
        return str(writable_folder(self._beside) or "")

    def enable(self) -> None:
        """Always on."""

    def disable(self) -> None:
        """Always on."""

    def flush(self) -> None:
        """Forget what is stored."""
        folder = writable_folder(self._beside)
        if folder is not None:
            self._file(folder).flush()

    def _file(self, folder: Path) -> Any:
        return IndexDataCacheFile(str(folder), self._base, stamp(self._source))

    def find(self, types: tuple[Any, ...], codegen: Any) -> Iterator[tuple[Any, Any]]:
        """Places that should have code for these types: (file, key)."""
        host = codegen.magic_tuple()
        places = [(folder, host if target is None else (host[0], target, "")) for folder, target in _shipped()]
        places += [(folder, host) for folder in _folders(self._beside)]
        for folder, target in places:
            file, key = self._file(folder), (types, target, self._body)
            try:
                name = file._load_index().get(key)
                if name is not None and (folder / name).is_file():
                    yield file, key
            except _DAMAGED:
                continue

    def load_overload(self, sig: tuple[Any, ...], target_context: Any) -> Any:
        """Stored code, or None. What is damaged counts as none."""
        target_context.refresh()
        for file, key in self.find(sig, target_context.codegen()):
            try:
                return rebuilt(target_context, file.load(key))
            except _DAMAGED as error:
                log.warning("machine code of %s is damaged and is compiled again: %s", self.name, error)
        return None

    def save_overload(self, sig: tuple[Any, ...], data: Any) -> None:
        """Store code; where that is impossible it stays in memory."""
        folder = writable_folder(self._beside)
        if folder is None:
            return
        try:
            self._file(folder).save((sig, data.codegen.magic_tuple(), self._body), reduced(data))
        except OSError as error:
            log.warning("machine code of %s is not kept: %s", self.name, error)


def keep_code(dispatcher: Any) -> None:
    """Let a kernel's code be kept on disk and be shared by all processes; not that of closures, which hold more than their source says."""
    if dispatcher.py_func.__closure__ is not None:
        return
    code = dispatcher._cache = _Code(dispatcher.py_func)
    compile_ = dispatcher.compile

    def compile_once(types: Any) -> Any:
        outermost = not global_compiler_lock.is_locked()
        began = time.thread_time()
        if is_ready(dispatcher, types):
            entry = compile_(types)
        else:
            with _claimed(writable_folder(code._beside), code.name):
                entry = compile_(types)
        if outermost or "forceinline" not in dispatcher.targetoptions:
            key = (dispatcher.py_func.__module__, dispatcher.py_func.__qualname__, tuple(types))
            (REQUESTED if outermost else CALLED_WITHIN).setdefault(key, time.thread_time() - began)
        return entry

    dispatcher.compile = compile_once
    template_of = dispatcher.get_call_template

    def template_without_literals(args: Any, kws: dict[str, Any]) -> Any:
        # Numba compiles a callee anew for constants, which LLVM propagates anyway where it inlines.
        return template_of(tuple(map(unliteral, args)), {name: unliteral(one) for name, one in kws.items()})

    dispatcher.get_call_template = template_without_literals


def is_ready(dispatcher: Any, types: tuple[Any, ...]) -> bool:
    """Whether a kernel's code for these types was loaded, or lies on disk."""
    if types in dispatcher.overloads:
        return True
    return next(dispatcher._cache.find(tuple(types), dispatcher.targetctx.codegen()), None) is not None


def files_of(dispatcher: Any, types: tuple[Any, ...]) -> list[Path]:
    """The files that hold a kernel's code for these types, as processes of this machine left it; none if it is not there."""
    for file, key in dispatcher._cache.find(types, dispatcher.targetctx.codegen()):
        folder = Path(file._cache_path)
        if SHIPPED not in folder.parents:
            return [folder / file._index_name, folder / file._load_index()[key]]
    return []


# ------------------------------------------------------------------------------------------ claims

_OPEN: set[int] = set()
"""Open lock files of this process."""


def _leave_claims_to_parent() -> None:
    """In a forked child: close the lock files, or a claim would outlive the parent that made it."""
    while _OPEN:
        os.close(_OPEN.pop())


os.register_at_fork(after_in_child=_leave_claims_to_parent)


@contextmanager
def _claimed(folder: Path | None, name: str) -> Iterator[None]:
    """Hold the claim on a kernel, and numba's lock.

    Whoever waits for a claim at the outermost level lets go of numba's lock, so that other threads of the process load other kernels.
    Claims of one process nest as calls do, and no kernel calls itself: so no two processes wait for each other.
    """
    with lock_file(folder) as descriptor:
        place = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest()) + 1
        nested = global_compiler_lock.is_locked()
        global_compiler_lock.acquire()
        while not lock_byte(descriptor, place, wait=nested):
            global_compiler_lock.release()
            lock_byte(descriptor, place, wait=True)
            lock_byte(descriptor, place, free=True)
            global_compiler_lock.acquire()
        try:
            yield
        finally:
            global_compiler_lock.release()


@contextmanager
def lock_file(folder: Path | None) -> Iterator[int | None]:
    """The open lock file of a folder of code; its locks are let go at the end. None where there can be none."""
    descriptor = None
    if folder is not None:
        try:
            descriptor = os.open(folder / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            log.debug("no lock file in %s: processes may compile the same kernel", folder)
    if descriptor is None:
        yield None
        return
    _OPEN.add(descriptor)
    try:
        yield descriptor
    finally:
        if descriptor in _OPEN:
            _OPEN.remove(descriptor)
            os.close(descriptor)


def lock_byte(descriptor: int | None, place: int, *, wait: bool = False, free: bool = False) -> bool:
    """Lock (or free) one byte of an open file, for this opening of it; False if another holds it (and not `wait`)."""
    if descriptor is None or not hasattr(fcntl, "F_OFD_SETLK"):
        # Without such locks (outside of Linux) work may be done twice, which harms nobody.
        return True
    kind = fcntl.F_UNLCK if free else fcntl.F_WRLCK
    request = struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, request)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        # Nor has every file system locks.
        return True
    return True
