"""`python -m kinbin_cluster.node` serves with the settings of the environment."""

from kinbin_cluster.node.server import run

if __name__ == "__main__":
    run()
