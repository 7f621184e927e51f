"""Runs and fresh rows: where stored rows lie."""
