"""`python -m kinbin_service.cli` is `kinbin`, without its script."""

from kinbin_service.cli import app

if __name__ == "__main__":
    app()
