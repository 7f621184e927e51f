"""The program `kinbin`: the command line, imported without collections of garbage on the way."""

from __future__ import annotations

import atexit
import gc

from kinbin.collector import collector_paused

__all__ = ["main"]


def main() -> None:
    """Run a command line. Most of them end before a collection would find anything."""
    with collector_paused():
        from kinbin_service.cli import app

    # What was imported stays, and collections need not look through it; at the end, not through anything: the system takes it all back.
    gc.freeze()
    atexit.register(gc.freeze)
    app(prog_name="kinbin")
