"""A demonstrator that does not know the environment yet: model-based reinforcement learning, ε-greedy."""

from dataclasses import dataclass

from manymotives.errors import InputError


@dataclass(frozen=True)
class ModelBasedLearner:
    """Learns the transitions and the reward while it acts, and replans to convergence after every step.

    It knows which actions exist where, and which states are terminal.

    Parameters
    ----------
    epsilon
        Probability of a random action, constant for ever (paper, section 5).
    transition_prior
        Dirichlet parameter of every next state, for each state and action.
    reward_prior_mean, reward_prior_weight
        What it expects of a reward it has not seen, and for how many observations that counts.
    burn_in
        Steps at the beginning that are made but not recorded.
    """

    epsilon: float = 0.01
    transition_prior: float = 0.5
    reward_prior_mean: float = 0.5
    reward_prior_weight: float = 1.0
    burn_in: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise InputError(f"epsilon must be a probability; found {self.epsilon}.")
        if not self.transition_prior > 0:
            raise InputError(f"transition_prior must be positive; found {self.transition_prior}.")
        if not self.reward_prior_weight > 0:
            raise InputError(f"reward_prior_weight must be positive; found {self.reward_prior_weight}.")
        if self.burn_in < 0:
            raise InputError(f"burn_in must not be negative; found {self.burn_in}.")
