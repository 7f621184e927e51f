"""Documents with planted near duplicates, as NDJSON: `python benchmarks/dedup_documents.py FILE --count 1000000`.

Nine tenths are new: 30 to 70 words of a vocabulary whose frequencies fall off as in text (Zipf). One tenth are copies of an
earlier new one with some words replaced, deleted or inserted; their Jaccard similarity of shingles of 3 words spreads over 0.5 to 1.
`"copy_of"` names what a copy was made of; nothing else tells.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

_VOCABULARY = 50_000
_BATCH = 10_000


def vocabulary(rng: np.random.Generator) -> list[str]:
    """Different words of 2 to 10 letters."""
    words: set[str] = set()
    while len(words) < _VOCABULARY:
        words.add("".join(map(chr, rng.integers(97, 123, rng.integers(2, 11)))))
    return sorted(words)


def edited(rng: np.random.Generator, words: NDArray[np.int64], draw: NDArray[np.int64]) -> NDArray[np.int64]:
    """A copy of a document with 0 to 4 words changed."""
    out = words.tolist()
    for word in draw[: rng.integers(0, 5)].tolist():
        place = int(rng.integers(len(out)))
        kind = rng.integers(3)
        if kind == 0:
            out[place] = word
        elif kind == 1:
            out.insert(place, word)
        elif len(out) > 10:
            del out[place]
    return np.array(out)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    words = vocabulary(rng)
    shares = 1.0 / np.arange(10, _VOCABULARY + 10)
    cumulated = np.cumsum(shares / shares.sum())
    kept: list[tuple[int, NDArray[np.int64]]] = []
    with given.file.open("wb") as file:
        for start in range(0, given.count, _BATCH):
            for number in range(start, min(start + _BATCH, given.count)):
                draw = np.searchsorted(cumulated, rng.random(int(rng.integers(30, 71)))).clip(max=_VOCABULARY - 1)
                document = {"id": number}
                if rng.random() < 0.1 and kept:
                    source, original = kept[int(rng.integers(len(kept)))]
                    draw = edited(rng, original, draw)
                    document["copy_of"] = source
                elif len(kept) < 200_000:
                    kept.append((number, draw))
                else:
                    kept[int(rng.integers(len(kept)))] = number, draw
                file.write(orjson.dumps(document | {"text": " ".join(words[word] for word in draw.tolist())}) + b"\n")


if __name__ == "__main__":
    main()
