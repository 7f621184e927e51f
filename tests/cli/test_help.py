"""`kinbin --help` and that of long commands: each command and option under a heading, and none forgotten."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import Result

from kinbin_service.cli import COMMANDS, app, commands
from kinbin_service.cli.panels import MANY, PANELS, panel_of

Run = Callable[..., Result]
made_of = commands._made_of
GROUP: Any = typer.main.get_command(app)
OPTIONS = {
    name: [one.name for one in command.params if one.param_type_name == "option" and one.name != "help"]
    for name, command in GROUP.commands.items()
}


def listed(told: str) -> dict[str, list[str]]:
    """What a help lists under each heading: the first words of the lines that are indented by two."""
    under: dict[str, list[str]] = {}
    heading = ""
    for line in told.splitlines():
        if line.endswith(":") and line[:1].strip():
            heading = line.removesuffix(":")
            under[heading] = []
        elif heading and line.startswith("  ") and line[2:3].strip():
            under[heading].append(line.split()[0].rstrip(","))
    return under


def test_every_command_is_in_a_group(run: Run) -> None:
    """The help has a heading for each group, in order, with just the commands of the group, and none besides but that of options."""
    under = listed(run("--help").stdout)
    assert list(under) == ["Options", *COMMANDS]
    assert sorted(name for group in COMMANDS.values() for name in group) == sorted(GROUP.commands)
    assert {heading: under[heading] for heading in COMMANDS} == {heading: list(own) for heading, own in COMMANDS.items()}


def test_the_list_of_commands_has_a_whole_sentence_of_each(run: Run) -> None:
    """Nothing is cut off, in the list of all and in those of commands that have some of their own."""
    told = run("--help").stdout + run("key", "--help").stdout + run("cluster", "--help").stdout
    assert "..." not in told.replace("COMMAND [ARGS]...", "")
    assert "holds, or what is wrong with it (exit code 1)." in " ".join(told.split())


@pytest.mark.parametrize("command", [name for name, options in OPTIONS.items() if len(options) >= MANY])
def test_options_of_long_commands_are_in_groups(run: Run, command: str) -> None:
    """Each option stands under a heading of its own command, or a shared one; no heading names an option that is not there."""
    assert [option for option in OPTIONS[command] if panel_of(command, option) is None] == []
    assert {option for options in PANELS[command].values() for option in options} <= set(OPTIONS[command])
    under = listed(run(command, "--help").stdout)
    named = {one.name: set(one.opts) for one in GROUP.commands[command].params}
    for heading, options in PANELS[command].items():
        assert {name for name, own in named.items() if own & set(under[heading])} >= set(options)


def test_short_commands_have_one_list(run: Run) -> None:
    """Where there are few options headings would only hide them."""
    assert set(PANELS) == {name for name, options in OPTIONS.items() if len(options) >= MANY}
    assert list(listed(run("drop", "--help").stdout)) == ["Arguments", "Options"]


def test_the_help_makes_no_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty functions the options take longer to read than most commands run."""
    asked: list[str] = []

    def noting(name: str, maker: commands.Maker) -> Any:
        asked.append(name)
        return made_of(name, maker)

    monkeypatch.setattr(commands, "_made_of", noting)
    run("--help")
    run("--version")
    run("qury")
    assert asked == []
    run("drop", "--help")
    assert asked == ["drop"]


def test_help_and_errors_import_no_rich() -> None:
    """What draws boxes and colours takes as long to import as all the rest: it is there for tables and progress."""
    for line in ("--help", "query --help", "qury", "query --k x"):
        code = f"import sys; from kinbin_service.cli import app; sys.argv = {['kinbin', *line.split()]}; "
        code += "import atexit; atexit.register(lambda: print('rich' in sys.modules or 'numba' in sys.modules)); app()"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        assert ended.stdout.splitlines()[-1:] == ["False"], (line, ended)
