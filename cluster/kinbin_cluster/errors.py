"""What can go wrong between the parts of a cluster. Imports nothing."""

from __future__ import annotations

__all__ = [
    "Aliased",
    "Changed",
    "ClusterError",
    "Damaged",
    "Exists",
    "LogBehind",
    "LogClosed",
    "LogRefused",
    "LogTruncated",
    "LogUnavailable",
    "NoPlace",
    "NotThere",
    "OtherCluster",
    "OtherKey",
    "Taken",
]


class ClusterError(Exception):
    """Base of all of them."""


class LogUnavailable(ClusterError):
    """NATS did not answer before the deadline. What was asked for may have happened: ask again with the same message id to know."""


class LogRefused(ClusterError):
    """NATS refused what it was sent, for good: nothing was written. The stream is full, the message too large, the stream is not there."""


class LogClosed(LogRefused):
    """The log takes no edits any more, or is not there: nothing was written."""


class LogTruncated(ClusterError):
    """The log begins after the place that was asked for: restore a snapshot first. `first` is the first sequence that is there."""

    def __init__(self, first: int) -> None:
        super().__init__(f"the log begins at sequence {first}")
        self.first = first


class LogBehind(ClusterError):
    """The log ends before the place that was asked for, or has another entry there: it has lost messages, or is another one.

    `last` is its last sequence.
    """

    def __init__(self, last: int, other: int | None = None) -> None:
        """other: the sequence that holds another entry than it did."""
        what = f"ends at sequence {last}, before what" if other is None else f"has another entry at sequence {other} than the one that"
        super().__init__(f"the log {what} is applied here: its servers have lost it, or run on older files")
        self.last = last


class Damaged(ClusterError):
    """What was stored is not what comes back."""


class NotThere(ClusterError):
    """The registry has no such record."""


class Changed(ClusterError):
    """A record is not what it was, or is there already."""


class Exists(Changed):
    """There is a record of that name: `held`."""

    def __init__(self, name: str, held: object) -> None:
        super().__init__(f"there is {name} already")
        self.held = held


class Aliased(ClusterError):
    """An alias is in the way: it has the name that was asked for, or leads to the collection that was to be dropped."""


class OtherCluster(ClusterError):
    """A node's files are of another cluster than the one that NATS holds."""


class OtherKey(ClusterError):
    """Nodes that live have another key between gateways and nodes."""


class Taken(ClusterError):
    """A node that lives has this name, or these files."""


class NoPlace(ClusterError):
    """There are fewer nodes than replicas, or none."""
