from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_cluster.measures import GATEWAY_METRICS, NODE_METRICS, Families, Lag, Rate, Worked


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=60))
def test_lag_is_the_age_of_the_oldest_look_that_saw_what_is_not_applied(steps: list[tuple[int, int]]) -> None:
    """However a log grows and is applied, lag is what is left of the last look, and as old as the first look that saw any of it."""
    lag, looks = Lag(), [(0.0, 0)]
    last = applied = 0
    for time, (grown, done) in enumerate(steps, 1):
        last += grown
        applied = min(last, applied + done)
        lag.look(float(time), last, applied)
        looks.append((float(time), last))
        missing = [at for at, seen in looks if seen > applied]
        assert lag.behind(time + 0.5, applied) == (max(0, looks[-1][1] - applied), time + 0.5 - min(missing) if missing else 0.0)


def test_a_log_that_tells_nothing_grows_older() -> None:
    """Without further looks what was not applied grows older, and is gone once it is applied."""
    lag = Lag()
    lag.look(10.0, 5, 3)
    assert lag.behind(70.0, 3) == (2, 60.0)
    assert lag.behind(70.0, 5) == (0, 0.0)


def test_lag_of_a_replica_that_stands_still_takes_no_more_memory() -> None:
    """After many looks with nothing applied the age is still that of the first, and the number that of the last."""
    lag = Lag()
    for number in range(1, 5_000):
        lag.look(float(number), number, 0)
    assert lag.behind(6_000.0, 0) == (4_999, 5_999.0)
    assert len(lag._seen) <= 512


def test_rate_goes_to_what_is_worked_a_second() -> None:
    """Steady work is told as what it is, work that ended is forgotten in minutes, and a sum that began anew counts nothing twice."""
    rate = Rate()
    for second in range(0, 3_000, 2):
        rate.look(float(second), 0.25 * second)
    assert rate.value == pytest.approx(0.25, abs=1e-3)
    rate.look(3_300.0, 0.25 * 2_998)
    assert rate.value == pytest.approx(0.25 * math.exp(-302 / 300), abs=1e-3)
    before = rate.value
    rate.look(3_302.0, 0.0)
    assert rate.value < before


def test_gap_is_the_time_in_which_nothing_asked_has_succeeded() -> None:
    """Seconds since the first failure that no success has followed: quiet before it does not count, and a success ends it."""
    now = 100.0
    worked = Worked(lambda: now)

    def gaps() -> dict[str, float]:
        return {work: gap for (_, _, work), _, gap in worked.told(["u"])}

    worked.note(("u", 0), "read", 0.5, good=True)
    worked.note(("u", 0), "write", 0.5, good=False)
    now = 1_000.0
    worked.note(("u", 0), "write", 0.5, good=False)
    assert gaps() == {"read": 0.0, "write": 900.0}
    worked.note(("u", 0), "read", 0.5, good=False)
    worked.note(("u", 0), "write", 0.5, good=True)
    now = 1_004.0
    assert gaps() == {"read": 4.0, "write": 0.0}
    (_, read, _), (_, write, _) = worked.told(["u"])
    assert (read.done, read.failed, read.seconds) == (1, 1, 0.5)
    assert (write.done, write.failed, write.seconds) == (1, 2, 0.5)


def test_what_is_gone_is_forgotten() -> None:
    """Shards of collections that are not there any more are not told of, and not kept."""
    worked = Worked()
    for uid in "ab":
        worked.note((uid, 0), "read", 0.1, good=True)
    assert [key for key, *_ in worked.told(["b"])] == [("b", 0, "read")]
    assert list(worked.by_shard) == [("b", 0, "read")]


def test_labels_are_names_of_short_lists() -> None:
    """No metric of a cluster has ids, keys or texts as labels, no name is given twice, and each says what it is."""
    table = (*NODE_METRICS, *GATEWAY_METRICS)
    assert {label for one in table for label in one.labels} <= {
        "collection",
        "shard",
        "node",
        "state",
        "role",
        "work",
        "outcome",
        "address",
        "server",
    }
    assert len({one.name for one in table}) == len(table)
    assert all(one.text and one.kind in {"counter", "gauge"} for one in table)
    assert {metric.name for metric in Families(table)} == {f"kinbin_{one.name}" for one in table}
