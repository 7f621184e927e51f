"""Snapshots: a collection at one moment, as one file that proves itself."""

__all__: list[str] = []
