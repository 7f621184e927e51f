"""Compiling ahead of need: groups, progress, and what is shown."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import kinbin
import kinbin.warmup
from kinbin.native.specialisations import known, written

STATES = [
    kinbin.Compiling(0, 3, ("scan", "sweep"), ("small", "links"), 0.0, 0.1),
    kinbin.Compiling(1, 3, ("sweep",), ("small", "links"), 0.5, 4.0),
    kinbin.Compiling(2, 3, (), ("links",), 0.6, 12.0),
    kinbin.Compiling(3, 3, (), (), 1.0, 17.0),
]


def test_progress_ends_with_everything_there() -> None:
    """The last state that is told of is that all kernels are there, also if they were from the start."""
    states: list[kinbin.Compiling] = []
    kinbin.warm_up(states.append, ["small"])
    assert (states[-1].done, states[-1].pending, states[-1].share) == (states[-1].total, (), 1.0)
    assert states[-1].total == sum(one.group == "small" for one in known())


def test_a_group_takes_those_before_it_along() -> None:
    """Links need what bands need."""
    states: list[kinbin.Compiling] = []
    kinbin.warm_up(states.append, ["bands"])
    assert states[-1].total == sum(one.group in {"small", "bands"} for one in known())


def test_what_a_process_has_used_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second warm-up of a process, or of its fork, only tells that all is there; what was not asked for before is used then."""
    used: list[str] = []
    monkeypatch.setattr(kinbin.warmup, "_loaded", set())
    monkeypatch.setattr(kinbin.warmup, "STAGES", {name: lambda *_, name=name: used.append(name) for name in ("small", "bands", "links")})
    for groups in (["small"], ["small"], ["bands"], ["small"], None, None):
        states: list[kinbin.Compiling] = []
        kinbin.warm_up(states.append, groups)
        assert states[-1].pending == ()
    assert used == ["small", "small", "bands", "small", "bands", "links"]


def test_unknown_groups_are_refused() -> None:
    """The error names the groups that there are."""
    with pytest.raises(kinbin.InvalidInput, match="groups are small, bands, links, not bonds"):
        kinbin.warm_up(groups=["bonds"])


def test_progress_may_end_it() -> None:
    """What progress raises comes out of the warm-up."""

    def stop(_: kinbin.Compiling) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kinbin.warm_up(stop)


def test_progress_may_end_it_while_code_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is to end does not wait until kernels are loaded that nobody will call: the stages, too, look whether to go on."""
    monkeypatch.setattr(kinbin.warmup, "_loaded", set())
    made: list[str] = []
    create = kinbin.Database.create_collection

    def noted(database: kinbin.Database, name: str, **named: Any) -> kinbin.Collection:
        made.append(name)
        return create(database, name, **named)

    def stop(state: kinbin.Compiling) -> None:
        assert state.pending == ()
        if made:
            raise KeyboardInterrupt

    monkeypatch.setattr(kinbin.Database, "create_collection", noted)
    with pytest.raises(KeyboardInterrupt):
        kinbin.warm_up(stop, ["small"])
    assert len(made) == 1


@pytest.mark.slow
def test_small_collections_are_compiled_first(tmp_path: Path) -> None:
    """From an empty folder the kernels of small collections are compiled in other processes, and only loaded in the one that asks.

    A copy of the package knows so few kernels that the test is short; `native/test_machine_code.py` compares the whole table with what
    a warm-up calls.
    """
    package = Path(kinbin.__file__).parent
    copy = shutil.copytree(package, tmp_path / "copy" / "kinbin", ignore=shutil.ignore_patterns("__pycache__", "_machine_code"))
    by_time = sorted((one for one in known() if one.group == "small" and not one.inner), key=lambda one: one.seconds)
    later = next(one for one in known() if one.group == "bands")
    (copy / "native" / "specialisations.txt").write_text(written([*by_time[:10], later]))
    program = f"""
import sys
sys.path.insert(0, {str(copy.parent)!r})
from numba.core import event
import kinbin, kinbin.warmup
from kinbin.native.specialisations import known, written
small = [one for one in known() if one.group == "small"]
kinbin.warmup.STAGES = {{"small": lambda *_: [one.compile() for one in small], "bands": None}}
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
states = []
kinbin.warm_up(states.append, ["small"])
print(len(small), len(compiled.buffer), states[0].done, states[-1].done, bool({{name for state in states for name in state.now}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        # Where code is compiled is told by any code, and what is not optimised is there sooner.
        env={"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "", "NUMBA_OPT": "0"}, capture_output=True, text=True, timeout=110, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["10", "0", "0", "10", "True"]


def test_a_pipe_is_told_in_lines() -> None:
    """Where there is no terminal, plain lines say what is compiled: at the start, every ten seconds, and at the end."""
    out = io.StringIO()
    with kinbin.showing_compilation(Console(file=out, width=200)) as progress:
        for state in STATES:
            progress(state)
    lines = out.getvalue().splitlines()
    assert lines[0] == "Compiling kernels: 0 of 3 are there, 0 s (scan, sweep)"
    assert lines[1] == "Compiling kernels: 2 of 3 are there, 12 s"
    assert lines[2].startswith("Compiled the kernels in 17 s")
    assert len(lines) == 3


def test_a_terminal_is_told_by_a_bar() -> None:
    """On a terminal the bar names the kernels that are being compiled, and one line stays of it."""
    out = io.StringIO()
    with kinbin.showing_compilation(Console(file=out, width=200, force_terminal=True)) as progress:
        for state in STATES:
            progress(state)
    assert "Compiled the kernels in 17 s" in out.getvalue()
    assert "\x1b[" in out.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_is_shown_if_nothing_is_compiled(terminal: bool) -> None:
    """A start from disk says nothing."""
    out = io.StringIO()
    with kinbin.showing_compilation(Console(file=out, force_terminal=terminal)) as progress:
        progress(STATES[-1])
    assert out.getvalue() == ""


@pytest.mark.slow
def test_each_kernel_is_found_by_a_process_that_compiles() -> None:
    """Such a process imports the modules of kernels, one at a time: they, and what it imports itself, name all layouts of records."""
    modules: dict[str, list[int]] = {}
    for place, one in enumerate(known()):
        modules.setdefault(one.module, []).append(place)
    for module, places in modules.items():
        program = f"from kinbin.native.specialisations import known; import kinbin.compiling\n[known()[i]._found() for i in {places}]"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, (module, done.stderr)
