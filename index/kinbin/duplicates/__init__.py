"""Pairs of rows that score at least so much, and the clusters that they make: straight from shared bands."""
