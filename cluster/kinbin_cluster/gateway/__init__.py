"""The gateway: the REST of one server, answered by the nodes of a cluster. Stateless; any number of them serve one cluster.

app.py         routes                                   service.py     what the process holds
transport.py   HTTP to nodes                            fanout.py      one replica of each shard
reading.py     every read                               asking.py      what a query asks of each shard
queries.py, grouping.py, paging.py, items.py, scrolling.py, insights.py, browsing.py   the reads
merging.py     answers of shards made into one          tokens.py      read your writes
writes.py, collections.py, adding.py, creating.py, cutting.py, publishing.py, verdicts.py, streaming.py   the writes
"""

__all__: list[str] = []
