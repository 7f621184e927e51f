"""Exact distances of series and of point sets, as compiled functions that may stop early."""
