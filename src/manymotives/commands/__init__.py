"""What the command line can do: one command, one file."""

from manymotives.commands.compare import compare
from manymotives.commands.demo import demo
from manymotives.commands.design import design
from manymotives.commands.export import export
from manymotives.commands.fit import fit
from manymotives.commands.power import power
from manymotives.commands.report import report
from manymotives.commands.reproduce import reproduce
from manymotives.commands.simulate import simulate
from manymotives.commands.whatif import whatif

__all__ = ["compare", "demo", "design", "export", "fit", "power", "report", "reproduce", "simulate", "whatif"]
