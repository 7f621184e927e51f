"""Exact kernels and everything they share: the door to numba, memory by address, the row record."""
