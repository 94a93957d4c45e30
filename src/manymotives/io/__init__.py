"""Doors to other programs' data."""

from manymotives.io.files import read_demonstrations, read_environment, read_table
from manymotives.io.gymnasium import from_gymnasium

__all__ = ["from_gymnasium", "read_demonstrations", "read_environment", "read_table"]
