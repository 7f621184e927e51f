"""Queries of one server, or of a cluster, as discrete events: how long they take under a load that was never run.

`events` is the clock, cores and processes; `draws` random times; `serving` the way of a query through machines; `times` what was measured;
`plans` what data of some size needs.
"""
