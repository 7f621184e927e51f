"""`kinbin key`: a new key with its line, and what a file holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
from typer.testing import Result

from kinbin_service.key_file import digest_of, parse

Run = Callable[..., Result]


def test_a_new_key_comes_with_its_line(run: Run) -> None:
    """The line that is printed is that of the key that is printed, for people and as JSON."""
    made = run("key", "new", "shop", "--role", "write", "--collections", "a,b")
    key, line = (row.split(":", 1)[1].strip() for row in made.stdout.splitlines())
    (parsed,) = parse(line)
    assert (parsed.name, parsed.role, parsed.collections, parsed.digest) == ("shop", "write", frozenset("ab"), digest_of(key))
    told = orjson.loads(run("key", "new", "shop", "--json").stdout)
    (parsed,) = parse(told["line"])
    assert (parsed.role, parsed.collections, parsed.digest) == ("read", None, digest_of(told["key"]))


def test_what_no_line_can_hold_is_refused(run: Run) -> None:
    """A role or a name that is none ends with exit code 2, and no key is printed."""
    refused = run("key", "new", "shop", "--role", "owner")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "a role is one of metrics, backup, read, write, admin" in refused.stderr
    for arguments, fault in (
        (("two words",), "a name has"),
        (("shop", "--collections", "UPPER,x y"), "collections are names"),
        (("shop", "--role", "metrics", "--collections", "a"), "names no collections"),
    ):
        refused = run("key", "new", *arguments)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert fault in refused.stderr


def test_a_file_is_told_or_refused(run: Run, tmp_path: Path) -> None:
    """`kinbin key check` lists names, roles and collections; a file that a server would not take is exit code 1 with the line."""
    path = tmp_path / "keys"
    path.write_text(f"a read {'0' * 64} x,y\nb admin {'1' * 64}\n")
    assert run("key", "check", str(path)).stdout == "a  read  x, y\nb  admin  all collections\n"
    path.write_text("a read nothing")
    refused = run("key", "check", str(path))
    assert refused.exit_code == 1
    assert "line 1: the third word" in refused.stderr
    assert run("key", "check", str(tmp_path / "none")).exit_code == 1
