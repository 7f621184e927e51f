"""`python -m kinbin_cluster.gateway` serves with the settings of the environment."""

from kinbin_cluster.gateway.server import run

if __name__ == "__main__":
    run()
