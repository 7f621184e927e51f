"""The same bits whatever the processor that code is generated for, and whatever the optimiser did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kinbin.hashing import EXPECTED_DIGESTS

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import numba
from numba.core.registry import cpu_target
from kinbin.hashing import SAMPLERS, sampler_digest
print(*(sampler_digest(name).hex() for name in SAMPLERS))
print(numba.config.OPT, *cpu_target.target_context.codegen().magic_tuple())
"""

# Beside code for this machine at the highest level, which is what is compiled anyway and hashes in all other tests.
VARIANTS = {
    "any 64-bit x86": {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2"},
    "AVX2 with fused multiply-add": {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    "this machine, not optimised": {"NUMBA_OPT": "0"},
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_digests_are_the_same(variant: str, tmp_path: Path) -> None:
    """Code generated for another instruction set or optimisation level computes the committed digests."""
    settings = VARIANTS[variant]
    if "NUMBA_CPU_NAME" in settings and os.uname().machine != "x86_64":
        pytest.skip("code for x86 does not run here")
    # An empty cache of its own: the ordinary one does not tell optimisation levels apart.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **settings}
    answer = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert answer.returncode == 0, answer.stderr
    digests, effective = answer.stdout.splitlines()
    for value in settings.values():
        assert value in effective
    assert digests.split() == [digest.hex() for digest in EXPECTED_DIGESTS.values()]
