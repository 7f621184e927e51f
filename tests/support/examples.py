"""Examples of a document: its fences of Python and shell, each with the output that the document shows for it."""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from pathlib import Path

from check_docs import FENCE, line_of

RUN = ("python", "bash")
OUTPUT = ("text", "json")


@dataclass(frozen=True)
class Example:
    """Code to run, and what the next fence shows of its output, if that follows at once."""

    document: str
    line: int
    language: str
    code: str
    shown: str | None

    def check(self, printed: str) -> None:
        """Raise AssertionError unless it was printed what is shown; `...` stands for anything, spaces and line ends are alike."""
        if self.shown is not None:
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            as_shown = doctest.OutputChecker().check_output(self.shown, printed, flags)
            assert as_shown, f"{self.document}:{self.line}: shown is\n{self.shown}\nprinted was\n{printed}"


def examples(document: Path, root: Path | None = None) -> list[Example]:
    """All of a document, in its order; ValueError if it shows an output that no example prints. It is named by its path below `root`."""
    name = document.relative_to(root or document.parent).as_posix()
    found: list[Example] = []
    text = document.read_text(encoding="utf-8")
    end = 0
    for fence in FENCE.finditer(text):
        line, language, body = line_of(text, fence.start()), fence["language"], fence["body"]
        if language in RUN:
            found.append(Example(name, line, language, body, None))
        elif language in OUTPUT:
            if not found or found[-1].shown is not None or re.search(r"\S", text[end : fence.start()]):
                raise ValueError(f"{name}:{line}: an output that does not follow what prints it")
            last = found.pop()
            found.append(Example(last.document, last.line, last.language, last.code, body))
        end = fence.end()
    return found
