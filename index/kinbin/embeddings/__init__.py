"""Rows that are made from objects, so that the search of rows finds the objects that may be nearest."""
