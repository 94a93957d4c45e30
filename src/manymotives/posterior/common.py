"""What every posterior has: labelled draws, what follows from them, and what to be careful about."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats import summary as described_by_arviz

from manymotives.archive import compressed, restored_demonstrations
from manymotives.demonstrations import Demonstrations
from manymotives.dynamics import DynamicsBelief
from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.labels import Label
from manymotives.planning import Identifiability, Plan, plan
from manymotives.posterior.canonical import in_unit_range
from manymotives.posterior.decisions import Decision, decide
from manymotives.posterior.unidentified import identifiability_of, marked, unidentified
from manymotives.sharing import Pooled
from manymotives.writing import whole_file

LARGEST_TABLE = 2_000_000  # rows of contrasts
UNLISTED = ("reward", "weight", "policy", "transition")  # too many for a summary


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws from the posterior of a model, with labels; made by `fit`, or read by `load`."""

    data: xr.DataTree  # ArviZ schema, equally weighted draws
    model: Any
    environment: Environment  # where its transitions are not known, their mean before the choices were seen
    belief: DynamicsBelief | None = None  # in that case

    # ---- what they want ------------------------------------------------------------------------------------

    @property
    def rewards(self) -> xr.DataArray:
        """Draws (chain, draw, task, state), with actions behind where rewards lie on pairs."""
        return self._for_each_task(self.data["posterior"].dataset["reward"])

    @cached_property
    def mean_reward(self) -> xr.DataArray:
        """E ρ of each task (task, state[, action])."""
        return self._for_each_task(self.data["posterior"].dataset["reward"].mean(("chain", "draw")))

    @property
    def tasks(self) -> tuple[Label, ...]:
        return tuple(json.loads(self.data.attrs["tasks"]))

    @cached_property
    def demonstrations(self) -> Demonstrations:
        """What they did, every choice in its place in time."""
        return restored_demonstrations(self.data)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a careful statistician would tell you."""
        return tuple(json.loads(self.data.attrs["warnings"]))

    def canonical(self) -> xr.Dataset:
        """`reward` in the one form that choices can tell: draws that choose alike are alike.

        Rewards on states lose what no choice can show (see `identifiability`): of all that choose alike, the one with
        least squares is kept. Without terminal states that is often a constant only, and they are centred. Rewards on
        pairs become what each action costs against the best, Q(s, a) − V(s). Both are scaled to unit range.
        """
        reward, _ = in_unit_range(self.identifiability, self.rewards, None, self._planned_draws)
        return xr.Dataset({"reward": reward})

    @cached_property
    def identifiability(self) -> Identifiability:
        """Which differences between rewards choices can show in this environment, and which rest on the prior alone."""
        return identifiability_of(self)

    def unidentified(self) -> list[str]:
        """What no choice in this environment can show, beyond a constant, in words."""
        return unidentified(self)

    # ---- what to do about it ---------------------------------------------------------------------------------

    def policies(self) -> xr.DataArray:
        """The policy that is optimal for each task's expected reward (task, state, action).

        With known transitions the value of a policy is linear in the reward: this maximises the expected value too.
        Where transitions are not known it is the best found on average over draws of both; see `decisions`.
        """
        if self.belief is not None:
            return self.decisions()["policy"]
        found = plan(self.environment, self.mean_reward.fillna(0.0).values, on=self.model.reward.on)
        return self._labelled_policy(found.policy, ("task",), {"task": self.mean_reward["task"]})

    def decisions(self) -> xr.Dataset:
        """Where transitions are not known: the best `policy` found for each task, and bounds on what it could attain.

        `value` (task, state) is what it is worth on average over what may be true; `upper`, what it would be worth to
        know reward and environment: no policy attains more. `mean_policy_value` is that of the policy that takes the
        means of both for the truth; `by_induction` says where another one was better, and was chosen.
        """
        return self._decisions

    @cached_property
    def _decisions(self) -> xr.Dataset:
        if self.belief is None:
            raise InputError(
                "the environment is known: posterior.policies() has the best policies, and plan their values."
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
        tasks: Sequence[Label] | None = None,
        states: Sequence[Label] | None = None,
        canonical: bool = False,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """A tidy table of rewards: mean, sd, interval.

        Parameters
        ----------
        contrasts
            None: one row for each task and state (and action), with the prior's mean and sd beside it, and the
            probability that this reward is above the task's average. "state": differences between the states of a
            task. "task": differences between tasks in the same state. Both with the probability of being above 0.
            Those between states say in `identified` whether choices can show them in this environment; the others
            rest on the prior alone.
        tasks, states
            Only these, by name.
        canonical
            Of rewards in canonical form (see `canonical`).
        level
            Probability of the equal-tailed interval.
        """
        if contrasts not in (None, "state", "task"):
            raise InputError(f'contrasts must be None, "state" or "task"; found {contrasts!r}.')
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1; found {level!r}.")
        reward = _selected(self.canonical()["reward"] if canonical else self.rewards, "task", tasks)
        cells: list[str] = [dim for dim in ("state", "action") if dim in reward.dims]
        average = reward.mean(cells).stack(sample=("chain", "draw"))
        reward = _selected(reward, "state", states).stack(sample=("chain", "draw"))
        if contrasts == "task" and isinstance(self.model.sharing, Pooled):
            raise InputError("under Pooled() all tasks want the same: there is nothing to compare.")
        if contrasts is None:
            table = _described(reward, level)
            table["p_above_average"] = (reward > average).mean("sample").where(table["mean"].notnull())
            if not canonical:
                prior = self.data["prior"].dataset["reward"]
                table["prior_mean"], table["prior_sd"] = prior.mean(("chain", "draw")), prior.std(("chain", "draw"))
            return _tidy(table, ["task", *cells])
        over = ["task"] if contrasts == "task" else cells
        found = self._contrasts(reward, over, level)
        return found if contrasts == "task" else marked(found, self, canonical)

    def _contrasts(self, reward: xr.DataArray, over: list[str], level: float) -> pd.DataFrame:
        """Differences between all pairs along `over`, one row each."""
        kept: list[Any] = [dim for dim in ("task", "state", "action") if dim in reward.dims and dim not in over]
        if len(over) == 1:
            flat = reward.rename({over[0]: "item"})
            labels = flat["item"].values.tolist()
        else:
            stacked = reward.stack(item=over).dropna("item", how="all")
            labels = ["–".join(map(str, label)) for label in stacked["item"].values.tolist()]
            flat = stacked.drop_vars(["item", *over])
        flat = flat.transpose("item", *kept, "sample")
        first, second = np.triu_indices(flat.sizes["item"], k=1)
        rows = len(first) * int(np.prod([flat.sizes[dim] for dim in kept]))
        if rows > LARGEST_TABLE:
            raise InputError(f"that would be {rows:,} contrasts. Choose some with tasks=[...] or states=[...].")
        word = "_".join(over)
        frames = []
        for i in np.unique(first):
            others = second[first == i]
            difference = flat.isel(item=i, drop=True) - flat.isel(item=others)
            table = _described(difference, level)
            table["p_positive"] = (difference > 0).mean("sample")
            table = table.assign_coords(item=np.arange(len(others)))
            frame = _tidy(table, ["item", *kept])
            frame.insert(0, word, [labels[i]] * len(frame))
            frame.insert(1, f"other_{word}", [labels[others[k]] for k in frame.pop("item")])
            frames.append(frame)
        if not frames:
            raise InputError("there is only one: nothing to compare it with.")
        return pd.concat(frames, ignore_index=True)

    def summary(self) -> "Summary":
        """All but the rewards' draws, with R-hat and effective sizes, under the warnings."""
        drawn = self.data["posterior"].dataset
        names = [name for name in drawn.data_vars if name not in UNLISTED]
        mixed = drawn.sizes["chain"] > 1  # without several chains there is no R-hat to speak of
        with np.errstate(all="ignore"):  # of what does not vary
            frame = (
                described_by_arviz(self.data, var_names=names, kind="all" if mixed else "stats")
                if names
                else pd.DataFrame()
            )
        return Summary(self, frame)

    # ---- files ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a netCDF file; it appears whole or not at all."""
        with whole_file(path) as temporary:
            self.data.to_netcdf(temporary, engine="h5netcdf", encoding=compressed(self.data))

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

    # ---- inside --------------------------------------------------------------------------------------------

    def planned(self, rewards: np.ndarray, which: slice, inverse_temperature: np.ndarray | None = None) -> Plan:
        """Plans for rewards [K, ...] of some of the draws, chains one after the other, each in its own environment."""
        on = self.model.reward.on
        if not self._draws_environments:
            return plan(self.environment, rewards, on=on, inverse_temperature=inverse_temperature)
        places = self._drawn_moves(which)
        soft = [None] * len(rewards) if inverse_temperature is None else list(inverse_temperature)
        found = [
            plan(self._place(moves), reward, on=on, inverse_temperature=temperature)
            for moves, reward, temperature in zip(places, rewards, soft, strict=True)
        ]
        return Plan(
            **{
                field.name: None
                if getattr(found[0], field.name) is None
                else np.stack([np.asarray(getattr(each, field.name)) for each in found])
                for field in fields(Plan)
            }
        )

    @property
    def _draws_environments(self) -> bool:
        """Whether draws have environments of their own: those of MPO are averages over what may be."""
        return self.belief is not None and "transition" in self.data["posterior"].dataset

    def _drawn_moves(self, which: slice) -> np.ndarray:
        """Probabilities [K, E] of all possible moves in the environments of some of the draws."""
        assert self.belief is not None
        drawn = self.data["posterior"].dataset["transition"].values
        return self.belief.complete(drawn.reshape(-1, drawn.shape[-1])[which])

    def _place(self, moves: np.ndarray) -> Environment:
        assert self.belief is not None
        return self.belief.environment(moves)

    def _planned_draws(self, rewards: np.ndarray, inverse_temperature: np.ndarray | None) -> Plan:
        """Plans for rewards [chain, draw, ...] of all draws."""
        if not self._draws_environments:
            return self.planned(rewards, slice(None), inverse_temperature)
        shape = rewards.shape[:2]
        soft = None if inverse_temperature is None else inverse_temperature.reshape(-1, *inverse_temperature.shape[2:])
        found = self.planned(rewards.reshape(-1, *rewards.shape[2:]), slice(None), soft)
        arrays = {field.name: getattr(found, field.name) for field in fields(Plan)}
        return Plan(**{k: None if v is None else v.reshape(*shape, *v.shape[1:]) for k, v in arrays.items()})

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


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """A posterior in words and numbers; prints as text, and as a table in notebooks."""

    posterior: Posterior
    table: pd.DataFrame  # hyperparameters and temperatures

    @property
    def rewards(self) -> pd.DataFrame:
        """Mean reward, one row a task."""
        mean = self.posterior.mean_reward
        if mean.ndim == 3:
            mean = mean.stack(pair=("state", "action"))
        return pd.DataFrame(mean.to_pandas())

    def __repr__(self) -> str:
        parts = [
            repr(self.posterior),
            *self.posterior._more_lines(),
            "",
            "mean reward",
            self.rewards.round(3).to_string(max_rows=20, max_cols=12),
        ]
        if len(self.table):
            parts += ["", "population and tasks", self.table.to_string(max_rows=40)]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        warnings = "".join(f"<li>{escape(warning)}</li>" for warning in self.posterior.warnings)
        listed = f"<p><b>Warnings</b></p><ul>{warnings}</ul>" if warnings else ""
        head = "<br>".join(map(escape, [repr(self.posterior).splitlines()[0], *self.posterior._more_lines()]))
        tables = self.rewards.round(3).to_html(max_rows=20, max_cols=12)
        if len(self.table):
            tables += self.table.to_html(max_rows=40)
        return f"<p>{head}</p>{listed}{tables}"


