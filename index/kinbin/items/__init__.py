"""What a collection may hold besides vectors: the kinds of objects, and how each becomes a row."""
