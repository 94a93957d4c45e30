"""Places to act in, agents that act there, and what they would do."""

from manymotives.worlds.chain import Chain
from manymotives.worlds.grid import GridWorld
from manymotives.worlds.labyrinth import Labyrinth
from manymotives.worlds.learner import ModelBasedLearner
from manymotives.worlds.random import DirichletMDP, RandomMDP
from manymotives.worlds.simulate import simulate
from manymotives.worlds.switching import SwitchingAgent

__all__ = [
    "Chain",
    "DirichletMDP",
    "GridWorld",
    "Labyrinth",
    "ModelBasedLearner",
    "RandomMDP",
    "SwitchingAgent",
    "simulate",
]
