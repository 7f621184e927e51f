"""Wire models: what requests may hold, strictly, and what answers look like.

Vectors are described to the letter and yet not walked through: a batch holds over a million
numbers, and the library checks each of them anyway. Everything around them is validated here.
"""

__all__: list[str] = []
