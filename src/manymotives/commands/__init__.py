"""What the command line can do: one command, one file."""

from manymotives.commands.demo import demo
from manymotives.commands.export import export
from manymotives.commands.fit import fit
from manymotives.commands.simulate import simulate

__all__ = ["demo", "export", "fit", "simulate"]
