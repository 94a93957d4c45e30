"""The posterior of a `PolicyOptimalityModel`: weights over a set of rewards, and how far from optimal the tasks are."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from manymotives.errors import InputError
from manymotives.inference.optimality.theorem import theorem_bound
from manymotives.models import PolicyOptimalityModel
from manymotives.models.sharing import Pooled
from manymotives.planning import plan
from manymotives.posterior.common import Posterior


@dataclass(frozen=True, eq=False, repr=False)
class PolicyOptimalityPosterior(Posterior):
    """Which rewards each task may have, and how optimal it is for them."""

    model: PolicyOptimalityModel

    @property
    def weights(self) -> xr.DataArray:
        """The posterior probability of each reward of the set (task, candidate)."""
        return self._for_each_task(self.data["reward_set"].dataset["weight"])

    @property
    def reward_set(self) -> xr.DataArray:
        """The rewards that were chosen between (candidate, state[, action])."""
        return self.data["reward_set"].dataset["reward"]

    @property
    def gaps(self) -> xr.DataArray:
        """Draws (chain, draw, task) of ε: how far from optimal each task may be."""
        return self._for_each_task(self.data["posterior"].dataset["optimality_gap"])

    @property
    def losses(self) -> xr.DataArray:
        """Draws (chain, draw, task) of how far from optimal each task is: its policy's loss for its reward."""
        return self._for_each_task(self.data["posterior"].dataset["policy_loss"])

    @cached_property
    def mean_reward(self) -> xr.DataArray:
        """E ρ of each task (task, state[, action]): the weighted mean of the set, without the noise of draws."""
        mean = (self.weights * self.reward_set).sum("candidate", skipna=False)
        return mean.transpose("task", "state", ...).rename("reward")

    def predictive_policies(self) -> xr.DataArray:
        """What each task would do next, E π(a|s) (task, state, action): its choices, smoothed by the prior."""
        return self._for_each_task(self.data["reward_set"].dataset["predictive_policy"]).rename("policy")

    def policies(self) -> xr.DataArray:
        """The policy that is best for each task's expected reward (task, state, action).

        Where transitions are not known, the best that was found under the belief: choices say nothing about them in
        this model, so the expected reward is still all that matters.
        """
        if self.belief is None:
            return super().policies()
        found = plan(self.belief, self.mean_reward.fillna(0.0).values, on=self.model.reward.on)
        return self._labelled_policy(found.policy, ("task",), {"task": self.mean_reward["task"]})

    def population(self, *, seed: int = 0) -> xr.Dataset:
        """What a new subject would want: one for each draw of the population (chain, draw, state[, action])."""
        drawn = self.data["posterior"].dataset
        if isinstance(self.model.sharing, Pooled):
            return drawn[["reward"]]
        if not self.model.shares_rewards:
            raise InputError(
                "in this model tasks do not inform each other about rewards, so a new subject is drawn from the prior, "
                'which is in posterior.data["prior"]. Use factorisation="policy_given_reward" with Hierarchical().'
            )
        rng = np.random.default_rng(seed)
        reward = self.rewards
        shape, num_tasks = (reward.sizes["chain"], reward.sizes["draw"]), reward.sizes["task"]
        kappa = drawn["reward_concentration"].values
        is_new = rng.random(shape) * (kappa + num_tasks) < kappa
        measure = self.data["reward_set"].dataset["measure"].values
        fresh = self.reward_set.values[rng.choice(len(measure), size=shape, p=measure)]
        member = rng.integers(num_tasks, size=shape)
        known = reward.values[np.arange(shape[0])[:, None], np.arange(shape[1]), member]
        chosen = np.where(is_new.reshape(*shape, *[1] * self._reward_axes), fresh, known)
        return xr.Dataset({"reward": reward.isel(task=0, drop=True).copy(data=chosen)})

    @property
    def theorem(self) -> str:
        """What Theorem 1 promises of this posterior, in words."""
        rewards = self.reward_set
        if float(rewards.min()) < 0 or float(rewards.max()) > 1:
            return (
                f"Theorem 1 does not apply: it is about rewards between 0 and 1, and these lie between "
                f"{float(rewards.min()):.3g} and {float(rewards.max()):.3g}."
            )
        if self.model.factorisation != "reward_given_policy" or self.model.empty_set == "drop":
            return "Theorem 1 does not apply: here policies do not count alike."
        count, discount = int(self.data["sample_stats"].dataset["effective_policies"].min()), self.environment.discount
        printed = theorem_bound(count, discount)
        union = theorem_bound(count, discount, self.environment.num_states)
        if union >= 1 / (1 - discount):
            return f"Theorem 1 says nothing with {count} policies: its bound exceeds the largest error there can be."
        return (
            f"Theorem 1: with {count} policies the expected error of a value is at most {printed:.3g} in a state "
            f"({union:.3g} for the worst state), of values up to {1 / (1 - discount):.3g}; for the rewards of this set."
        )

    def _more_lines(self) -> list[str]:
        return [f"  {self.theorem}", *super()._more_lines()]
