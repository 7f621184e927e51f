"""The package of the TypeScript client, built where it is older than its sources, and programs of Node that use it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["PACKAGE", "ROOT", "Run", "runner"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "clients" / "typescript"

Run = Callable[..., str]


def runner() -> Run:
    """Runs a program of Node with the package built; skips where there is no Node, or where its packages are not installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    if not (PACKAGE / "node_modules" / "typescript").is_dir():
        pytest.skip("the packages of clients/typescript are not installed: make typescript")

    def run(*command: str, cwd: Path = PACKAGE, **environment: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
        done = subprocess.run(command, cwd=cwd, env=inherited | environment, capture_output=True, text=True, check=False, timeout=110)
        assert done.returncode == 0, f"{done.stdout[-6_000:]}\n{done.stderr[-2_000:]}"
        return done.stdout

    if not _is_built():
        run("npm", "run", "--silent", "build:all")
    return run


def _is_built() -> bool:
    """Whether what was compiled is newer than all sources: `make test` has seen to that; it takes ten seconds."""
    compiled = [PACKAGE / "dist" / "index.js", PACKAGE / "build" / "support.js"]
    sources = [*PACKAGE.glob("src/*.ts"), *PACKAGE.glob("test/*.ts"), *PACKAGE.glob("*.json")]
    newest = max(path.stat().st_mtime for path in sources)
    return all(path.exists() and path.stat().st_mtime >= newest for path in compiled)
