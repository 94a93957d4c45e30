"""What the command line can do: one command, one file."""

from manymotives.commands.demo import demo

__all__ = ["demo"]
