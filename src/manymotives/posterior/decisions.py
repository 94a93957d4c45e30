"""What to do for somebody of whom a posterior knows, where the environment is known as little as the reward.

Draws of reward and environment come in pairs, and the best policy is best on average over pairs: the value of a policy
is not linear in the environment, nor are the two independent. Draws are dealt out in three: policies are made from the
first third, compared on the second and valued on the last.
"""

from typing import NamedTuple

import numpy as np

from manymotives.data.belief import DynamicsBelief
from manymotives.planning import MultiMDP, candidates, plan

PAIRS = 200  # of draws, in each third
NUMBERS = 20_000_000  # of transitions held at a time


class Decision(NamedTuple):
    """The best policy found for each task, and bounds on what it could attain."""

    policy: np.ndarray  # [M, S, A]
    value: np.ndarray  # [M, S] what it is worth, on average over what may be
    upper: np.ndarray  # [M, S] what knowing reward and environment would be worth
    mean_policy_value: np.ndarray  # [M, S] what the policy is worth that takes the means of both for the truth
    by_induction: np.ndarray  # [M] whether it is not that one


def decide(belief: DynamicsBelief, moves: np.ndarray, rewards: np.ndarray, on: str) -> Decision:
    """For draws of environments [K, E] and of rewards [K, M, S] or [K, M, S, A], in pairs."""
    known = belief.mean
    most = min(PAIRS, max(1, NUMBERS // (known.num_states**2 * known.num_actions)))
    kept = np.unique(np.linspace(0, len(moves) - 1, min(len(moves), 3 * most)).astype(int))
    thirds = [kept[begin::3] if len(kept) >= 3 else kept for begin in range(3)]
    making, choosing, valuing = (MultiMDP.from_probabilities(belief, moves[third]) for third in thirds)
    gains = [rewards[third] if on == "state_action" else rewards[third][..., None] for third in thirds]
    mean = belief.environment(moves.mean(axis=0))
    of_mean = plan(mean, rewards.mean(axis=0), on=on).actions
    optimal = [plan(belief.environment(moves[k]), rewards[k], on=on).value for k in thirds[2]]
    chosen, by_induction, values, plain = [], [], [], []
    for m, first in enumerate(of_mean):
        best = candidates(making, gains[0][:, m], first).switched
        worth = [choosing.average(choosing.values(actions, gains[1][:, m])) for actions in (first, best)]
        by_induction.append(worth[1] > worth[0])
        chosen.append(best if by_induction[-1] else first)
        values.append(valuing.values(chosen[-1], gains[2][:, m]).mean(axis=0))
        plain.append(valuing.values(first, gains[2][:, m]).mean(axis=0))
    return Decision(
        policy=np.eye(known.num_actions)[np.array(chosen)],
        value=np.array(values),
        upper=np.mean(optimal, axis=0),
        mean_policy_value=np.array(plain),
        by_induction=np.array(by_induction),
    )
