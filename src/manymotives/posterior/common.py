"""What every posterior has: labelled draws, what follows from them, and what to be careful about."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.belief import DynamicsBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.inference.diagnostics import Mixing
from manymotives.io.atomic import whole_file
from manymotives.io.netcdf import write_tree
from manymotives.models import Model
from manymotives.planning import Identifiability, Plan, plan
from manymotives.posterior.archive import compressed, restored_demonstrations, without_computed
from manymotives.posterior.by_name import are_by_name, by_name
from manymotives.posterior.canonical import in_unit_range
from manymotives.posterior.decisions import Decision, decide
from manymotives.posterior.feature_weights import weights_table
from manymotives.posterior.planned_draws import PlannedDraws
from manymotives.posterior.reward_tables import rewards_table
from manymotives.posterior.summary import Summary, summary_table
from manymotives.posterior.transfer import best_policies, transferred
from manymotives.posterior.unidentified import identifiability_of, unidentified
from manymotives.posterior.what_if import WhatIf


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(WhatIf, PlannedDraws, ABC):
    """Labelled draws from the posterior of a model; returned by `fit` or read by `load`."""

    data: xr.DataTree  # ArviZ schema, equally weighted draws
    model: Any
    environment: Environment  # where its transitions are not known, their mean before the choices were seen
    belief: DynamicsBelief | None = None  # in that case

    # ---- what each kind of model decides: its kind of posterior says it --------------------------------------

    model_type: ClassVar[type[Model]]
    default_method: ClassVar[type]
    can_be_reweighted: ClassVar[bool]  # whether draws with importance weights stand for the posterior of other data

    @staticmethod
    def kind_of(model: Any) -> "type[Posterior]":
        """The kind of posterior that a model has."""
        kinds = [each for kind in Posterior.__subclasses__() for each in (*kind.__subclasses__(), kind)]
        for kind in kinds:  # special kinds first
            if kind.is_kind_of(model):
                return kind
        known = " or a ".join(sorted({f"{kind.model_type.__name__}(...)" for kind in kinds}))
        raise InputError(f"model must be a {known}; found {model!r}.")

    @classmethod
    def is_kind_of(cls, model: Any) -> bool:
        """Whether a model has posteriors of this kind."""
        return isinstance(model, cls.model_type)

    @staticmethod
    def made_up(target: Any) -> Any:
        """A draw that a method could have made, to try labels on; None where there is none without a run."""
        return None

    @staticmethod
    def relabelled(data: xr.DataTree, model: Any, environment: Environment) -> xr.DataTree:
        """All draws of a run, with what has no order of its own in one order."""
        return data

    @staticmethod
    @abstractmethod
    def label(draws: Any, model: Any, target: Any, demonstrations: Demonstrations, seed: int) -> xr.DataTree:
        """Draws in the ArviZ schema, with all that a file must hold to be read again."""

    @staticmethod
    @abstractmethod
    def mixing_of(data: xr.DataTree, method: Any) -> Mixing | None:
        """Whether chains have mixed, where there are any."""

    @staticmethod
    @abstractmethod
    def warnings_about(data: xr.DataTree, model: Any, lives: np.ndarray) -> tuple[str, ...]:
        """What to be careful about with these draws; `lives` [S]: where choices are made."""

    @classmethod
    def watched(cls, draws: Any, model: Any, target: Any, demonstrations: Demonstrations) -> xr.Dataset:
        """What chains must agree on, between two rounds of a run: everything, unless a kind has it without labels."""
        return cls.label(draws, model, target, demonstrations, 0)["posterior"].to_dataset()

    @abstractmethod
    def stored_dims(self, names: dict[str, Any], sizes: dict[str, int]) -> dict[str, dict[str, tuple[str, ...]]]:
        """The dimensions of every variable that a file of it must hold, by group; their lengths go into `sizes`."""

    @abstractmethod
    def expected_policies(self, rewards: np.ndarray, best: Plan) -> np.ndarray | None:
        """Choices to expect [K, who, S, A] under each draw, of its rewards and their plans; None where not known."""

    # ---- what they want ------------------------------------------------------------------------------------

    @property
    def rewards(self) -> xr.DataArray:
        """Posterior draws (chain, draw, task, state), with a last axis of actions if rewards are on pairs."""
        return self._for_each_task(self.data["posterior"].dataset["reward"])

    @cached_property
    def mean_reward(self) -> xr.DataArray:
        """The posterior mean reward of each task (task, state[, action])."""
        return self._for_each_task(self.data["posterior"].dataset["reward"].mean(("chain", "draw")).compute())

    @property
    def has_features(self) -> bool:
        """Whether rewards are weighted sums of features, whose weights were inferred."""
        return "weight" in self.data["posterior"].dataset

    @property
    def tasks(self) -> tuple[Label, ...]:
        """Names of the tasks."""
        return tuple(json.loads(self.data.attrs["tasks"]))

    @cached_property
    def demonstrations(self) -> Demonstrations:
        """The demonstrations of the fit, with every choice in order."""
        return restored_demonstrations(self.data)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the data, the model and the sampler."""
        return tuple(json.loads(self.data.attrs["warnings"]))

    def canonical(self) -> xr.Dataset:
        """`reward` in canonical form: draws with the same choices have the same rewards.

        Rewards on states lose what choices cannot identify (see `identifiability`): of all rewards with the same
        choices, that with the least squares is kept. Without terminal states that often means centring only. Rewards on
        pairs become the cost of each action, Q(s, a) − V(s). Both are scaled to unit range.

        Returns
        -------
        Dataset
            `reward` (chain, draw, task, state[, action]).
        """
        reward, _ = in_unit_range(self.identifiability, self.rewards, None, self._planned_draws)
        return xr.Dataset({"reward": reward})

    @cached_property
    def identifiability(self) -> Identifiability:
        """Which differences between rewards choices in this environment can identify, and which depend on the prior
        alone.
        """
        return identifiability_of(self)

    def unidentified(self) -> list[str]:
        """What choices in this environment cannot identify, beyond a constant, in words.

        Returns
        -------
        list of str
            One sentence for each finding; empty if only a constant is unidentified, and then printed as such.
        """
        return unidentified(self)

    # ---- what to do about it ---------------------------------------------------------------------------------

    def policies(self, environment: Any = None, features: Any = None) -> xr.DataArray:
        """The policy that is optimal for each task's posterior mean reward (task, state, action).

        With known transitions it maximises the expected value, or with a depth that of the next `depth` steps. Inferred
        discounts are set to their means. With unknown transitions, it is the best policy found: see `decisions`.

        Parameters
        ----------
        environment
            Another environment, or several by name: see `transfer`. If None, that of the fit.
        features
            Features of that environment, if rewards are made of features.

        Returns
        -------
        DataArray
            (task, state, action): 1 for the best action, 0 for the others; ties are broken in favour of the first
            action.
        """
        if environment is not None:
            return best_policies(self, environment, features)
        if self.belief is not None:
            return self.decisions()["policy"]
        mean, own = self.mean_reward.fillna(0.0).values, self.mean_discounts()
        found = plan(self.environment, mean, on=self.model.reward.on, discount=own, depth=self.model.depth)
        return self._labelled_policy(found.policy, ("task",), {"task": self.mean_reward["task"]})

    def transfer(self, environment: Any, features: Any = None, *, draws: int = 1000, level: float = 0.95) -> xr.Dataset:
        """The best policy for each task in a new environment, or in several by name, with its uncertainty.

        `policy` is optimal for the posterior mean reward; `probability_best` is the probability that each action is
        optimal; `value` is the value of the policy, in units of reward; `expected_loss` is the expected gain in value
        from knowing the reward; `choice` is the probability of each choice. Intervals end in `_lower` and `_upper`.

        Parameters
        ----------
        environment
            The new environment, or several by name. States have the rewards of their names.
        features
            Features of the new environment, if rewards are made of features.
        draws
            The largest number of draws to use, evenly spaced.
        level
            Probability of the intervals.

        Returns
        -------
        Dataset
            `policy`, `probability_best`, `value`, `expected_loss` and `choice`, with intervals.
        """
        return transferred(self, environment, features, draws=draws, level=level)

    def decisions(self) -> xr.Dataset:
        """With unknown transitions: the best `policy` found for each task, and bounds on the attainable value.

        `value` (task, state) is its expected value, and `upper` that if reward and environment were known.
        `mean_policy_value` is that of the policy for the means of both; `by_induction` says where another was better.

        Returns
        -------
        Dataset
            `policy`, `value`, `upper`, `mean_policy_value` and `by_induction`, by task.
        """
        return self._decisions

    @cached_property
    def _decisions(self) -> xr.Dataset:
        if self.belief is None:
            raise InputError(
                "the environment is known: posterior.policies() has the best policies, and mm.plan their values."
            )
        on = self.model.reward.on
        if self._draws_environments:
            reward = self.data["posterior"].dataset["reward"].fillna(0.0).transpose("chain", "draw", ...)
            values = reward.values.reshape(-1, *reward.shape[2:])
            pooled = "task" not in reward.dims
            found = decide(self.belief, self._drawn_moves(slice(None)), values[:, None] if pooled else values, on)
        else:  # the belief knows nothing of the choices, and values are linear in the reward
            planned = plan(self.belief, self.mean_reward.fillna(0.0).values, on=on)
            found = Decision(
                planned.policy, planned.value, planned.upper, planned.mean_policy_value, planned.by_induction
            )
        whole = {
            name: np.broadcast_to(part, (len(self.tasks), *part.shape[1:])) for name, part in found._asdict().items()
        }
        known = self.data["observed_data"].dataset["counts"]
        dims = {"policy": ("task", "state", "action"), "by_induction": ("task",)}
        return xr.Dataset(
            {name: (dims.get(name, ("task", "state")), part) for name, part in whole.items()},
            coords={name: known[name] for name in ("task", "state", "action")},
        )

    # ---- tables --------------------------------------------------------------------------------------------

    def to_frame(
        self,
        contrasts: str | None = None,
        *,
        of: str | None = None,
        tasks: Sequence[Label] | None = None,
        states: Sequence[Label] | None = None,
        features: Sequence[Label] | None = None,
        canonical: bool = False,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """A tidy table of each task's rewards or weights: mean, sd and interval, with the mean and sd of the prior.

        Parameters
        ----------
        contrasts
            If None, one row for each task and feature, with the probability that the weight is above 0; or for each
            task and state (and action), that the reward is above the task's average. `p_highest`: that no other task's
            is higher. `prior_mean`, `prior_sd`: exact for normal weights and rewards, else rounded draws. "task":
            differences between tasks. "feature", "state": differences within a task. They have the probability of being
            above 0; `identified` is False if a difference between states depends on the prior alone.
        of
            "feature" or "state". If None, features if rewards are made of them, unless states are asked for.
        tasks, states, features
            Names to which the table is restricted.
        canonical
            Whether to use the form that choices can identify (see `canonical`): weights times the inverse temperature,
            or rewards in canonical form, without their prior.
        level
            Probability of the equal-tailed interval.

        Returns
        -------
        DataFrame
            A tidy table, with one row for each number.
        """
        if contrasts not in (None, "feature", "state", "task"):
            raise InputError(f'contrasts must be None, "feature", "state" or "task"; found {contrasts!r}.')
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1; found {level!r}.")
        if contrasts == "task" and self.model.is_pooled:
            raise InputError("under Pooled() all tasks have the same reward, so there is nothing to compare.")
        if self._what(of, contrasts, states, features) == "feature":
            return weights_table(self, contrasts, tasks, features, canonical, level)
        return rewards_table(self, contrasts, tasks, states, canonical, level)

    def by_state_name(self, values: xr.DataArray, canonical: bool = False) -> xr.DataArray:
        """Rewards by names of states, where states with one name have one; what actions cost differs between them."""
        is_by_name = "state" in values.dims and are_by_name(self.model.reward, self.environment)
        if not is_by_name or (canonical and "action" in values.dims):
            return values
        return by_name(values, self.environment)

    def _what(self, of: str | None, contrasts: str | None, states: Any, features: Any) -> str:
        """Whether a table is of features or of states."""
        if of not in (None, "feature", "state"):
            raise InputError(f'of must be None, "feature" or "state"; found {of!r}.')
        about_features = of == "feature" or contrasts == "feature" or features is not None
        about_states = of == "state" or contrasts == "state" or states is not None
        if about_features and about_states:
            raise InputError("a table is about features or about states: ask for each of them separately.")
        if about_features and not self.has_features:
            raise InputError("the rewards of this model are not made of features: its tables are about states.")
        return "feature" if self.has_features and not about_states else "state"

    def summary(self, *, level: float = 0.95) -> Summary:
        """All parameters except rewards, with effective sample sizes and (of several chains) R-hat, under the warnings.

        Parameters
        ----------
        level
            Probability of the intervals, whose tails are equal: at 0.95, columns `eti95_lb` and `eti95_ub`.

        Returns
        -------
        Summary
            A table that prints itself, with the warnings on top.
        """
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1; found {level!r}.")
        return Summary(self, summary_table(self, level))

    # ---- files ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the posterior to a netCDF file with a checksum; an interrupted save leaves no partial file.

        Parameters
        ----------
        path
            Where to write the file; an existing file is replaced.
        """
        with whole_file(path) as temporary:
            write_tree(without_computed(self.data), temporary, compressed(self.data))

    def __repr__(self) -> str:
        drawn = self.data["posterior"].dataset
        lines = [
            f"Posterior of {len(self.tasks)} task{'s' if len(self.tasks) > 1 else ''}, "
            f"{self.environment.num_states} states: {drawn.sizes['chain']} × {drawn.sizes['draw']} draws by "
            f"{json.loads(self.data.attrs['method'])['kind']}"
        ]
        if "mixing" in self.data.attrs:
            lines.append(f"  mixed: {self.data.attrs['mixing']}")
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _more_lines(self) -> list[str]:
        """What else belongs at the top of a summary."""
        return [f"  {said}" for said in self.unidentified()]

    def _not_estimated(self) -> tuple[str, ...]:  # variables that the method has learnt nothing about
        return ()

    # ---- inside --------------------------------------------------------------------------------------------

    @property
    def _reward_axes(self) -> int:
        return 1 if self.model.reward.on == "state" else 2

    @property
    def _task_coordinate(self) -> xr.DataArray:
        return self.data["observed_data"].dataset["counts"]["task"]

    def _for_each_task(self, values: xr.DataArray) -> xr.DataArray:
        """With a task axis, behind chain and draw, even where everybody is one."""
        if "task" not in values.dims:
            values = values.expand_dims({"task": self._task_coordinate})
        first = [dim for dim in ("chain", "draw", "task") if dim in values.dims]
        return values.transpose(*first, ...)

    def _labelled_policy(self, policy: np.ndarray, dims: tuple[str, ...], coordinates: Any) -> xr.DataArray:
        known = self.data["observed_data"].dataset["counts"]
        coordinates = coordinates | {"state": known["state"], "action": known["action"]}
        return xr.DataArray(policy, dims=(*dims, "state", "action"), coords=coordinates, name="policy")
