"""The kinds of payload indexes, as a table. Imports nothing: the command line's help needs no NumPy."""

__all__ = ["INDEX_KINDS"]

INDEX_KINDS = {
    "number": "numbers: equal, ranges, in order",
    "keyword": "strings: equal, ranges, prefixes, in order",
    "datetime": "strings of RFC 3339: as keywords, and compared as moments by $date",
    "geo": 'objects {"lat": degrees, "lon": degrees}: within a radius or a box',
}
"""What a field's index holds; values of other kinds are kept as they are, so that filters mean the same with an index."""
