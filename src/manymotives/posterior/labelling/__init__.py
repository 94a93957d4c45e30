"""Draws in, names out: the ArviZ schema, with all that a file must hold to be read again."""

from manymotives.posterior.labelling.checks import check_groups, check_stored
from manymotives.posterior.labelling.common import stored_belief, stored_environment
from manymotives.posterior.labelling.policy_optimality import label_policy_optimality
from manymotives.posterior.labelling.reward_policy import label_reward_policy, watched_reward_policy

__all__ = [
    "check_groups",
    "check_stored",
    "label_policy_optimality",
    "label_reward_policy",
    "stored_belief",
    "stored_environment",
    "watched_reward_policy",
]
