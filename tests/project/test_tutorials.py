"""What tutorials say beside their output: they can be done again, and what they tell of other libraries is so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from examples import examples

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def test_folders_of_tutorials_are_made_twice(tmp_path: Path) -> None:
    """Whoever does a tutorial again, in the folder of the first time, is not stopped by a folder that is there."""
    shell = [one.code for page in TUTORIALS for one in examples(page, ROOT) if one.language == "bash"]
    made = [part.strip() for code in shell for line in code.splitlines() for part in line.split("&&") if part.strip().startswith("mkdir ")]
    assert made
    for command in made * 2:
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr


def test_datasketch_drops_negative_weights_with_a_warning() -> None:
    """The tutorial names the version that is installed, which warns of negative weights, and hashes a row as if they were zero."""
    datasketch = pytest.importorskip("datasketch")
    text = " ".join((ROOT / "docs" / "tutorials" / "from-datasketch.md").read_text(encoding="utf-8").split())
    told = f"Negative weights, which datasketch {datasketch.__version__} drops with no more than a RuntimeWarning of NumPy"
    assert told in text
    generator = datasketch.WeightedMinHashGenerator(3, sample_size=64)
    with pytest.warns(RuntimeWarning):
        dropped = generator.minhash(np.array([1.0, -2.0, 3.0]))
    assert dropped == generator.minhash(np.array([1.0, 0.0, 3.0]))
