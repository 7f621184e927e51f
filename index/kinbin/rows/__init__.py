"""Canonical rows: what is taken, how it lies in memory, and how it is looked up."""
