"""The drawings of the documentation, as SVG: `make docs` writes them into docs/drawings, `make docs-check` compares them.

Curves are computed from the formulas that the pages name, graphs from points: nothing is drawn by hand.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from svg import COLOURS, FAINT, INK, Axes, Drawing, Point

STEPS = [i / 200 for i in range(201)]


def tail(trials: int, chance: float, least: int) -> float:
    """P[Binomial(trials, chance) ≥ least], by the definition."""
    return 1 - math.fsum(math.comb(trials, c) * chance**c * (1 - chance) ** (trials - c) for c in range(least))


def mark() -> str:
    """The sign of the site: a few linked points."""
    drawing = Drawing(32, 32, "Kinbin")
    points = [(8, 9), (24, 7), (16, 17), (7, 25), (26, 24)]
    for a, b in ((0, 2), (1, 2), (2, 3), (2, 4), (0, 1)):
        drawing.line([points[a], points[b]], colour=COLOURS[0], width=2)
    for point in points:
        drawing.dot(point, 3.4, COLOURS[0])
    return drawing.svg()


def bands() -> str:
    """How likely two rows share a band, by their similarity."""
    drawing = Drawing(
        720, 400, "The probability 1 - (1 - s^r)^L that two rows share at least one of L bands of r hashes, by their similarity s"
    )
    axes = Axes(drawing, (70, 50), (460, 280))
    axes.frame("min-max similarity s of two rows", "probability of sharing a band")
    for colour, (r, L), place in zip(COLOURS, ((1, 16), (2, 64), (4, 128), (6, 200)), (110, 150, 190, 230), strict=False):
        axes.curve([(s, 1 - (1 - s**r) ** L) for s in STEPS], colour)
        drawing.line([(550, place), (580, place)], colour=colour, width=3)
        drawing.text((590, place + 5), f"r = {r}, L = {L}", anchor="start")
    drawing.text((550, 76), "1 − (1 − sʳ)ᴸ", anchor="start", bold=True)
    return drawing.svg()


def recall_bound() -> str:
    """How surely a row of some similarity shares c bands or more."""
    drawing = Drawing(
        720, 400, "P[Binomial(128, s^4) >= c] by similarity s, for c = 1, 2, 4, 8, 16, and the level .96 that a search stops at"
    )
    axes = Axes(drawing, (70, 50), (400, 280))
    axes.frame("min-max similarity s of the k-th best answer", "probability that such a row shares c bands or more")
    for colour, c, place in zip(COLOURS, (1, 2, 4, 8, 16), range(110, 290, 36), strict=True):
        axes.curve([(s, tail(128, s**4, c)) for s in STEPS], colour)
        s = next(s for s in STEPS if tail(128, s**4, c) >= 0.96)
        drawing.dot(axes.at(s, 0.96), 4, colour)
        drawing.line([(490, place), (520, place)], colour=colour, width=3)
        drawing.text((530, place + 5), f"c = {c}: from s = {s:.2f}", anchor="start")
    axes.curve([(0, 0.96), (1, 0.96)], INK, dashed=True)
    drawing.text((axes.at(0.01, 0.96)[0], axes.at(0, 0.96)[1] - 6), "aim .96", anchor="start", size=12)
    drawing.text((490, 76), "r = 4, L = 128", anchor="start", bold=True)
    return drawing.svg()


def runs() -> str:
    """From an add to one large run."""
    drawing = Drawing(720, 330, "Adds go into the journal, fresh rows are sealed into small runs, and runs are merged into larger ones")
    drawing.box((20, 40), (120, 54), "adds\none fsync each", kind="warm")
    drawing.arrow((140, 67), (190, 67))
    drawing.box((190, 30), (210, 74), "journal\nfresh rows: every query\ncompares all their keys")
    drawing.arrow((400, 67), (450, 67))
    drawing.text((425, 56), "seal", size=12)
    for i in range(3):
        drawing.box((450 + 88 * i, 40), (78, 54), "run\n8,192 rows", kind="good")
    drawing.line([(489, 94), (489, 122), (665, 122), (665, 94)], colour=FAINT)
    drawing.line([(577, 94), (577, 122)], colour=FAINT)
    drawing.arrow((577, 122), (577, 160))
    drawing.text((567, 146), "merge: rows are hashed again, with a larger r", anchor="end", size=12)
    drawing.box((450, 160), (254, 54), "larger run\nsome 65,000 rows", kind="good")
    drawing.arrow((577, 214), (577, 250))
    drawing.box((190, 250), (514, 54), "largest run\nsome 500,000 rows: blocks of rows, and a hash table for each band", kind="good")
    drawing.text((20, 176), "All of this in the background;", anchor="start", size=12)
    drawing.text((20, 194), "one commit switches to what was built.", anchor="start", size=12)
    drawing.text((20, 212), "Runs never change: dead rows are", anchor="start", size=12)
    drawing.text((20, 230), "masked, and leave with a merge.", anchor="start", size=12)
    return drawing.svg()


def _graph(points: list[Point], most: int = 5) -> dict[int, list[int]]:
    """A pruned neighbour graph: a neighbour is left out if a nearer one that was taken lies nearer to it (relative neighbourhood)."""
    links: dict[int, list[int]] = {}
    for a, at in enumerate(points):
        taken: list[int] = []
        for b in sorted((b for b in range(len(points)) if b != a), key=lambda b: math.dist(at, points[b])):
            if len(taken) < most and all(math.dist(points[c], points[b]) > math.dist(at, points[b]) for c in taken):
                taken.append(b)
        links[a] = taken
    return links


def _walk(points: list[Point], links: dict[int, list[int]], start: int, goal: Point) -> list[int]:
    """From a node to its neighbour nearest to the goal, until none is nearer."""
    path = [start]
    while True:
        best = min(links[path[-1]], key=lambda b: math.dist(points[b], goal))
        if math.dist(points[best], goal) >= math.dist(points[path[-1]], goal):
            return path
        path.append(best)


def links() -> str:
    """A walk through a pruned graph of some rows."""
    drawing = Drawing(720, 400, "A graph that joins rows to near ones, and a walk through it from an entry to the rows nearest to a query")
    draw = random.Random(11)
    points: list[Point] = []
    while len(points) < 70:
        point = (30 + 480 * draw.random(), 30 + 340 * draw.random())
        if all(math.dist(point, other) > 26 for other in points):
            points.append(point)
    query = (438.0, 118.0)
    graph = _graph(points)
    for a, near in graph.items():
        for b in near:
            drawing.line([points[a], points[b]], colour="#cfd8dc", width=1)
    start = max(range(len(points)), key=lambda i: math.dist(points[i], query))
    path = _walk(points, graph, start, query)
    drawing.line([points[i] for i in path], colour=COLOURS[1], width=3)
    near = sorted(range(len(points)), key=lambda i: math.dist(points[i], query))[:4]
    for i, point in enumerate(points):
        drawing.dot(point, 5 if i in near or i in path else 3.5, COLOURS[0] if i in near else COLOURS[1] if i in path else FAINT)
    drawing.line([(query[0] - 6, query[1] - 6), (query[0] + 6, query[1] + 6)], width=3)
    drawing.line([(query[0] - 6, query[1] + 6), (query[0] + 6, query[1] - 6)], width=3)
    for place, (colour, words) in zip(
        (90, 120, 150, 180),
        ((INK, "× the query"), (COLOURS[1], "the walk"), (COLOURS[0], "nearest rows"), (FAINT, "other rows")),
        strict=True,
    ):
        drawing.dot((548, place - 5), 5, colour)
        drawing.text((562, place), words, anchor="start")
    drawing.text((540, 236), f"{len(path) - 1} hops; the codes", anchor="start", size=12)
    drawing.text((540, 254), "of the neighbours of", anchor="start", size=12)
    drawing.text((540, 272), "each hop are compared.", anchor="start", size=12)
    return drawing.svg()


def query() -> str:
    """The way of a query."""
    drawing = Drawing(760, 430, "The way of a query: row, snapshot, route; walk, bands or scan; exact scores, checks, bound")
    for i, words in enumerate(("validate", "canonical row", "snapshot, view", "route\nby expected cost")):
        drawing.box((20 + 186 * i, 20), (160, 48), words)
        if i:
            drawing.arrow((20 + 186 * i - 26, 44), (20 + 186 * i, 44))
    steps = (
        (20, "walk\nlinked rows, by codes;\nrecall calibrated", "good"),
        (268, "bands\ncount shared bands, verify\ntill recall is proved", "good"),
        (516, "scan\nevery row that no code\nproves too far", "good"),
    )
    drawing.line([(658, 68), (658, 96), (132, 96)])
    for x, words, kind in steps:
        drawing.arrow((x + 112, 96), (x + 112, 122))
        drawing.box((x, 122), (224, 76), words, kind=kind)
        drawing.arrow((x + 112, 198), (x + 112, 274))
    drawing.arrow((244, 150), (268, 150), dashed=True)
    drawing.arrow((492, 150), (516, 150), dashed=True)
    drawing.text((256, 218), "rows without links, far queries", size=12)
    drawing.text((504, 218), "not certified, too few found", size=12)
    drawing.line([(256, 206), (256, 156)], colour=FAINT, width=1)
    drawing.line([(504, 206), (504, 156)], colour=FAINT, width=1)
    drawing.box((20, 274), (720, 48), "exact scores of stored vectors; each answered row is verified against its hash", kind="warm")
    drawing.arrow((380, 322), (380, 352))
    drawing.box((20, 352), (720, 54), "answer\nids, scores, recall bound or the reason why there is none, steps that were taken")
    return drawing.svg()


def add() -> str:
    """The way of an add."""
    drawing = Drawing(760, 400, "The way of an add: outside of the writer, the group commit, after the acknowledgement, upkeep")
    for i, words in enumerate(("validate", "canonical rows", "records\nhashes, band keys")):
        drawing.box((20 + 186 * i, 20), (160, 52), words)
        if i:
            drawing.arrow((186 * i - 6, 46), (20 + 186 * i, 46))
    drawing.text((586, 42), "outside of the writer,", anchor="start", size=12)
    drawing.text((586, 58), "in any thread", anchor="start", size=12)
    drawing.box(
        (206, 100),
        (346, 96),
        "group commit\none leader, one LMDB transaction:\nitems, owners, journal entry, dead bits,\nstate record; one fsync",
        kind="warm",
    )
    drawing.line([(552, 46), (572, 46), (572, 148)])
    drawing.arrow((572, 148), (552, 148))
    drawing.text((586, 136), "an identical row that is", anchor="start", size=12)
    drawing.text((586, 152), "there gains the new id;", anchor="start", size=12)
    drawing.text((586, 168), "no row is written", anchor="start", size=12)
    drawing.arrow((379, 196), (379, 224))
    drawing.box((206, 224), (346, 48), "acknowledged\ndurable, and searchable by every process", kind="good")
    drawing.arrow((379, 272), (379, 320))
    drawing.text((390, 300), "8,192 rows, or a pause of the writes", anchor="start", size=12)
    for i, words in enumerate(("seal\ninto a run", "merge runs\ngeometrically", "link\nthe neighbour graph")):
        drawing.box((20 + 250 * i, 320), (220, 54), words)
        if i:
            drawing.arrow((250 * i - 10, 347), (20 + 250 * i, 347))
    return drawing.svg()


DRAWINGS: dict[str, Callable[[], str]] = {
    f"docs/drawings/{draw.__name__.replace('_', '-')}.svg": draw for draw in (mark, bands, recall_bound, runs, links, query, add)
}
"""What is drawn, by the path of its file."""
