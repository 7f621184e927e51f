"""Plain SVG for the drawings of the documentation: boxes, arrows, axes, curves. The same calls write the same bytes everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

INK, FAINT, PAPER = "#263238", "#90a4ae", "#ffffff"
FILLS = {"plain": "#eceff1", "good": "#d7efe9", "warm": "#fdebd0", "none": "#ffffff"}
COLOURS = ("#00796b", "#c25e00", "#4a5fb0", "#8e3b8a", "#5f6b00")
LINE_HEIGHT = 17

Point = tuple[float, float]


def _number(value: float) -> str:
    """A coordinate to a tenth, without a trailing zero: no platform rounds it otherwise."""
    return f"{value + 0.0:.1f}".removesuffix(".0")


@dataclass
class Drawing:
    """A drawing of some width and height in pixels, on white, so that it is readable on dark pages too."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def text(self, at: Point, words: str, *, anchor: str = "middle", colour: str = INK, size: int = 14, bold: bool = False) -> None:
        """One line of text; `at` is where its baseline begins, has its middle, or ends."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{_number(at[0])}" y="{_number(at[1])}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}>'
            f"{escape(words)}</text>"
        )

    def box(self, corner: Point, size: Point, words: str, *, kind: str = "plain") -> None:
        """A box with centred lines of text; the first line of several is bold."""
        (x, y), (w, h) = corner, size
        self.parts.append(
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(w)}" height="{_number(h)}" rx="6" fill="{FILLS[kind]}" '
            f'stroke="{INK}" stroke-width="1.2"/>'
        )
        lines = words.split("\n")
        top = y + h / 2 - (len(lines) - 1) * LINE_HEIGHT / 2 + 5
        for i, line in enumerate(lines):
            first = i == 0 and len(lines) > 1
            self.text((x + w / 2, top + i * LINE_HEIGHT), line, size=14 if first or len(lines) == 1 else 12, bold=first)

    def line(self, points: Iterable[Point], *, colour: str = INK, width: float = 1.4, dashed: bool = False, arrow: bool = False) -> None:
        """A line through points, with an arrow's head at its end if asked."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        head = ' marker-end="url(#head)"' if arrow else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}{head}/>')

    def arrow(self, *points: Point, dashed: bool = False) -> None:
        """An arrow through points."""
        self.line(points, arrow=True, dashed=dashed)

    def dot(self, at: Point, radius: float = 3, colour: str = INK) -> None:
        """A disc."""
        self.parts.append(f'<circle cx="{_number(at[0])}" cy="{_number(at[1])}" r="{_number(radius)}" fill="{colour}"/>')

    def svg(self) -> str:
        """The file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'font-family="system-ui, sans-serif">\n<title>{escape(self.title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" rx="8" fill="{PAPER}"/>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )


@dataclass
class Axes:
    """A plot's frame within a drawing: values from 0 to 1 on both axes, with labels."""

    drawing: Drawing
    corner: Point
    size: Point

    def at(self, x: float, y: float) -> Point:
        """Where a point of the plot lies in the drawing."""
        return self.corner[0] + x * self.size[0], self.corner[1] + (1 - y) * self.size[1]

    def frame(self, x_label: str, y_label: str, ticks: Sequence[float] = (0, 0.2, 0.4, 0.6, 0.8, 1)) -> None:
        """Both axes, a grid, and what they show."""
        for tick in ticks:
            self.drawing.line([self.at(tick, 0), self.at(tick, 1)], colour="#e3e8ea", width=1)
            self.drawing.line([self.at(0, tick), self.at(1, tick)], colour="#e3e8ea", width=1)
            x, y = self.at(tick, 0)
            self.drawing.text((x, y + 18), f"{tick:g}", size=12)
            x, y = self.at(0, tick)
            self.drawing.text((x - 8, y + 4), f"{tick:g}", anchor="end", size=12)
        self.drawing.line([self.at(0, 1), self.at(0, 0), self.at(1, 0)])
        middle, below = self.at(0.5, 0)
        self.drawing.text((middle, below + 40), x_label)
        self.drawing.text((self.corner[0] - 34, self.corner[1] - 14), y_label, anchor="start")

    def curve(self, points: Iterable[Point], colour: str, *, dashed: bool = False) -> None:
        """A curve through points of the plot."""
        self.drawing.line([self.at(x, y) for x, y in points], colour=colour, width=2.4, dashed=dashed)
