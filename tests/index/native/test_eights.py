"""Eight codes at a time are as far as one by one, whatever the processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kinbin.native.eights import EIGHT, near_by_differences, near_by_squares
from kinbin.native.jit import strict
from kinbin.native.memory import address_of

U64 = np.uint64
WIDTHS = (64, 128, 192, 256, 1024)
STEP = 0.0078125


@strict
def _near(codes, width, probe, errors, reach, squares):  # type: ignore[no-untyped-def]
    if squares:
        return near_by_squares(codes, width, probe, errors, STEP, reach)
    return near_by_differences(codes, width, probe, errors, STEP, reach)


def near(codes: NDArray[np.uint8], probe: NDArray[np.uint8], errors: NDArray[np.float32], reach: float, *, squares: bool) -> list[bool]:
    """Of each of eight codes whether it is near."""
    arrays = [np.ascontiguousarray(one) for one in (codes, probe, errors)]
    at = [U64(address_of(one)) for one in arrays]
    bits = _near(at[0], U64(codes.shape[1]), at[1], at[2], reach, squares)
    return [bool(bits >> place & 1) for place in range(EIGHT)]


def lengths(codes: NDArray[np.uint8], probe: NDArray[np.uint8], errors: NDArray[np.float32], *, squares: bool) -> NDArray[np.float64]:
    """The slow twin: how far each code is at least."""
    apart = codes.astype(np.int64) - probe.astype(np.int64)
    told = np.sqrt((apart**2).sum(1).astype(np.float64)) if squares else np.abs(apart).sum(1).astype(np.float64)
    return np.asarray(told * STEP - errors.astype(np.float64))


def draws(width: int) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float32]]]:
    """Random codes, near ones, and such as are as far apart as can be."""
    rng = np.random.default_rng(width)
    probe = rng.integers(0, 256, width, np.uint8)
    errors = rng.random(EIGHT).astype(np.float32)
    random = rng.integers(0, 256, (EIGHT, width), np.uint8)
    close = np.clip(probe.astype(np.int64) + rng.integers(-3, 4, (EIGHT, width)), 0, 255).astype(np.uint8)
    far = np.full((EIGHT, width), 255, np.uint8)
    return [(random, probe, errors), (close, probe, errors), (far, np.zeros(width, np.uint8), errors)]


def wrong(width: int, *, squares: bool) -> list[str]:
    """Cases in which a bit is not as the slow twin says: at every code's own length, just below it, and just above."""
    found = []
    for number, (codes, probe, errors) in enumerate(draws(width)):
        true = lengths(codes, probe, errors, squares=squares)
        reaches = np.concatenate([true, np.nextafter(true, -np.inf), np.nextafter(true, np.inf)])
        found += [
            f"draw {number} of width {width}, squares {squares}, reach {reach}"
            for reach in reaches
            if near(codes, probe, errors, float(reach), squares=squares) != [bool(one <= reach) for one in true]
        ]
    return found


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_they_are_near_as_each_alone(width: int, squares: bool) -> None:
    """A code is near up to exactly its own distance."""
    assert not wrong(width, squares=squares)


@pytest.mark.parametrize("squares", [False, True])
def test_what_is_no_number_is_no_proof(squares: bool) -> None:
    """A code whose error is NaN, as damage may leave it, is passed over by nobody."""
    codes, probe, errors = draws(64)[0]
    errors[3] = np.nan
    assert near(codes, probe, errors, -1e9, squares=squares) == [place == 3 for place in range(EIGHT)]


@pytest.mark.slow
def test_older_processors_say_the_same(tmp_path: Path) -> None:
    """Code for any 64-bit x86 has none of the wide instructions, and the same bits."""
    if os.uname().machine != "x86_64":
        pytest.skip("code for x86 does not run here")
    program = (
        "from test_eights import WIDTHS, wrong\n"
        "print([one for width in WIDTHS for squares in (False, True) for one in wrong(width, squares=squares)])\n"
        "from numba.core.registry import cpu_target\n"
        "print(*cpu_target.target_context.codegen().magic_tuple())\n"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2", "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    answer = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 0, answer.stderr
    found, processor = answer.stdout.splitlines()
    assert found == "[]"
    assert "avx2" not in processor
