"""Garbage is not collected while modules are imported, and is again behind it."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from kinbin.collector import collector_paused


def test_the_collector_rests_for_the_block() -> None:
    """Also where the block is within another, or raises; one that was off before stays off."""
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="once"), collector_paused():
        raise ValueError("once")
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_programs_collect_garbage_once_they_have_begun() -> None:
    """Neither the library's first name nor the program leaves the collector off."""
    program = "import gc, kinbin; kinbin.open; assert gc.isenabled(); from kinbin_service.start import main; main(); assert False"
    told = f"import atexit, gc, sys; sys.argv = ['kinbin', '--version']; atexit.register(lambda: print(gc.isenabled())); {program}"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"
