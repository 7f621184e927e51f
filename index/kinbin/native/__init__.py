"""The door to numba, machine code on disk, and memory by address."""
