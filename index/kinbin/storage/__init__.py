"""What is on disk: the format, the store and its contract, group commit."""
