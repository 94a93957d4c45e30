"""Doors to other programs' data."""

from manymotives.io.files import columns_in, read_demonstrations, read_environment, read_table
from manymotives.io.gymnasium import from_gymnasium
from manymotives.io.trajectories import from_minari, from_trajectories

__all__ = [
    "columns_in",
    "from_gymnasium",
    "from_minari",
    "from_trajectories",
    "read_demonstrations",
    "read_environment",
    "read_table",
]
