"""Messages of the library and the service in the words of the command that runs: its options by the names under which they were given."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any

__all__ = ["given_as", "in_its_words", "runs"]

_running: ContextVar[Any] = ContextVar("running", default=None)
_given: ContextVar[dict[str, str]] = ContextVar("given")

_TEXT_OR_NUMBER = r"\"?([\w.*-]+)\"?"


def runs(command: Any) -> None:
    """Remember the command that runs."""
    _running.set(command)
    _given.set({})


def given_as(name: str, option: str) -> None:
    """Remember that what the library calls by this name was given by another option than that of the name."""
    _given.set(_given.get({}) | {name: option})


def in_its_words(message: str) -> str:
    """A message in which parameters have the names of the command's options: `min_score is …` is `--min-score is …`.

    A parameter of one word is one only where a sentence begins with it, or gives it as advice: `miss is 0, or …`. Values that are advised
    are written as here: `dim=2` is `--dim 2`, and `parameters={"length": 128}` is `--parameter length=128`. Pointers (`#/min_score`) stay.
    """
    told = message
    options = _options() | _given.get({})
    if "parameters" in options:
        told = re.sub(r"\bparameters=\{([^{}]*)\}", lambda found: _as_options(options["parameters"], found[1]), told)
    for name, option in options.items():
        word = re.escape(name)
        told = re.sub(rf"(?<=say ){word}={_TEXT_OR_NUMBER}", rf"{option} \1", told)
        one_word = rf"(?:(?<=^)|(?<=\d: )|(?<=bad_parameter: )|(?<=over_limit: )|(?<=give )){word}(?=$|:| is | are | has | comes )"
        told = re.sub(rf"(?<![\w/-]){word}(?![\w-])" if "_" in name else one_word, option, told)
    # On a command line nothing is null: the option is left out.
    return told if told == message else re.sub(r", or null(?=$|[;:,.])", "", told)


def _as_options(option: str, members: str) -> str:
    """Members of an object as an option that is given once for each."""
    return " ".join(f"{option} {key}={value}" for key, value in re.findall(rf'"(\w+)": {_TEXT_OR_NUMBER}', members))


def _options() -> dict[str, str]:
    """The options of the command by the names that the library has for them."""
    found: dict[str, str] = {}
    for parameter in getattr(_running.get(), "params", ()):
        if options := [one for one in parameter.opts if one.startswith("-")]:
            longest = max(options, key=len)
            found[parameter.name] = found[longest.lstrip("-").replace("-", "_")] = longest
    if "parameter" in found:
        # Given once for each, and one object to the library.
        found["parameters"] = found["parameter"]
    return found
