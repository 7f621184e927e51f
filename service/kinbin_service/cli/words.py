"""Messages of the library and the service in the words of the command that runs: its options by the names under which they were given."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any

__all__ = ["in_its_words", "runs"]

_running: ContextVar[Any] = ContextVar("running", default=None)


def runs(command: Any) -> None:
    """Remember the command that runs."""
    _running.set(command)


def in_its_words(message: str) -> str:
    """A message in which parameters have the names of the command's options: `min_score is …` is `--min-score is …`.

    A parameter of one word is one only where a sentence begins with it, or gives it as advice: `miss is 0, or …`.
    """
    told = message
    for name, option in _options().items():
        word = re.escape(name)
        one_word = rf"(?:(?<=^)|(?<=bad_parameter: )|(?<=over_limit: )|(?<=give )){word}(?=$|:| is | are | has | comes )"
        told = re.sub(rf"(?<![\w-]){word}(?![\w-])" if "_" in name else one_word, option, told)
    # On a command line nothing is null: the option is left out.
    return told if told == message else re.sub(r", or null(?=$|[;:,.])", "", told)


def _options() -> dict[str, str]:
    """The options of the command by the names that the library has for them."""
    found: dict[str, str] = {}
    for parameter in getattr(_running.get(), "params", ()):
        if options := [one for one in parameter.opts if one.startswith("-")]:
            longest = max(options, key=len)
            found[parameter.name] = found[longest.lstrip("-").replace("-", "_")] = longest
    return found
