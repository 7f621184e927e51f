"""An extension of griffe, which reads docstrings for the Python reference: several errors on one line become one a line.

The code writes "Raises: / InvalidInput: no such item. CorruptData: a row is damaged." to save lines; griffe wants a line for each.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

SECTION = re.compile(r"^( *)Raises:\n((?:\1 +.*(?:\n|$)|\n)*)", re.MULTILINE)
AN_ERROR = re.compile(r"[A-Z][A-Za-z]+: ")
NEXT_ERROR = re.compile(r"(?<=[.;)]) +(?=[A-Z][A-Za-z]+: )")


def one_error_a_line(docstring: str) -> str:
    """The docstring with each error of its section "Raises" on a line of its own."""

    def split(match: re.Match[str]) -> str:
        entries: list[str] = []
        for line in filter(None, map(str.strip, match[2].splitlines())):
            if entries and not AN_ERROR.match(line):
                entries[-1] += f" {line}"
            else:
                entries.append(line)
        indent = match[1]
        each = [f"{indent}    {part}\n" for entry in entries for part in NEXT_ERROR.split(entry)]
        return f"{indent}Raises:\n{''.join(each)}\n"

    return SECTION.sub(split, docstring)


class OneErrorALine(Extension):
    """Applied to every object that is read."""

    def on_object(self, *, obj: Object, **_kwargs: Any) -> None:
        """Rewrite the object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = one_error_a_line(obj.docstring.value)
