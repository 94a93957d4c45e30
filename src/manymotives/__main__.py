"""`python -m manymotives` is the command line."""

from manymotives.cli import app

if __name__ == "__main__":
    app()
