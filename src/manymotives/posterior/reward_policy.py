"""The posterior of a `RewardPolicyModel`: temperatures, predictions, the population."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.errors import InputError
from manymotives.families import draw_all
from manymotives.inference import HMC, Draws, Progress
from manymotives.inference.diagnostics import (
    Mixing,
    discount_warnings,
    learning_warnings,
    mixing,
    remedy,
    spread_notes,
    visit_warnings,
)
from manymotives.models import Model, RewardPolicyModel, Target
from manymotives.models.model import EVERYBODY
from manymotives.models.target import log_choice_probabilities
from manymotives.planning import Plan
from manymotives.posterior.canonical import in_unit_range
from manymotives.posterior.common import Posterior
from manymotives.posterior.estimates import (
    GROUP,
    FittedMaximum,
    estimates_table,
    fitted_maximum,
    has_estimate,
    stored_dims_of_estimate,
)
from manymotives.posterior.explained import Explained
from manymotives.posterior.labelling.effects import labelled_effects
from manymotives.posterior.labelling.made_up import made_up_draw
from manymotives.posterior.labelling.reward_policy import label_reward_policy, labelled_variables, watched_reward_policy
from manymotives.posterior.likelihood_ratio import LikelihoodRatio, likelihood_ratio
from manymotives.posterior.predictions import new_offsets

AT_ONCE = 2_000_000  # numbers, in several arrays at a time


@dataclass(frozen=True, eq=False, repr=False)
class RewardPolicyPosterior(Explained, Posterior):
    """The posterior of a `RewardPolicyModel`: each task's reward, and how consistently it acts on it."""

    model: RewardPolicyModel

    model_type: ClassVar[type[Model]] = RewardPolicyModel
    default_method: ClassVar[type] = HMC
    can_be_reweighted: ClassVar[bool] = True
    label = staticmethod(label_reward_policy)

    @classmethod
    def is_kind_of(cls, model: Any) -> bool:
        return isinstance(model, RewardPolicyModel) and model.switching is None

    @classmethod
    def watched(cls, draws: Any, model: Any, target: Any, demonstrations: Demonstrations) -> xr.Dataset:
        """Rewards, temperatures and hyperparameters, without what only a file needs."""
        return watched_reward_policy(draws, model, target, demonstrations)

    @staticmethod
    def made_up(target: Any) -> Draws:
        """A draw that a method could have made, to try labels on."""
        return made_up_draw(target)

    @staticmethod
    def mixing_of(data: xr.DataTree, method: Any) -> Mixing | None:
        """Whether chains have mixed, where there are any."""
        if not method.is_markov_chain:
            return None
        drawn = data["posterior"].dataset
        return mixing(drawn, remedy(method, drawn.sizes["draw"]))

    @staticmethod
    def warnings_about(data: xr.DataTree, model: Any, lives: np.ndarray) -> tuple[str, ...]:
        """States without choices, rewards that nothing was learnt about, populations without differences."""
        drawn, prior, counts = (data[name].dataset for name in ("posterior", "prior", "observed_data"))
        has_spread = model.is_hierarchical and counts.sizes["task"] > 1
        reads_prior = json.loads(data.attrs.get("method", "{}")).get("criterion") != "likelihood"
        return (
            *visit_warnings(counts["counts"], lives, "weight" in drawn),
            *(learning_warnings(drawn, prior) if reads_prior else ()),
            *(discount_warnings(drawn, prior) if reads_prior else ()),
            *(spread_notes(drawn, prior) if has_spread else ()),
        )

    def stored_dims(self, names: dict[str, Any], sizes: dict[str, int]) -> dict[str, dict[str, tuple[str, ...]]]:
        """As labels say it: one draw is labelled, as `fit` would, and its dimensions are looked at."""
        target, pooled = self.target, self.model.is_pooled
        one = made_up_draw(target)
        labelled = labelled_variables(self.model, target, one.tasks, one.hyper, names, for_tasks=not pooled)
        if target.effects is not None and one.effects is not None:
            labelled = labelled.merge(labelled_effects(target, target.effects, one.effects, labelled))
        found = {str(name): tuple(map(str, variable.dims)) for name, variable in labelled.data_vars.items()}
        known_sizes = {word: size for word, size in labelled.sizes.items() if word not in ("chain", "draw", *names)}
        sizes |= {str(word): size for word, size in known_sizes.items()}
        if target.belief is not None and "transition" in self.data["posterior"].dataset:
            found["transition"] = ("chain", "draw", "move")
            sizes["move"] = int(target.belief.is_uncertain.sum())
        known: dict[str, tuple[str, ...]] = {
            word: () if pooled else ("task",)
            for word, index in (("inverse_temperature", target.layout.temperature), ("lapse", target.layout.lapse))
            if index < 0
        }
        stored: dict[str, dict[str, tuple[str, ...]]] = {"posterior": found, "constant_data": known}
        stored["sample_stats"] = {"lp": ("chain", "draw")}
        if has_estimate(self.data):
            stored[GROUP] = stored_dims_of_estimate(target, sizes)
        return stored

    def expected_policies(self, rewards: np.ndarray, best: Plan) -> np.ndarray | None:
        """Softmax, or soft-optimal, choices [K, who, S, A] under each draw, of its rewards and their plans."""
        temperature, lapse = (self.flat_draws(values).values for values in (self.inverse_temperatures, self.lapses))
        if self.model.choice.is_soft:
            best = self.planned(rewards, slice(None), temperature, self.own_discounts())
        policies = np.empty_like(best.q)
        at_once = max(1, AT_ONCE // max(1, best.q[:1].size))
        for begin in range(0, len(policies), at_once):
            part = slice(begin, begin + at_once)
            policies[part] = np.exp(log_choice_probabilities(best.q[part], temperature[part], lapse[part]))
        return policies

    def estimates(self, *, level: float = 0.95) -> pd.DataFrame:
        """Estimates by `MaximumLikelihood`, with standard errors: one row for each task and parameter.

        Columns: task ("everybody" under `Pooled()`), kind ("weight", "reward", "inverse_temperature", "lapse" or
        "discount"), parameter (the feature or state), estimate, standard_error, z (estimate / standard error, where the
        parameter may have either sign) and a confidence interval, lower to upper, that stays within the parameter's
        range.

        Parameters
        ----------
        level
            Level of the confidence intervals.

        Returns
        -------
        DataFrame
            One row for each task and parameter.
        """
        return estimates_table(self, level)

    def _not_estimated(self) -> tuple[str, ...]:
        """By maximum likelihood, parameters of priors: only the range of these counts, and draws are from the prior."""
        is_likelihood = has_estimate(self.data) and self.maximum.criterion == "likelihood"
        return tuple(block.name for block in self.target.blocks) if is_likelihood else ()

    @property
    def maximum(self) -> FittedMaximum:
        """Of a fit by `MaximumLikelihood`: log likelihood, number of parameters, AIC, BIC, and how the search ended."""
        return fitted_maximum(self)

    def likelihood_ratio(self, restricted: "RewardPolicyPosterior") -> LikelihoodRatio:
        """A likelihood-ratio test of a special case of this model, fitted to the same data.

        Both fits must be made by `MaximumLikelihood()`. An error is raised if the data differ, or if the restricted
        model cannot be recognised as a special case of this one.

        Parameters
        ----------
        restricted
            The fit of the special case.

        Returns
        -------
        LikelihoodRatio
            `statistic`, `degrees_of_freedom` and `p`.
        """
        return likelihood_ratio(self, restricted)

    @property
    def weights(self) -> xr.DataArray:
        """Posterior draws (chain, draw, task, feature) of each task's weights of features."""
        if not self.has_features:
            raise InputError("the rewards of this model are not made of features: posterior.rewards has them.")
        return self._for_each_task(self.data["posterior"].dataset["weight"])

    @property
    def inverse_temperatures(self) -> xr.DataArray:
        """Posterior draws (chain, draw, task) of the inverse temperature; the known value if it was fixed."""
        drawn = self.data["posterior"].dataset
        if "inverse_temperature" in drawn:
            return self._for_each_task(drawn["inverse_temperature"])
        known = self.data["constant_data"].dataset["inverse_temperature"]
        return self._for_each_task(known.expand_dims({dim: drawn[dim] for dim in ("chain", "draw")}))

    @property
    def lapses(self) -> xr.DataArray:
        """Posterior draws (chain, draw, task) of the lapse rate; the known value if it was fixed."""
        drawn = self.data["posterior"].dataset
        if "lapse" in drawn:
            return self._for_each_task(drawn["lapse"])
        known = self.data["constant_data"].dataset["lapse"]
        return self._for_each_task(known.expand_dims({dim: drawn[dim] for dim in ("chain", "draw")}))

    @property
    def discounts(self) -> xr.DataArray:
        """Posterior draws (chain, draw, task) of the discount factor; the environment's if it is known."""
        drawn = self.data["posterior"].dataset
        if "discount" in drawn:
            return self._for_each_task(drawn["discount"])
        known = xr.DataArray(self.environment.discount)
        return self._for_each_task(known.expand_dims({dim: drawn[dim] for dim in ("chain", "draw")}))

    def own_discounts(self, which: slice = slice(None)) -> np.ndarray | None:
        """Discounts [K, who] of some of the draws, chains one after the other; None where that is known."""
        return self.flat_draws(self.discounts).values[which] if self.model.infers_discount else None

    def mean_discounts(self) -> np.ndarray | None:
        """E γ of each task; None where that is known."""
        return self.discounts.mean(("chain", "draw")).values if self.model.infers_discount else None

    def canonical(self) -> xr.Dataset:
        """As `Posterior.canonical`, with the scale of rewards moved into `inverse_temperature`.

        If rewards are made of features, `weight` is the weight times the inferred or known inverse temperature, that
        is, in log-odds: ten times the weights with a tenth of the inverse temperature give the same choices.

        Returns
        -------
        Dataset
            `reward`, `inverse_temperature` and, if there are features, `weight`.
        """
        temperature = self.inverse_temperatures
        soft = temperature.values if self.model.choice.is_soft else None
        reward, scale = in_unit_range(self.identifiability, self.rewards, soft, self._planned_draws)
        found = xr.Dataset({"reward": reward, "inverse_temperature": temperature * scale})
        return found.assign(weight=self.weights * temperature) if self.has_features else found

    def predictive_policies(self, draws: int = 1000, *, progress: Progress | None = None) -> xr.DataArray:
        """The posterior predictive probability of each action, π(a|s) averaged over draws.

        Parameters
        ----------
        draws
            The largest number of draws to use, evenly spaced.
        progress
            A function or bar that is told how many draws have been planned for.

        Returns
        -------
        DataArray
            (task, state, action).
        """
        if draws < 1:
            raise InputError(f"draws must be at least 1; found {draws}.")
        reward = self.data["posterior"].dataset["reward"].stack(sample=("chain", "draw")).transpose("sample", ...)
        every = -(-reward.sizes["sample"] // draws)
        pick = slice(None, None, every)
        reward = reward.isel(sample=pick).fillna(0.0)

        def flat(values: xr.DataArray) -> np.ndarray:
            if "task" not in reward.dims:
                values = values.isel(task=0)
            return values.stack(sample=("chain", "draw")).transpose("sample", ...).isel(sample=pick).values

        temperature, lapse = flat(self.inverse_temperatures), flat(self.lapses)
        soft = temperature if self.model.choice.is_soft else None
        own = flat(self.discounts) if self.model.infers_discount else None
        total = np.zeros((*reward.shape[1 : reward.ndim - self._reward_axes], *self.environment.available.shape))
        size = 64 if self.environment.num_states <= 500 else 16  # a bar should move
        with (progress or Progress(False)).of(len(reward), "draws") as report:
            for begin in range(0, len(reward), size):
                part = slice(begin, begin + size)
                which = slice(every * begin, every * (begin + size), every)
                some = (None if each is None else each[part] for each in (soft, own))
                q = self.planned(reward.isel(sample=part).values, which, *some).q
                total += np.exp(log_choice_probabilities(q, temperature[part], lapse[part])).sum(axis=0)
                report.update(min(begin + size, len(reward)), "plans")
        policy = total / len(reward)
        if "task" not in reward.dims:
            policy = np.broadcast_to(policy, (len(self.tasks), *policy.shape))
        return self._labelled_policy(policy, ("task",), {"task": self._task_coordinate})

    def drawn_policies(self, task: int) -> np.ndarray:
        """What one task (by number) would do under each draw: π(a|s) [K, S, A]."""
        mine = {"task": task}

        def flat(values: xr.DataArray) -> np.ndarray:
            own = values.isel(mine if "task" in values.dims else {}).stack(sample=("chain", "draw"))
            return own.transpose("sample", ...).values

        reward = np.nan_to_num(flat(self.data["posterior"].dataset["reward"]))
        temperature, lapse = flat(self.inverse_temperatures), flat(self.lapses)
        soft = temperature if self.model.choice.is_soft else None
        own = flat(self.discounts) if self.model.infers_discount else None
        q = self.planned(reward, slice(None), soft, own).q
        return np.exp(log_choice_probabilities(q, temperature, lapse))

    def population(self, *, covariates: Mapping[str, Any] | None = None, seed: int = 0) -> xr.Dataset:
        """The reward of a new subject from the population, one for each posterior draw (chain, draw, state[, action]).

        If rewards are made of features, the result also has `weight` (chain, draw, feature).

        Parameters
        ----------
        covariates
            Covariates of the new subject, such as `{"condition": "treated"}`; those not given are taken from a random
            task of the fit. The subject is a new member of every level, such as a mouse that was not observed.
        seed
            Seed of the random numbers.

        Returns
        -------
        Dataset
            `reward` (chain, draw, state[, action]) and, if there are features, `weight`.
        """
        drawn = self.data["posterior"].dataset
        if self.model.is_separate:
            raise InputError(
                "under Separate() tasks have no population: a new subject is drawn from the prior, which is in "
                'posterior.data["prior"].'
            )
        if self.model.is_pooled:
            words = ("reward", "weight", "inverse_temperature", "lapse", "discount")
            return drawn[[name for name in words if name in drawn]]
        if covariates is not None and not self.model.has_covariates:
            raise InputError("this model has no covariates: posterior.population() has new subjects without them.")
        target = self.target
        shape = (drawn.sizes["chain"], drawn.sizes["draw"])
        parameters = np.ascontiguousarray(target.parameters_at(self.hyperparameters()))
        u = draw_all(np.random.default_rng(seed), target.layout.families, parameters)
        if self.model.has_covariates:
            u = u + new_offsets(self, covariates or {}, np.random.default_rng([seed, 1]))
        nobody = np.zeros(len(u), dtype=int)
        reward = target.rewards(u)
        if target.on == "state_action":
            reward = np.where(self.environment.available, reward, np.nan)
        dims = ("chain", "draw", "state", "action")[: 2 + self._reward_axes]
        made: dict[str, Any] = {"reward": (dims, reward.reshape(*shape, *reward.shape[1:]))}
        if self.has_features:
            made["weight"] = (("chain", "draw", "feature"), u[:, : target.num_weights].reshape(*shape, -1))
        for name, position, values in (
            ("inverse_temperature", target.layout.temperature, target.temperatures(u, nobody)),
            ("lapse", target.layout.lapse, target.lapses(u, nobody)),
            ("discount", target.layout.discount, target.discounts(u, nobody)),
        ):
            if position >= 0 and values is not None:
                made[name] = (("chain", "draw"), values.reshape(shape))
        coordinates = {name: drawn[name] for name in (*dims, "feature") if name in drawn.coords}
        return xr.Dataset(made, coords=coordinates)

    def hyperparameters(self) -> np.ndarray:
        """Draws [K, H] of what describes the one population of a hierarchical model, in the order of its target."""
        drawn, target = self.data["posterior"].dataset, self.target
        count = drawn.sizes["chain"] * drawn.sizes["draw"]
        values = [drawn[block.name].values.reshape(count, -1) for block in target.blocks]
        features = target.layout.features
        for number, block in enumerate(target.blocks):
            if block.over == "reward" and target.layout.smooth.exist:
                values[number] = values[number] @ features.array  # eigenvectors are orthonormal
            elif block.over == "reward" and (not features.exist or target.has_shared_rewards):
                values[number] = values[number][:, target.layout.reward_index]
        return np.concatenate(values, axis=1) if values else np.zeros((count, 0))

    @cached_property
    def target(self) -> Target:
        """What was sampled from, rebuilt from what is stored."""
        counts = self.data["observed_data"].dataset["counts"].values.astype(float)
        pooled = self.model.is_pooled
        tasks: tuple[Any, ...] = (EVERYBODY,) if pooled else self.tasks
        dynamics = self.belief or self.environment
        return self.model.target(dynamics, tasks, counts.sum(axis=0, keepdims=True) if pooled else counts)
