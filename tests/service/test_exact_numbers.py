"""Values keep their bits through JSON."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from kinbin_service.exact_numbers import exact_numbers
from service_app import App

DIFFICULT = np.uint32(0x15AE43FD).view(np.float32)
"""A float32 whose shortest decimal, 7.038531e-26, lies so near the middle to the next float32 that rounding twice leads there."""


def test_a_plain_decimal_of_the_difficult_value_leads_to_its_neighbour() -> None:
    """What the detour is for: read as a double and then rounded, the shortest decimal of this value is another one."""
    value = np.array([DIFFICULT])
    assert np.float32(float(orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))[0])) != value[0]


@pytest.mark.parametrize("sign", [1, -1])
async def test_every_value_comes_back_to_the_bit(app: App, rng: np.random.Generator, sign: int) -> None:
    """Dense and sparse vectors that the service answers, made float32, are those that were added."""
    values = rng.integers(np.float32(1e-30).view(np.uint32), np.float32(1e15).view(np.uint32), 999, dtype=np.uint32).view(np.float32)
    values = np.append(values, np.float32(sign) * DIFFICULT)
    await app.put("/v1/collections/dense", {"kernel": "gmm", "dim": 1_000})
    await app.put("/v1/collections/sparse", {"kernel": "gmm"})
    doubles = values.astype(np.float64).tolist()
    await app.post("/v1/collections/dense/index", {"items": [{"id": "a", "vector": doubles}]})
    await app.post("/v1/collections/sparse/index", {"items": [{"id": "a", "vector": {"indices": list(range(1_000)), "values": doubles}}]})
    for name in ("dense", "sparse"):
        (item,) = (await app.post(f"/v1/collections/{name}/get", {"ids": ["a"], "include": ["vector"]}))["items"]
        read = item["vector"] if name == "dense" else item["vector"]["values"]
        assert np.array_equal(np.array(read).astype(np.float32), values)


def test_few_digits_where_they_do(rng: np.random.Generator) -> None:
    """Arrays without the difficult value are left as they are."""
    values = rng.random(100, dtype=np.float32)
    assert exact_numbers(values) is values
