"""The posterior of a `RewardPolicyModel` whose motives switch: what they want, when each is active, how they switch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted
from manymotives.inference import HMC, Draws
from manymotives.inference.diagnostics import Mixing, mixing, remedy, visit_warnings
from manymotives.models import Model, RewardPolicyModel, Target
from manymotives.models.assignment import Assignment
from manymotives.models.hidden_markov import filtered_motives, log_predictions, smoothed_motives
from manymotives.models.target import log_choice_probabilities
from manymotives.planning import Plan, plan
from manymotives.posterior.common import Posterior
from manymotives.posterior.labelling.made_up import made_up_draw
from manymotives.posterior.labelling.relabelling import in_one_order, reordered
from manymotives.posterior.labelling.switching import label_switching, stored_dims, watched_switching
from manymotives.posterior.motive_tables import leaving, shares, switches, transitions
from manymotives.posterior.tables import described, selected, tidy
from manymotives.posterior.transfer import best_policies

FILTERED, SMOOTHED = "filtered", "smoothed"
CHOOSING = ("inverse_temperature", "lapse")
UNUSED = 0.01  # share of steps below which a motive is hardly used
MOST_WATCHED = 2000  # transition probabilities that R-hat is computed of, one by one
DRAWS = 200  # over which probabilities of motives are averaged


@dataclass(frozen=True, eq=False, repr=False)
class SwitchingPosterior(Posterior):
    """The posterior of a model with `Switching`: the reward of each motive, when it is active, and how agents switch.

    Motives are numbered by how much they are used, beginning with the most used, 0; all draws are in the same order
    (see `labelling.relabelling`).
    """

    model: RewardPolicyModel

    model_type: ClassVar[type[Model]] = RewardPolicyModel
    default_method: ClassVar[type] = HMC
    can_be_reweighted: ClassVar[bool] = False
    label = staticmethod(label_switching)

    @classmethod
    def is_kind_of(cls, model: Any) -> bool:
        return isinstance(model, RewardPolicyModel) and model.switching is not None

    @classmethod
    def watched(cls, draws: Any, model: Any, target: Target, demonstrations: Demonstrations) -> xr.Dataset:
        """Rewards of motives, and how they are switched between, motives in one order."""
        found = watched_switching(draws, model, target, demonstrations)
        known = xr.Dataset({"inverse_temperature": target.fixed_temperature[0], "lapse": target.fixed_lapse[0]})
        positions = in_one_order(found, model, target.environment, known, demonstrations.visits.sum(axis=0))
        return _few_rows(reordered(found, positions))

    @staticmethod
    def relabelled(data: xr.DataTree, model: Any, environment: Any) -> xr.DataTree:
        """The same draws, motives in one order."""
        visits = data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
        drawn, known = data["posterior"].to_dataset(), data["constant_data"].to_dataset()
        positions = in_one_order(drawn, model, environment, known, visits)
        groups = {name: data[name].to_dataset() for name in data.children}
        groups["posterior"] = reordered(drawn, positions)
        tree = xr.DataTree.from_dict(groups)
        tree.attrs = dict(data.attrs)
        return tree

    @staticmethod
    def made_up(target: Any) -> Draws:
        """A draw that a method could have made, to try labels on."""
        return made_up_draw(target)

    @staticmethod
    def mixing_of(data: xr.DataTree, method: Any) -> Mixing | None:
        """Whether chains have mixed, once their motives are in one order."""
        if not method.is_markov_chain:
            return None
        drawn = data["posterior"].to_dataset()
        return mixing(_few_rows(drawn), remedy(method, drawn.sizes["draw"]))

    @staticmethod
    def warnings_about(data: xr.DataTree, model: Any, lives: np.ndarray) -> tuple[str, ...]:
        """States without choices, motives that are hardly used."""
        drawn, counts = data["posterior"].dataset, data["observed_data"].dataset["counts"]
        share = drawn["motive_share"].mean(("chain", "draw", "task"))
        unused = [str(motive) for motive in share["motive"].values if float(share.sel(motive=motive)) < UNUSED]
        said = visit_warnings(counts, lives, "weight" in drawn)
        if unused and not model.switching.is_counted:
            said += (
                f"motive{'s' if len(unused) > 1 else ''} {', '.join(unused)} had less than {UNUSED:.0%} of all "
                "steps: fewer motives would suffice.",
            )
        return said

    def stored_dims(self, names: dict[str, Any], sizes: dict[str, int]) -> dict[str, dict[str, tuple[str, ...]]]:
        """As labels say it: one draw is labelled, as `fit` would, and its dimensions are looked at."""
        return stored_dims(self.model, self.target, self.demonstrations, sizes)

    def expected_policies(self, rewards: np.ndarray, best: Plan) -> np.ndarray | None:
        """Choices depend on which motive is active: none can be expected in a state whatever came before."""
        return None

    # ---- what they want --------------------------------------------------------------------------------------

    @property
    def num_motives(self) -> int:
        """How many motives the model has, used or not."""
        return int(self.data["posterior"].sizes["motive"])

    @property
    def number_of_motives(self) -> pd.Series:
        """The posterior probability of each number of motives in use, that is, with at least 1 % of all steps."""
        share, steps = self.data["posterior"].dataset["motive_share"], self.demonstrations.visits.sum(axis=1)
        of_all = (share * xr.DataArray(steps / steps.sum(), dims="task")).sum("task")
        used = (of_all >= UNUSED).sum("motive").values.ravel()
        found = pd.Series(used).value_counts(normalize=True).sort_index()
        return found.rename_axis("motives").rename("probability")

    @property
    def rewards(self) -> xr.DataArray:
        """Posterior draws (chain, draw, motive, state), with an axis of tasks before that of motives if each task has
        its own.
        """
        return self.data["posterior"].dataset["reward"]

    @cached_property
    def mean_reward(self) -> xr.DataArray:
        """The posterior mean reward of each motive ([task, ]motive, state[, action])."""
        return self.rewards.mean(("chain", "draw"))

    @property
    def weights(self) -> xr.DataArray:
        """Posterior draws (chain, draw[, task], motive, feature) of the weight of each feature under each motive."""
        if not self.has_features:
            raise InputError("the rewards of this model are not made of features: posterior.rewards has them.")
        return self.data["posterior"].dataset["weight"]

    def policies(self, environment: Any = None, features: Any = None) -> xr.DataArray:
        """The policy that is optimal for each motive's posterior mean reward ([task, ]motive, state, action).

        For another environment and its `features`, see `transfer`.

        Parameters
        ----------
        environment
            Another environment, or several by name: see `transfer`. If None, that of the fit.
        features
            Features of that environment, if rewards are made of features.

        Returns
        -------
        DataArray
            ([task, ]motive, state, action).
        """
        if environment is not None:
            return best_policies(self, environment, features)
        mean = self.mean_reward.fillna(0.0)
        found = plan(self.environment, mean.values, on=self.model.reward.on)
        dims = tuple(str(dim) for dim in mean.dims if dim in ("task", "motive"))
        return self._labelled_policy(found.policy, dims, {dim: mean[dim] for dim in dims})

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
        """A tidy table of each motive: mean, sd and interval of each reward, or of the weight of each feature.

        Parameters
        ----------
        contrasts, canonical
            Not available if motives switch.
        of, tasks, states, features, level
            As for `Posterior.to_frame`.

        Returns
        -------
        DataFrame
            A tidy table, with one row for each number.
        """
        if contrasts is not None or canonical:
            raise InputError("tables of switching motives have no contrasts and no canonical form yet.")
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1; found {level!r}.")
        what = self._what(of, contrasts, states, features)
        values = self.weights if what == "feature" else self.by_state_name(self.rewards)
        if tasks is not None and "task" not in values.dims:
            raise InputError("under Pooled() the motives are everybody's, so there are no tasks to choose from.")
        values = selected(values, "task", tasks) if tasks is not None else values
        cells = ["feature"] if what == "feature" else [dim for dim in ("state", "action") if dim in values.dims]
        average = values.mean(cells).stack(sample=("chain", "draw"))
        values = selected(values, cells[0], features if what == "feature" else states).stack(sample=("chain", "draw"))
        table = described(values, level)
        above = (values > (0.0 if what == "feature" else average)).mean("sample").where(table["mean"].notnull())
        table["p_positive" if what == "feature" else "p_above_average"] = above
        keys = [str(dim) for dim in ("task", "motive") if dim in values.dims]
        return tidy(table, [*keys, *cells])

    # ---- when each motive is active --------------------------------------------------------------------------

    def motives(self, demonstrations: Demonstrations | None = None, kind: str = SMOOTHED) -> xr.DataArray:
        """The probability (row, motive) that each motive is active at each step, averaged over draws.

        Parameters
        ----------
        demonstrations
            By default, those of the fit. Under `Pooled()` they may be of any agent; otherwise, of tasks that were
            fitted.
        kind
            "smoothed": given the whole episode, including later steps. "filtered": given the choices up to that step
            only. The attribute `kind` of the result says which.

        Returns
        -------
        DataArray
            (row, motive), with the task, episode and step of each row.
        """
        if kind not in (FILTERED, SMOOTHED):
            raise InputError(f'kind must be "filtered" or "smoothed"; found {quoted(kind)}.')
        chosen = self.demonstrations if demonstrations is None else demonstrations
        assignment = self._assignment(chosen)
        of = filtered_motives if kind == FILTERED else smoothed_motives
        total = np.zeros((len(chosen.state), self.num_motives))
        drawn = self._drawn()
        for rows, log_policies in drawn:
            total += of(assignment.segments, rows, log_policies, assignment.num_episodes)[0]
        names = {"task": np.array(chosen.tasks, dtype=object)[chosen.task].astype(str)}
        names["episode"] = np.array(chosen.episodes, dtype=object)[chosen.episode].astype(str)
        names["state"] = np.array(chosen.states, dtype=object)[chosen.state].astype(str)
        return xr.DataArray(
            total / len(drawn),
            dims=("row", "motive"),
            coords={word: ("row", values) for word, values in names.items()}
            | {"step": ("row", chosen.step), "motive": np.arange(self.num_motives)},
            attrs={"kind": kind},
            name="probability",
        )

    def motives_frame(self, demonstrations: Demonstrations | None = None, kind: str = SMOOTHED) -> pd.DataFrame:
        """The result of `motives` as a tidy table: task, episode, step, state, and a column for the probability of each
        motive.

        Parameters
        ----------
        demonstrations, kind
            As for `motives`.

        Returns
        -------
        DataFrame
            One row per step.
        """
        found = self.motives(demonstrations, kind)
        table = pd.DataFrame({word: found[word].values for word in ("task", "episode", "step", "state")})
        return table.assign(**{f"motive_{k}": found.values[:, k] for k in range(self.num_motives)})

    def shares(self, level: float = 0.95) -> pd.DataFrame:
        """The share of each task's steps on each motive: mean, sd, interval.

        Parameters
        ----------
        level
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A tidy table, with intervals.
        """
        return shares(self, level)

    # ---- how they switch -------------------------------------------------------------------------------------

    def switches(self, level: float = 0.95) -> pd.DataFrame:
        """How often each task switched from one motive to another: mean, sd, interval, and its number of steps.

        Parameters
        ----------
        level
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A tidy table, with intervals.
        """
        return switches(self, level)

    def transitions(self, level: float = 0.95) -> pd.DataFrame:
        """Transition probabilities between motives: mean, sd, interval, by task and state if they differ between them.

        Parameters
        ----------
        level
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A tidy table, with intervals.
        """
        return transitions(self, level)

    def leaving(self, level: float = 0.95) -> pd.DataFrame:
        """With `by="state"`: the probability of leaving each motive in each state, highest first.

        Probabilities are for all tasks together, weighted by their steps; under `Separate()`, for each task.
        `p_above_average` is the probability that a motive is left in that state more often than on average over the
        visited states. States that no task left are omitted.

        Parameters
        ----------
        level
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A tidy table, with intervals.
        """
        return leaving(self, level)

    def log_predictions(self, demonstrations: Demonstrations) -> np.ndarray:
        """log p of each choice [rows] given the choices before it in its episode, and nothing later; 0 without one."""
        assignment = self._assignment(demonstrations)
        found = np.stack(
            [log_predictions(assignment.segments, rows, log_policies) for rows, log_policies in self._drawn()]
        )
        return np.logaddexp.reduce(found, axis=0) - np.log(len(found))

    def _assignment(self, demonstrations: Demonstrations) -> Assignment:
        assert self.model.switching is not None
        if demonstrations.states != self.demonstrations.states or demonstrations.actions != self.demonstrations.actions:
            raise InputError("the states or actions of these demonstrations differ from those of the fit.")
        if not self.model.is_pooled and demonstrations.tasks != self.demonstrations.tasks:
            raise InputError("under Hierarchical() and Separate() motives belong to tasks. Give the tasks of the fit.")
        return Assignment.of(self.model.switching, self.model.sharing, demonstrations)

    def _drawn(self, most: int = DRAWS) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows [C, K + 1, K] and log policies [K · U, S, A] of some draws, evenly spread."""
        drawn = self.data["posterior"].dataset.stack(sample=("chain", "draw"))
        picked = np.unique(np.linspace(0, drawn.sizes["sample"] - 1, most).astype(int))
        drawn = drawn.isel(sample=picked)
        places = [dim for dim in drawn["motive_start"].dims if dim not in ("sample", "motive")]
        rows = drawn["motive_transition"].transpose("sample", *places, "motive", "next_motive").values
        start = drawn["motive_start"].transpose("sample", *places, "motive").values[..., None, :]
        count = self.num_motives
        rows = np.ascontiguousarray(np.concatenate([rows, start], axis=-2).reshape(len(picked), -1, count + 1, count))
        whose = [dim for dim in ("motive", "task") if dim in self.rewards.dims]
        reward = drawn["reward"].transpose("sample", *whose, ...).fillna(0.0).values
        reward = reward.reshape(len(picked), -1, *reward.shape[1 + len(whose) :])
        temperature, lapse = (self._choosing(drawn, word, whose).reshape(reward.shape[:2]) for word in CHOOSING)
        soft = temperature if self.model.choice.is_soft else None
        made = []
        for n in range(len(picked)):
            q = plan(
                self.environment,
                reward[n],
                on=self.model.reward.on,
                inverse_temperature=None if soft is None else soft[n],
            ).q
            made.append((rows[n], log_choice_probabilities(q, temperature[n], lapse[n])))
        return made

    def _choosing(self, drawn: Any, word: str, whose: Sequence[str]) -> np.ndarray:
        """Inverse temperatures, or lapse rates, [sample, K · U], drawn or known."""
        values = drawn[word] if word in drawn else self.data["constant_data"].dataset[word]
        sizes = {"sample": drawn.sizes["sample"]} | {dim: self.rewards.sizes[dim] for dim in whose}
        values = values.expand_dims({dim: size for dim, size in sizes.items() if dim not in values.dims})
        return np.ascontiguousarray(values.transpose("sample", *whose).values, dtype=float)

    @cached_property
    def target(self) -> Target:
        """What was sampled from, rebuilt from what is stored."""
        return self.model.bind(self.environment, self.demonstrations)


def _few_rows(drawn: xr.Dataset) -> xr.Dataset:
    """What chains must agree on: of very many transition probabilities, their averages over states."""
    if (
        drawn["motive_transition"].isel(chain=0, draw=0).size <= MOST_WATCHED
        or "state" not in drawn["motive_start"].dims
    ):
        return drawn
    return drawn.assign({name: drawn[name].mean("state") for name in ("motive_transition", "motive_start")})
