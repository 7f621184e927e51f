"""Rows as short codes, whose distance bounds that of the rows."""
