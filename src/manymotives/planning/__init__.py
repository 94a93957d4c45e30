"""What is best: Q*, V*, V^π for one reward or a million."""

from manymotives.planning.belief import BeliefPlan, candidates
from manymotives.planning.belief_losses import BeliefPlannedRewards
from manymotives.planning.compiled import in_parallel
from manymotives.planning.identifiability import Identifiability, identifiability
from manymotives.planning.losses import PlannedRewards, loss_matrix
from manymotives.planning.multi_mdp import MultiMDP
from manymotives.planning.verbs import Plan, evaluate, loss, plan, reliable_plan

__all__ = [
    "BeliefPlan",
    "BeliefPlannedRewards",
    "Identifiability",
    "MultiMDP",
    "Plan",
    "PlannedRewards",
    "candidates",
    "evaluate",
    "identifiability",
    "in_parallel",
    "loss",
    "loss_matrix",
    "plan",
    "reliable_plan",
]
