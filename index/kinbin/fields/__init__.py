"""Several vectors an item, each with a kernel of its own: one store of items, and one of rows for each field."""
