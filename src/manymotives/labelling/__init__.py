"""Draws in, names out: the ArviZ schema, with all that a file must hold to be read again."""

from manymotives.labelling.checks import check_groups, check_stored
from manymotives.labelling.common import stored_belief, stored_environment
from manymotives.labelling.policy_optimality import label_policy_optimality
from manymotives.labelling.reward_policy import label_reward_policy, watched_reward_policy

__all__ = [
    "check_groups",
    "check_stored",
    "label_policy_optimality",
    "label_reward_policy",
    "stored_belief",
    "stored_environment",
    "watched_reward_policy",
]
