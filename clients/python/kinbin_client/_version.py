"""The version of the client; a test holds it equal to the one in pyproject.toml."""

__version__ = "0.1.0"
