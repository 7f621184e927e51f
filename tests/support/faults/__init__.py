"""Faults of a cluster under load: processes killed and stopped, links cut, disks full; and what must hold all the same."""
