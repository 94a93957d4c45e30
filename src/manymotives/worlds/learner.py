"""A demonstrator that does not know the environment yet: model-based reinforcement learning, ε-greedy."""

from dataclasses import dataclass

from manymotives.errors import InputError


@dataclass(frozen=True)
class ModelBasedLearner:
    """An agent that learns the transitions and the reward while it acts, and replans to convergence after every step.

    It knows which actions exist in which state, and which states are terminal.

    Parameters
    ----------
    epsilon
        The probability of a random action, which is constant (paper, section 5).
    transition_prior
        The Dirichlet parameter of every next state, for each state–action pair.
    reward_prior_mean, reward_prior_weight
        The prior mean of a reward, and its weight as a number of observations.
    burn_in
        The number of steps at the beginning that are not recorded.
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
