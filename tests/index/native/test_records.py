"""Records that kernels are handed: they say what they hold, and take no array of another type."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import numpy as np
import pytest

import kinbin
from kinbin.native.memory import address_of
from kinbin.native.records import LAYOUTS, Layout
from kinbin.rows.lookup import LOOKUP
from kinbin.rows.scratch import SCRATCH
from kinbin.segments.descriptors import RUN


def test_a_record_holds_addresses_and_numbers() -> None:
    """Arrays stand for their addresses; what is not given is 0; a copy is another record."""
    layout = Layout("TESTED", count=("count", ""), values=("f32[]", ""), share=("number", ""), shift=("bits", ""))
    try:
        values = np.arange(3, dtype=np.float32)
        record = layout.record(count=3, values=values, share=0.5)
        assert record.shape == (1,)
        assert [record[name][0] for name in layout.fields] == [3, address_of(values), 0.5, 0]
        other = record.copy()
        layout.fill(other, count=4)
        assert (record["count"][0], other["count"][0]) == (3, 4)
        assert [layout.offset(name) for name in layout.fields] == [0, 8, 16, 24]
        for wrong in (values.astype(np.float64), np.arange(6, dtype=np.float32)[::2], np.ones((2, 2), np.float32).T[::-1]):
            with pytest.raises(AssertionError, match=r"TESTED\.values"):
                layout.fill(record, values=wrong)
        with pytest.raises((KeyError, ValueError)):
            layout.fill(record, unknown=1)
    finally:
        del LAYOUTS["TESTED"]


def test_every_field_says_what_it_is() -> None:
    """Kinds are those that there are, and all but sizes of arrays have a meaning."""
    for layout in LAYOUTS.values():
        for field, (kind, meaning) in layout.fields.items():
            assert kind in {"count", "number", "bits", "address"} or kind.endswith("[]"), f"{layout.name}.{field}"
            assert meaning or kind == "count" or kind.endswith("[]"), f"{layout.name}.{field} has no meaning"


def test_no_two_layouts_have_the_same_name() -> None:
    """Kernels are written down by the names of layouts: of two with one name, a warm-up would look for kernels that nobody calls."""
    found: dict[str, list[Layout]] = {}
    for module in pkgutil.walk_packages(kinbin.__path__, "kinbin."):
        if not module.name.endswith("__main__"):
            for one in vars(import_module(module.name)).values():
                if isinstance(one, Layout) and not any(one is known for known in found.setdefault(one.name, [])):
                    found[one.name].append(one)
    assert {name: len(layouts) for name, layouts in found.items()} == dict.fromkeys(found, 1)
    assert found.keys() >= {"TREE", "RUN", "SCRATCH"}


def test_work_space_begins_with_a_look_up() -> None:
    """Functions that are called by address see a look-up where work space begins."""
    assert [SCRATCH.offset(name) for name in LOOKUP.fields] == [LOOKUP.offset(name) for name in LOOKUP.fields]
    assert RUN.dtype.itemsize == 8 * len(RUN.fields)
