"""Kinbin on several machines: shards on nodes, over a replicated log. Nothing below knows of it.

settings.py     the one table of settings             connecting.py   the connection to NATS
log.py          what was written, in order            registry.py     who is there, and who holds what
picture.py      what a process knows of them          placement.py    which nodes hold a shard
leases.py       one acts at a time                    control.py      lost nodes, moves, digests
servers.py      NATS servers of this machine          dev.py          all of it on one machine
commands.py     what kinbin cluster asks and orders
"""

__all__: list[str] = []
