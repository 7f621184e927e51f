"""The neighbour graph over 8-bit codes: which rows lie near each other? Knows nothing of runs and files."""