def _selected(values: xr.DataArray, dim: str, names: Sequence[Label] | None) -> xr.DataArray:
    if names is None:
        return values
    known = values[dim].values.tolist()
    places = []
    for name in names:
        label = name if name in known else str(name)  # names that netCDF cannot hold are kept as text
        if label not in known:
            raise InputError(f"there is no {dim} {name!r}.")
        places.append(known.index(label))
    if not places:
        raise InputError(f"{dim}s=[] leaves nothing to show.")
    return values.isel({dim: places})


def _described(values: xr.DataArray, level: float) -> xr.Dataset:
    """Mean, sd and interval over samples."""
    tails = values.quantile([(1 - level) / 2, (1 + level) / 2], dim="sample", skipna=False)
    return xr.Dataset(
        {
            "mean": values.mean("sample", skipna=False),
            "sd": values.std("sample", skipna=False),
            "lower": tails.isel(quantile=0, drop=True),
            "upper": tails.isel(quantile=1, drop=True),
        }
    )


def _tidy(table: xr.Dataset, keys: list[str]) -> pd.DataFrame:
    """One row for each combination of keys, without those that do not exist."""
    frame = table.to_dataframe(dim_order=keys).reset_index()
    return frame[[*keys, *table.data_vars]].dropna(subset="mean").reset_index(drop=True)
