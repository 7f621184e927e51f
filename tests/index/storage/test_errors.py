from __future__ import annotations

import errno
import inspect
import pickle
from typing import Any

import lmdb
import pytest

import kinbin.errors
from kinbin.errors import Closed, CorruptData, FormatMismatch, InvalidInput, KinbinError, Problem, StorageBusy, StorageError, StorageFull
from kinbin.storage.errors import FOREIGN, translated

FOREIGN_CLASSES = sorted(
    (found for name in dir(lmdb) if inspect.isclass(found := getattr(lmdb, name)) and issubclass(found, BaseException)),
    key=lambda found: found.__name__,
)
EXPECTED: dict[str, type[KinbinError]] = {
    "MapFullError": StorageFull,
    "DiskError": StorageFull,
    "ReadersFullError": StorageBusy,
    "LockError": StorageBusy,
    "PanicError": StorageBusy,
    "MapResizedError": StorageBusy,
    "CorruptedError": CorruptData,
    "PageNotFoundError": CorruptData,
    "BadDbiError": CorruptData,
    "IncompatibleError": CorruptData,
    "BadTxnError": CorruptData,
    "InvalidError": FormatMismatch,
    "VersionMismatchError": FormatMismatch,
    "ReadonlyError": StorageError,
}
"""What the others become is StorageError: they tell of a mistake in Kinbin, not of something a caller can act on."""


def translation(error: BaseException) -> BaseException:
    """What leaves `translated` when this error is raised inside."""
    with pytest.raises(BaseException) as caught, translated():  # noqa: PT011
        raise error
    return caught.value


@pytest.mark.parametrize("foreign", FOREIGN_CLASSES, ids=lambda found: found.__name__)
def test_every_error_of_lmdb_is_translated(foreign: type[Exception]) -> None:
    """No class of error that lmdb has reaches a caller: each becomes the one of Kinbin's that says what to do."""
    error = translation(foreign("what it was"))
    assert type(error) is EXPECTED.get(foreign.__name__, StorageError)
    assert str(error)
    assert error.__suppress_context__
    assert error.__cause__ is None


def test_lmdb_has_the_errors_that_are_listed() -> None:
    """Every class that the table names exists and was walked, so that the walk above covers all of it."""
    assert len(FOREIGN_CLASSES) >= 25
    assert {foreign.__name__ for foreign, _, _ in FOREIGN} == set(EXPECTED) <= {found.__name__ for found in FOREIGN_CLASSES}
    assert len({foreign for foreign, _, _ in FOREIGN}) == len(FOREIGN)


@pytest.mark.parametrize("number", sorted(errno.errorcode), ids=errno.errorcode.get)
def test_every_error_of_the_system_is_translated(number: int) -> None:
    """Every errno becomes an error of Kinbin; no space, no quota and a file that may not grow become StorageFull."""
    error = translation(OSError(number, "the text"))
    full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    assert type(error) is (StorageFull if full else StorageError)
    assert full or "the text" in str(error)


@pytest.mark.parametrize(
    "text", ["mdb_txn_commit: Input/output error", "mdb_put: No space left on device", "mdb_txn_commit: File too large"]
)
def test_a_full_disk_is_told_from_a_fault_of_the_engine(text: str) -> None:
    """lmdb reports a full disk as an input/output error, without a class of its own: it becomes StorageFull."""
    assert type(translation(lmdb.Error(text))) is StorageFull


def test_use_of_a_closed_environment_is_closed() -> None:
    """lmdb's complaint about a closed environment becomes Closed."""
    assert type(translation(lmdb.Error("Attempt to operate on closed/deleted/dropped object."))) is Closed


@pytest.mark.parametrize(
    "error", [CorruptData("x"), Closed("x"), ValueError("x"), KeyboardInterrupt()], ids=lambda error: type(error).__name__
)
def test_what_is_not_foreign_passes(error: BaseException) -> None:
    """Errors of Kinbin, mistakes and interrupts leave the block as they are."""
    assert translation(error) is error


def test_a_translated_error_keeps_no_frame() -> None:
    """The foreign error, whose frames would keep a transaction alive, is not reachable from the one that replaces it."""
    error = translation(lmdb.MapFullError("full"))
    assert error.__cause__ is None
    context = error.__context__
    assert context is None or context.__traceback__ is None or context.__traceback__.tb_next is None


def _tree(root: type[KinbinError]) -> list[type[KinbinError]]:
    return [root, *(below for child in root.__subclasses__() for below in _tree(child))]


@pytest.mark.parametrize(
    "kind", [kind for kind in _tree(KinbinError) if kind.__module__ == "kinbin.errors"], ids=lambda kind: kind.__name__
)
def test_every_error_can_be_sent_to_another_process(kind: type[Any]) -> None:
    """An error of Kinbin comes out of pickle with its type, text, code and attributes."""
    error = kind([Problem("bad_id", "no", 3, "id")]) if kind is InvalidInput else kind("text")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.code == error.code
    assert vars(again) == vars(error)
    assert kind.__name__ in kinbin.errors.__all__
