"""A node: the whole service over one database directory, with a local collection for each shard that it holds a replica of.

running.py   the node's part in its cluster: what it is to hold, what it tells, snapshots
replica.py   one replica: made, restored, brought up to date, kept so
reads.py     what reads of replicas wait for, and writes that are refused
app.py       the service with that around it; verdicts
server.py    the process
"""

__all__: list[str] = []
