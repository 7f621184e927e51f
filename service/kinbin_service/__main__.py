"""`python -m kinbin_service` serves with the settings of the environment."""

from kinbin_service.server import run

if __name__ == "__main__":
    run()
