"""What spaces make at their first use, and hand to kernels as addresses, is made once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kinbin.native.memory import address_of
from kinbin.spaces import nested, product
from kinbin.spaces.once import once
from kinbin.spaces.registry import KERNELS
from kinbin.spaces.space import Space

SECONDS = 10.0


def held_up(make: Callable[..., object], others: int = 1) -> tuple[Callable[..., object], list[object]]:
    """make, which waits in its first call whether another thread comes in as well; and what it made."""
    made: list[object] = []
    inside, entered = threading.Semaphore(0), threading.Semaphore(0)

    def waiting(*arguments: object) -> object:
        entered.release()
        if entered.acquire(timeout=SECONDS) and not made:
            inside.acquire(timeout=0.2 * others)  # a second one would be here by now
        one = make(*arguments)
        made.append(one)
        inside.release()
        return one

    return waiting, made


def test_several_threads_get_the_same() -> None:
    """Threads that ask at once get one object, which was made once."""
    make, made = held_up(object)
    get = once(make)
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: get(), range(8)))
    assert len(made) == 1
    assert all(one is made[0] for one in got)


def test_a_failure_is_told_and_not_kept() -> None:
    """What `make` raises reaches the caller; the next call makes it."""
    tries: list[int] = []

    def make() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("planted")
        return 7

    get = once(make)
    with pytest.raises(OSError, match="planted"):
        get()
    assert (get(), get(), len(tries)) == (7, 7, 2)


@pytest.mark.parametrize("module", [product, nested], ids=["product", "nested"])
def test_records_of_a_space_name_the_context_that_is_kept(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    """Two threads that ask a new space for its records get records of one context, which lives as long as the space."""
    make, made = held_up(module._context)  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "_context", make)
    space: Space = product.product_of([KERNELS["gmm"], KERNELS["acos"]]) if module is product else nested._nested(nested.NESTED.parameters)
    with ThreadPoolExecutor(2) as pool:
        pool.map(lambda _: space._context, range(2))
    assert space.context is not None
    assert len(made) == 1
    assert int(space.record["context"][0]) == address_of(space.context())
