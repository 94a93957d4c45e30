"""manymotives: what many agents want, inferred from what they do."""

from manymotives import worlds
from manymotives.choice import Softmax, SoftOptimal
from manymotives.demonstrations import Demonstrations
from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.io import from_gymnasium, read_demonstrations, read_environment
from manymotives.planning import Plan, evaluate, loss, plan
from manymotives.plots import plot_choices
from manymotives.worlds import ModelBasedLearner, simulate

__all__ = [
    "Demonstrations",
    "Environment",
    "InputError",
    "ModelBasedLearner",
    "Plan",
    "SoftOptimal",
    "Softmax",
    "evaluate",
    "from_gymnasium",
    "loss",
    "plan",
    "plot_choices",
    "read_demonstrations",
    "read_environment",
    "simulate",
    "worlds",
]
