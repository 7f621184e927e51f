"""Work in the background: sealing, merging, linking."""
