"""Band tables: built, searched, and chosen."""
