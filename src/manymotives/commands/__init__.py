"""What the command line can do: one command, one file."""

from manymotives.commands.compare import compare
from manymotives.commands.demo import demo
from manymotives.commands.report import report

__all__ = ["compare", "demo", "report"]
