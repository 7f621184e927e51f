"""The routes, a file for each subject."""

__all__: list[str] = []
