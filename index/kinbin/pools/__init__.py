"""Pools: near objects found by a walk over rows that were made of them, to be scored by their exact distance."""
