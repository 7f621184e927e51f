"""What a space is: which vectors it takes, how near two of them are, and which bounds tie that to hashes and codes.

The engine ranks by a *score* from 0 on, the larger the nearer, and prints what the space makes of it: a similarity, or a
distance. Bands hash rows so that two collide with the probability of their min-max similarity, or by another law; codes bound the
distance of shapes. A space whose score is not that similarity itself says how they are tied: the least collision probability of a
pair of some score (so bands prove), the most that a pair can score whose shapes are so far apart (so codes prune).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.alignment import Alignment
from kinbin.items.embedding import Embedding
from kinbin.items.functions import Functions
from kinbin.parameters import Value
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import distance_of
from kinbin.spaces.pairwise import Pairwise
from kinbin.spaces.prints import Parameter

if TYPE_CHECKING:
    from kinbin.spaces.pyramid import Pyramid

__all__ = ["SHAPES", "UNIT_ROOTS", "UNIT_ROWS", "Code", "Kernel", "Law", "Objects", "Space", "unchanged"]

SHAPES, UNIT_ROWS, UNIT_ROOTS = "L1 of shapes", "L2 of unit rows", "L2 of unit roots"
"""How far apart two rows are, for the bounds of a space and for its codes: the L1 distance of the rows divided by their sums, the L2
distance of the rows divided by their lengths, or that of the square roots of the rows divided by their sums."""

Values = TypeVar("Values", float, NDArray[np.float64])


def unchanged(values: Values) -> Values:
    """What a space prints of its scores that says nothing else."""
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """The machine code of a space: functions that are compiled by `native.jit.strict`, see `spaces.native.SPACE`.

    All but the first are handed the address of the space's context (0 if it has none).
    """

    score: Any
    """(address of a row's record, its nonzeros, address of the look-up's record) → float64; NaN of a damaged row."""
    best: Any = None
    """(context, distance as the space's `geometry` says, norm, norm) → the most that a pair can score. None: rows have no codes."""
    farthest: Any = None
    """(context, score) → the distance beyond which no pair scores so much: the inverse of `best`."""
    least: Any = None
    """(context, score) → the least min-max similarity of a pair of this score. None: none is known."""
    best_of_shapes: Any = None
    """As `best`, of the distance of shapes in L1, where `geometry` is another one and something is known."""
    objects: Objects | None = None
    """How queries that are objects are laid out. None: they are looked up feature by feature."""


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """How a query is prepared whose rows are objects: strings, series, point sets."""

    prepare: Any
    """(address of the query's float32 values, how many, address of the look-up's record) → 0.0: lays the query out at `work_at`.

    Machine code. The room is as the query before left it. Values stay where they are while rows are scored. `score` finds there what
    was laid out, and at `cutoff_at` the score that is looked for: of a row that scores less it may return 0 at once.
    """
    room: Callable[[Rows], int]
    """The most 8-byte words that one of these queries takes there."""
    row_ns: Callable[[float], float]
    """The time that scoring a row takes, in the mean, of a collection whose rows hold so many numbers: slices of scans are cut by it."""
    sketch: Sketch | None = None
    """By which scans pass over rows. None: they score every one."""


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """64 bytes of an object, by which scans pass over rows that are too far: a distance bounds how much they differ.

    They are made of sealed rows in memory, when a process first needs them. Functions are machine code, but for `frame`.
    """

    make: Any
    """(address of float32 values, how many, address of the frame, address of 64 bytes) → 0.0: writes the sketch of an object."""
    reach: Any
    """(address of the frame, score) → the most that the sketches of a pair of this score, or a better one, are apart."""
    size_reach: Any = None
    """(address of the frame, score) → the most that the numbers of objects differ by that score so much. None: any number."""
    frame: Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.float64]] | None = None
    """What the sketches of a run's rows, and of queries of it, are made with: of some rows, values (n,) laid end to end and where each
    begins. They may be damaged. None: nothing, and the address is 0."""
    greatest: bool = False
    """Whether sketches are as far apart as the greatest difference of two bytes; otherwise as the sum of all differences."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """How often codes of a sampler collide that is not one of the min-max similarity."""

    least: Any
    """(context, score) → the least probability of a collision of a pair of this score. Machine code, as all but `score_at`."""
    score_at: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    """Its inverse for arrays: the least scores whose pairs collide with these probabilities at least; inf where none does."""
    collision: Any
    """(as `Code.score`) → the probability of a collision of a stored row and the query."""
    roots: bool = False
    """Whether rows are hashed as the square roots of their values."""


@dataclass(frozen=True, eq=False)
class Space:
    """One kernel. Two are equal only if they are the same object."""

    name: str
    title: str
    formula: str
    shapes: bool
    """Whether rows are compared by their shapes only: each is divided by its sum of absolute values first."""
    signed: bool
    """Whether negative values are allowed (and split off); otherwise they are refused."""
    code: Code | None = None
    """None: the score is the min-max similarity."""
    printed: Callable[[Any], Any] = unchanged
    """The number that is printed of a score (or of an array of them). It rises with the score; a distance falls."""
    score_of: Callable[[float], float] = unchanged
    """The inverse of `printed`."""
    ascending: bool = False
    """Whether distances are printed: the smaller the nearer."""
    printed_range: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest number that is printed; a distance may have no greatest (inf)."""
    hashes: bool = True
    """Whether rows are hashed so that bands find them. Without, runs have no bands, and what they would prove is scanned.

    False where the code has no `least` and there are no `laws`.
    """
    codes: bool = True
    """Whether rows have codes whose distance means something. Without, rows are not linked."""
    geometry: str = SHAPES
    """What the distance of codes bounds."""
    score_at: Callable[[NDArray[np.float64]], NDArray[np.float64]] = unchanged
    """The least scores whose pairs have at least these min-max similarities: the inverse of `Code.least`. inf stays inf."""
    pairwise: Pairwise | None = None
    """How the scores of all pairs of two matrices follow from sums over their rows. None: `kinbin.features` does not take the space."""
    laws: Mapping[str, Law] = field(default_factory=dict)
    """Samplers besides those of the min-max similarity, by name; they are preferred."""
    sampler: str | None = None
    """The one that rows are hashed by. None: the preferred one."""
    declared: Mapping[str, Parameter] = field(default_factory=dict)
    """The parameters of the kernel, by name."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """Their values here."""
    of: Callable[[Mapping[str, Any]], Space] | None = None
    """The same kernel with other values.

    Raises InvalidInput where values that are right alone do not go together.
    """
    pyramid: Pyramid | None = None
    """What rows are made of vectors by, and vectors of rows. None: a row is the vector itself.

    It is asked where vectors come in and go out, and nowhere else: all that is stored, hashed, coded and scored are rows.
    """
    context: Callable[[], NDArray[np.void]] | None = None
    """Makes, and keeps, a record whose address the code is handed."""
    embeddings: tuple[Embedding, ...] = ()
    """Of objects: the rows by which a pool of near ones may be found, in the order in which they are tried."""
    sized: Callable[[int], Space] | None = None
    """The same kernel for objects of so many dimensions (`Form.dim`), where its code has to know."""

    functions: Functions | None = None
    """Of the user's, where the code calls them."""
    factors: tuple[Space, ...] = ()
    """The kernels whose product it is."""
    aligned: Callable[[NDArray[np.float32], NDArray[np.float32], float], Alignment] | None = None
    """Of objects: (query's numbers, item's, distance) → what the distance is made of. Numbers are (n,), or (n, dims) where items have a
    dimension. None: nothing is known but the distance."""

    def __post_init__(self) -> None:
        if self.code is not None and self.code.least is None and not self.laws:
            # Nothing ties its scores to a collision.
            object.__setattr__(self, "hashes", False)
        if self.code is not None and self.code.best is None:
            # Nor to a distance of codes.
            object.__setattr__(self, "codes", False)

    def falls_short(self, printed: Any, limit: float) -> Any:
        """Whether a printed number (or each of an array) is farther than a limit.

        What is measured is kept as a score, and what is printed of it may be a rounding more: 49.00000000000001 of 49. So the limit is
        rounded alike, and nothing within it is left out.
        """
        if not self.ascending:
            return printed < limit
        return printed > (max(limit, distance_of(self.score_of(limit))) if self.printed is distance_of else limit)

    def stored_dim(self, dim: int | None) -> int | None:
        """The length of the rows of vectors of this length; None: rows have no length."""
        return dim if self.pyramid is None else self.pyramid.row_dim

    def rows_of(self, vectors: Rows) -> Rows:
        """The rows that are stored of vectors, and asked for."""
        return vectors if self.pyramid is None else self.pyramid.rows_of(vectors)

    def vectors_of(self, rows: Rows) -> Rows:
        """The vectors of stored rows: the inverse."""
        return rows if self.pyramid is None else self.pyramid.vectors_of(rows)

    @property
    def objects(self) -> Objects | None:
        """How queries that are objects are laid out; None: items are vectors."""
        return None if self.code is None else self.code.objects

    def raise_failure(self) -> None:
        """Raise what a function of the user's raised, if it did: then a row that scored nothing was not damaged."""
        failure = None if self.functions is None else self.functions.take_failure()
        if failure is not None:
            raise failure

    @property
    def normalised(self) -> bool:
        """Whether rows are divided by their sum of absolute values first."""
        return self.shapes

    @property
    def called(self) -> str:
        """Its name, for people."""
        return self.name if self.functions is None else "a function of your own"

    @property
    def samplers(self) -> tuple[str, ...]:
        """Names of the samplers that rows may be hashed by, the preferred ones first."""
        if not self.hashes:
            return ()
        by_similarity = self.code is None or self.code.least is not None
        return (*self.laws, *(() if not by_similarity else ("gcws", "dart") if self.shapes else ("gcws",)))

    def hashed_by(self, sampler: str) -> Space:
        """The same space, hashed by one of its samplers."""
        if sampler not in self._hashed:
            self._hashed[sampler] = replace(self, sampler=sampler)
        return self._hashed[sampler]

    @cached_property
    def _hashed(self) -> dict[str, Space]:
        """The same space by its samplers, as far as somebody asked for them."""
        return {}

    @property
    def _law(self) -> Law | None:
        """What is known of the sampler's collisions. None: their probability is the min-max similarity."""
        return self.laws.get(self.sampler or next(iter(self.samplers), ""))

    @property
    def roots(self) -> bool:
        """Whether rows are hashed as the square roots of their values."""
        return self._law is not None and self._law.roots

    @cached_property
    def record(self) -> Any:
        """What kernels are handed. Cost: the space's code is compiled or loaded at first."""
        from kinbin.native.calls import BOUND, CURVE, SCORE, code_address
        from kinbin.spaces.native import SPACE

        if self.code is None:
            return SPACE.record(shapes=int(self.shapes))
        least = self.code.least if self._law is None else self._law.least
        return SPACE.record(
            shapes=int(self.shapes),
            score=code_address(self.code.score, SCORE),
            best=0 if self.code.best is None else code_address(self.code.best, BOUND),
            farthest=0 if self.code.farthest is None else code_address(self.code.farthest, CURVE),
            least=0 if least is None else code_address(least, CURVE),
            context=self._context,
            **({} if self.objects is None else self._object_code(self.objects)),
        )

    @staticmethod
    def _object_code(objects: Objects) -> dict[str, int]:
        from kinbin.native.calls import CURVE, SCORE, SKETCH, code_address

        told, sketch = {"prepare": code_address(objects.prepare, SCORE)}, objects.sketch
        if sketch is None:
            return told
        told |= {"sketch": code_address(sketch.make, SKETCH), "sketch_reach": code_address(sketch.reach, CURVE)}
        if sketch.size_reach is not None:
            told["size_reach"] = code_address(sketch.size_reach, CURVE)
        return told | {"sketch_greatest": int(sketch.greatest)}

    @cached_property
    def law(self) -> Any:
        """The record of a space whose score is the probability that codes collide, for the same rows."""
        from kinbin.native.calls import SCORE, code_address
        from kinbin.spaces.native import SPACE

        if self._law is None:
            return SPACE.record(shapes=int(self.shapes))
        return SPACE.record(shapes=int(self.shapes), score=code_address(self._law.collision, SCORE), context=self._context)

    @property
    def _context(self) -> np.uint64:
        from kinbin.native.memory import address_of

        return np.uint64(0 if self.context is None else address_of(self.context()))

    def least_similarity(self, score: float) -> float:
        """The least probability of a collision of a pair of this score: what bands certify by."""
        least = self._law.least if self._law is not None else None if self.code is None else self.code.least
        return score if least is None else float(least(self._context, float(score)))

    def scores_vouching(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """The least scores whose pairs collide with at least these probabilities (any shape); inf, or more than 1, where none does."""
        return self.score_at(probabilities) if self._law is None else self._law.score_at(probabilities)

    def best_score(self, distance: float, norm: float = 1.0, other: float = 1.0) -> float:
        """The most that a pair can score that is so far apart (see `geometry`), of rows of these norms: what codes prune by."""
        if self.code is not None:
            return float(self.code.best(self._context, float(distance), float(norm), float(other)))
        shared = max(0.0, 1.0 - 0.5 * distance)
        norm, other = (1.0, 1.0) if self.shapes else (norm, other)
        both = min(norm, other, max(norm, other) * shared)
        return both / (norm + other - both)

    def farthest_distance(self, score: float) -> float:
        """The distance (see `geometry`) beyond which no pair scores so much, where shapes are compared."""
        if self.code is None:
            return 2.0 * (1.0 - score) / (1.0 + score)
        return float(self.code.farthest(self._context, float(score)))


Kernel = Space
"""What users call it."""
