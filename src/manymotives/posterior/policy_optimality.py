"""The posterior of a `PolicyOptimalityModel`: weights over a set of rewards, and how far from optimal the tasks are."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from manymotives.errors import InputError
from manymotives.inference import OptimalityMonteCarlo
from manymotives.inference.diagnostics import Mixing, learning_warnings, mixing, policy_warnings
from manymotives.inference.optimality.theorem import theorem_bound
from manymotives.models import Model, PolicyOptimalityModel
from manymotives.models.priors import Prior
from manymotives.planning import Plan, plan
from manymotives.posterior.common import Posterior
from manymotives.posterior.labelling.policy_optimality import label_policy_optimality


@dataclass(frozen=True, eq=False, repr=False)
class PolicyOptimalityPosterior(Posterior):
    """The posterior of a `PolicyOptimalityModel`: the reward of each task, and how far from optimal it is."""

    model: PolicyOptimalityModel

    model_type: ClassVar[type[Model]] = PolicyOptimalityModel
    default_method: ClassVar[type] = OptimalityMonteCarlo
    can_be_reweighted: ClassVar[bool] = False  # weights on a set of rewards
    label = staticmethod(label_policy_optimality)

    @staticmethod
    def mixing_of(data: xr.DataTree, method: Any) -> Mixing | None:
        """Whether chains have mixed, where there are several."""
        drawn = data["posterior"].dataset
        if drawn.sizes["chain"] == 1:
            return None
        watched = drawn.drop_vars(["reward", "policy"], errors="ignore")  # often the same, whoever has them
        watched = watched.assign(which_reward=data["sample_stats"].dataset["reward_index"].astype(float))
        return mixing(watched, "Raise `draws`.")

    @staticmethod
    def warnings_about(data: xr.DataTree, model: Any, lives: np.ndarray) -> tuple[str, ...]:
        """States without choices, rewards that nothing was learnt about."""
        counts = data["observed_data"].dataset["counts"]
        return (
            *policy_warnings(counts, lives),
            *learning_warnings(data["posterior"].dataset, data["prior"].dataset),
        )

    def stored_dims(self, names: dict[str, Any], sizes: dict[str, int]) -> dict[str, dict[str, tuple[str, ...]]]:
        """The dimensions of every variable that a file of it must hold, by group; their lengths go into `sizes`."""
        whole: tuple[str, ...] = () if self.model.is_pooled else ("task",)
        drawn = ("chain", "draw", *whole)
        cells = ("state",) if self.model.reward.on == "state" else ("state", "action")
        found = {"reward": (*drawn, *cells), "optimality_gap": drawn, "policy_loss": drawn}
        if isinstance(self.model.policy.concentration, Prior):
            found["policy_concentration"] = drawn if self.model.is_separate else ("chain", "draw")
        if self.model.shares_rewards:
            found["reward_concentration"] = ("chain", "draw")
        if "policy" in self.data["posterior"].dataset:
            found["policy"] = (*drawn, "state", "action")
        sizes["candidate"] = self.data["reward_set"].dataset.sizes["candidate"]
        return {
            "posterior": found,
            "prior": {"optimality_gap": ("chain", "draw")},
            "sample_stats": {"reward_index": drawn, "effective_policies": whole},
            "reward_set": {
                "reward": ("candidate", *cells),
                "measure": ("candidate",),
                "span": ("candidate",),
                "weight": (*whole, "candidate"),
                "predictive_policy": (*whole, "state", "action"),
            },
        }

    def expected_policies(self, rewards: np.ndarray, best: Plan) -> np.ndarray | None:
        """The policies [K, who, S, A] that were drawn, whatever the rewards; None where there were too many to keep."""
        drawn = self.data["posterior"].dataset
        return self.flat_draws(self._for_each_task(drawn["policy"])).values if "policy" in drawn else None

    @property
    def weights(self) -> xr.DataArray:
        """The posterior probability of each reward of the set (task, candidate)."""
        return self._for_each_task(self.data["reward_set"].dataset["weight"])

    @property
    def reward_set(self) -> xr.DataArray:
        """The candidate rewards (candidate, state[, action])."""
        return self.data["reward_set"].dataset["reward"]

    @property
    def gaps(self) -> xr.DataArray:
        """Posterior draws (chain, draw, task) of ε: how far from optimal each task may be."""
        return self._for_each_task(self.data["posterior"].dataset["optimality_gap"])

    @property
    def losses(self) -> xr.DataArray:
        """Posterior draws (chain, draw, task) of how far from optimal each task is: the loss of its policy for its
        reward.
        """
        return self._for_each_task(self.data["posterior"].dataset["policy_loss"])

    @cached_property
    def mean_reward(self) -> xr.DataArray:
        """The posterior mean reward of each task (task, state[, action]): the weighted mean of the set, free of
        sampling error.
        """
        mean = (self.weights * self.reward_set).sum("candidate", skipna=False)
        return mean.transpose("task", "state", ...).rename("reward")

    def predictive_policies(self) -> xr.DataArray:
        """The posterior predictive policy E π(a|s) of each task (task, state, action): its choices, smoothed by the
        prior.

        Returns
        -------
        DataArray
            (task, state, action).
        """
        return self._for_each_task(self.data["reward_set"].dataset["predictive_policy"]).rename("policy")

    def policies(self, environment: Any = None, features: Any = None) -> xr.DataArray:
        """The policy that is optimal for each task's posterior mean reward (task, state, action).

        For another environment, see `transfer`. With unknown transitions it is the best policy found under the belief;
        in this model choices carry no information about transitions, so it still depends on the posterior mean reward
        only.

        Parameters
        ----------
        environment
            Another environment, or several by name: see `transfer`. If None, that of the fit.
        features
            Features of that environment, if rewards are made of features.

        Returns
        -------
        DataArray
            (task, state, action).
        """
        if self.belief is None or environment is not None:
            return super().policies(environment, features)
        found = plan(self.belief, self.mean_reward.fillna(0.0).values, on=self.model.reward.on)
        return self._labelled_policy(found.policy, ("task",), {"task": self.mean_reward["task"]})

    def population(self, *, seed: int = 0) -> xr.Dataset:
        """The reward of a new subject from the population, one for each posterior draw (chain, draw, state[, action]).

        Parameters
        ----------
        seed
            Seed of the random numbers.

        Returns
        -------
        Dataset
            `reward` (chain, draw, state[, action]).
        """
        drawn = self.data["posterior"].dataset
        if self.model.is_pooled:
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
            return "Theorem 1 does not apply: here policies have different weights."
        count, discount = int(self.data["sample_stats"].dataset["effective_policies"].min()), self.environment.discount
        printed = theorem_bound(count, discount)
        union = theorem_bound(count, discount, self.environment.num_states)
        if union >= 1 / (1 - discount):
            return f"Theorem 1 is uninformative with {count} policies: its bound exceeds the largest possible error."
        return (
            f"Theorem 1: with {count} policies the expected error of a value is at most {printed:.3g} in a state "
            f"({union:.3g} for the worst state), of values up to {1 / (1 - discount):.3g}; for the rewards of this set."
        )

    def _more_lines(self) -> list[str]:
        return [f"  {self.theorem}", *super()._more_lines()]
