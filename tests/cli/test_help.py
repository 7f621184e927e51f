"""`kinbin --help` and that of long commands: each command and option under a heading, and none forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import Result

from kinbin_service.cli import COMMANDS, app
from kinbin_service.cli.panels import MANY, PANELS, panel_of

Run = Callable[..., Result]
GROUP: Any = typer.main.get_command(app)
OPTIONS = {
    name: [one.name for one in command.params if one.param_type_name == "option" and one.name != "help"]
    for name, command in GROUP.commands.items()
}


def test_every_command_is_in_a_group(run: Run) -> None:
    """The help has a box for each group, in order, with just the commands of the group, and no box besides."""
    told = run("--help").stdout
    headings = [line.strip("╭─╮ ") for line in told.splitlines() if line.startswith("╭")]
    assert headings == ["Options", *COMMANDS]
    assert sorted(name for group in COMMANDS.values() for name in group) == sorted(GROUP.commands)
    for heading, commands in COMMANDS.items():
        box = told.split(f"─ {heading} ─")[1].split("╰")[0]
        assert {line.split()[1] for line in box.splitlines() if line[2:3].isalpha()} == set(commands)


@pytest.mark.parametrize("command", [name for name, options in OPTIONS.items() if len(options) >= MANY])
def test_options_of_long_commands_are_in_groups(run: Run, command: str) -> None:
    """Each option stands under a heading of its own command, or a shared one; no heading names an option that is not there."""
    assert [option for option in OPTIONS[command] if panel_of(command, option) is None] == []
    assert {option for options in PANELS[command].values() for option in options} <= set(OPTIONS[command])
    told = run(command, "--help").stdout
    for heading in PANELS[command]:
        assert f"─ {heading} ─" in told


def test_short_commands_have_one_box(run: Run) -> None:
    """Where there are few options headings would only hide them."""
    assert set(PANELS) == {name for name, options in OPTIONS.items() if len(options) >= MANY}
    assert run("drop", "--help").stdout.count("─ Options ─") == 1
