"""Doors to other programs' data."""

from manymotives.io.files import read_demonstrations, read_environment, read_features
from manymotives.io.gymnasium import from_gymnasium
from manymotives.io.trajectories import from_minari, from_trajectories

__all__ = [
    "from_gymnasium",
    "from_minari",
    "from_trajectories",
    "read_demonstrations",
    "read_environment",
    "read_features",
]
