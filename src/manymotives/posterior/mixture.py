"""The posterior of a `RewardPolicyModel` whose tasks share motives: how many there are, and who shares which."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.errors import InputError
from manymotives.inference.diagnostics import Mixing, mixing, remedy
from manymotives.models import RewardPolicyModel
from manymotives.models.mixture import PartitionPrior, first_seen
from manymotives.posterior.labelling.mixture import judged
from manymotives.posterior.labelling.reward_policy import watched_reward_policy
from manymotives.posterior.mixture_tables import NEGLIGIBLE, MixtureSummary, how_many, motives_table
from manymotives.posterior.partitions import Partition, partition_of, together_of
from manymotives.posterior.reward_policy import RewardPolicyPosterior

CLEAR = 0.5  # probability of a number of motives below which there is no clear number


@dataclass(frozen=True, eq=False, repr=False)
class MixturePosterior(RewardPolicyPosterior):
    """The posterior of a `Mixture`: the number of motives, which tasks share one, and the reward of each motive.

    Motives have no names. Draws number them in order of appearance, so a number has a meaning within its draw only.
    Statements about motives refer to `partition`, the partition that is closest to all draws, never to a single draw.

    Tasks share a motive if they choose alike. If the inverse temperature is known, that means that their rewards times
    it, in log-odds, are the same; if it is inferred, each task has its own, and tasks share a motive if their rewards
    are the same up to scale.
    """

    can_be_reweighted: ClassVar[bool] = False  # a task that was held out may have started a motive

    @classmethod
    def is_kind_of(cls, model: Any) -> bool:
        return isinstance(model, RewardPolicyModel) and model.is_mixture

    @classmethod
    def watched(cls, draws: Any, model: Any, target: Any, demonstrations: Demonstrations) -> xr.Dataset:
        """Rewards of tasks, the number of motives, which tasks share one, the log density; no labels of motives."""
        return judged(watched_reward_policy(draws, model, target, demonstrations), draws.mixture.lp)

    @staticmethod
    def mixing_of(data: xr.DataTree, method: Any) -> Mixing | None:
        """Whether chains agree on the same."""
        watched = judged(data["posterior"].to_dataset(), data["sample_stats"].dataset["lp"].values)
        return mixing(watched, remedy(method, watched.sizes["draw"]))

    @staticmethod
    def warnings_about(data: xr.DataTree, model: Any, lives: np.ndarray) -> tuple[str, ...]:
        """As of every reward–policy model; whether there is a clear number of motives."""
        said = RewardPolicyPosterior.warnings_about(data, model, lives)
        numbers = data["posterior"].dataset["number_of_motives"].values.ravel()
        share = np.bincount(numbers) / len(numbers)
        if share.max() < CLEAR:
            said += (
                f"the number of motives is uncertain: the most probable, {share.argmax()}, has a probability of "
                f"{share.max():.2f}.",
            )
        if PartitionPrior(model.sharing.motives, 1).is_process and share[1] < 1:
            said += (
                "a Dirichlet process does not estimate a finite number of motives, however much data there are: "
                "to infer their number, fit Mixture(motives=FiniteNumber()).",
            )
        return said

    def stored_dims(self, names: dict[str, Any], sizes: dict[str, int]) -> dict[str, dict[str, tuple[str, ...]]]:
        """As of every reward–policy model, and who acts on which motive."""
        found = super().stored_dims(names, sizes)
        drawn, own = self.data["posterior"].dataset, found["posterior"]
        sample = ("chain", "draw")
        own |= {"motive": (*sample, "task"), "number_of_motives": sample}
        prior, spread = self._partitions
        if prior.is_process and not prior.alpha.is_known:
            own["concentration"] = sample
        if spread is not None:
            own |= {} if spread.is_known else {"spread": sample}
            own |= {f"motive_{name}": own[name] for name in ("reward", "weight") if name in own}
        motive = drawn["motive"].values
        if motive.dtype.kind not in "iu" or motive.ndim != 3 or not _are_labels(motive):
            raise InputError("the motives of its tasks are not numbered as a fit numbers them")
        if not np.array_equal(drawn["number_of_motives"].values, motive.max(axis=2) + 1):
            raise InputError("its numbers of motives are not those of its tasks")
        return found | {"prior": {"number_of_motives": sample}}

    # ---- how many, and who with whom -------------------------------------------------------------------------

    @property
    def number_of_motives(self) -> pd.Series:
        """The posterior probability of each number of motives among the tasks."""
        return how_many(self.data["posterior"].dataset)

    @cached_property
    def together(self) -> xr.DataArray:
        """The posterior probability (task, other_task) that two tasks share a motive."""
        names = self._task_coordinate.values
        return xr.DataArray(
            together_of(self.labels),
            dims=("task", "other_task"),
            coords={"task": names, "other_task": names},
            name="probability",
        )

    @cached_property
    def partition(self) -> Partition:
        """Which tasks share a motive: the partition with the least expected variation of information from the draws."""
        tasks = pd.Index(self._task_coordinate.values, name="task")
        return partition_of(self.labels, tasks, self.together.values)

    def motives_table(
        self, contrasts: str | None = None, *, canonical: bool = True, level: float = 0.95
    ) -> pd.DataFrame:
        """The rewards or weights of each motive of `partition`, averaged over its tasks in each draw: mean, sd,
        interval.

        Parameters
        ----------
        contrasts
            If None, one row for each motive and feature, or state (and action), with the probability that a weight is
            above 0, or a reward above the motive's average; `tasks` is the number of tasks with the motive, and
            `together` the average probability that two of them share one. "motive": differences between motives, with
            the probability of being above 0.
        canonical
            Whether to use the form that choices can identify: weights times the inverse temperature, in log-odds, or
            rewards in canonical form (see `canonical`). Otherwise they are on the scale of the model.
        level
            Probability of the intervals.

        Returns
        -------
        DataFrame
            A tidy table, with one row for each number.
        """
        return motives_table(self, self.partition, contrasts, canonical, level)

    # ---- a new task ------------------------------------------------------------------------------------------

    def newcomer(self) -> pd.Series:
        """The probability that a new task has each motive of `partition`, or a new one, before any of its choices.

        These are prior probabilities given the motives that tasks share, averaged over draws. If the tasks of one
        motive in a draw belong to several groups of the partition, its probability is divided between the groups in
        proportion to their tasks.

        Returns
        -------
        Series
            A probability for each motive, and for a new one.
        """
        groups, (joins, starts) = self.partition.groups, self._predictive()
        known = joins.mean(axis=0)
        found = {k: float(known[(groups == k).values].sum()) for k in range(1, self.partition.number + 1)}
        return pd.Series(found | {"new": float(starts.mean())}, name="probability").rename_axis("motive")

    def population(self, *, covariates: Mapping[str, Any] | None = None, seed: int = 0) -> xr.Dataset:
        """The reward of a new task: for each draw, one of its motives or a new one (chain, draw, state[, action]).

        Motives have the probabilities of `newcomer`; a new one is drawn from the prior, and `is_new` (chain, draw)
        marks it. If rewards are made of features, the result also has `weight` (chain, draw, feature). Mixtures have no
        `covariates`.

        Parameters
        ----------
        covariates
            Must be None.
        seed
            Seed of the random numbers.

        Returns
        -------
        Dataset
            `reward`, `is_new` and, if there are features, `weight`.
        """
        found, drawn = super().population(covariates=covariates, seed=seed), self.data["posterior"].dataset
        shape = (drawn.sizes["chain"], drawn.sizes["draw"])
        rng = np.random.default_rng([seed, 2])
        joins, starts = self._predictive()
        edges = np.cumsum(np.hstack([joins, starts[:, None]]), axis=1)
        chosen = (rng.random((len(edges), 1)) * edges[:, -1:] >= edges[:, :-1]).sum(axis=1)
        is_new = chosen == len(self.tasks)
        index = np.minimum(chosen, len(self.tasks) - 1)
        away = self._new_distances(rng, len(edges))
        for name in ("reward", "weight"):
            if name not in found:
                continue
            stored = drawn[f"motive_{name}" if away else name]
            values = stored.values.reshape(len(edges), *stored.shape[2:])[np.arange(len(edges)), index]
            fresh = found[name].values.reshape(values.shape)
            values = np.where(is_new.reshape(-1, *(1 for _ in values.shape[1:])), fresh, values)
            values = values + away[name] if away else values
            found[name] = (found[name].dims, values.reshape(found[name].shape))
        return found.assign(is_new=(("chain", "draw"), is_new.reshape(shape)))

    # ---- inside ----------------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> np.ndarray:
        """[draws, tasks] motives, chains one after the other; numbers mean something within their draw only."""
        motive = self.data["posterior"].dataset["motive"].transpose("chain", "draw", "task").values
        return motive.reshape(-1, motive.shape[2]).astype(np.int64)

    def summary(self, *, level: float = 0.95) -> MixtureSummary:
        """The number of motives, which tasks share one, and all parameters except the rewards, with the warnings on
        top.

        Parameters
        ----------
        level
            Probability of the intervals.

        Returns
        -------
        MixtureSummary
            A table that prints itself.
        """
        return MixtureSummary(self, super().summary(level=level).table)

    def __repr__(self) -> str:
        first, *more = super().__repr__().splitlines()
        found = self.number_of_motives.sort_values(ascending=False, kind="stable")
        found = found[(found >= NEGLIGIBLE) | (found == found.max())]
        said = ", ".join(f"{number} (probability {share:.2f})" for number, share in found.iloc[:3].items())
        return "\n".join([first, f"  motives: {said}{', …' if len(found) > 3 else ''}", *more])

    @property
    def _partitions(self) -> Any:
        return self.target.partitions

    def _predictive(self) -> tuple[np.ndarray, np.ndarray]:
        """That a new task acts on each task's motive [draws, tasks], shared by its tasks; on a new one [draws]."""
        labels, num_tasks = self.labels, len(self.tasks)
        index = labels + np.arange(len(labels))[:, None] * num_tasks
        sizes = np.bincount(index.ravel(), minlength=labels.size)[index]
        prior, count = PartitionPrior(self.model.sharing.motives, num_tasks + 1), labels.max(axis=1) + 1
        drawn = self.data["posterior"].dataset
        known = prior.alpha.known if prior.alpha.is_known else 1.0
        alpha = drawn["concentration"].values.ravel() if "concentration" in drawn else np.full(len(labels), known)
        starts = np.exp([prior.log_start(int(t), float(a)) for t, a in zip(count, alpha)])
        total = num_tasks + prior.share * count + starts
        return np.exp(prior.log_join(sizes)) / sizes / total[:, None], starts / total

    def _new_distances(self, rng: np.random.Generator, draws: int) -> dict[str, np.ndarray]:
        """By how much a new task's reward and weights differ from its motive's; none where there is no spread."""
        spread, drawn, target = self._partitions.spread, self.data["posterior"].dataset, self.target
        if spread is None:
            return {}
        size = target.layout.num_rewards
        scale = np.full(draws, spread.known) if spread.is_known else drawn["spread"].values.ravel()
        u = np.zeros((draws, target.num_coordinates))
        u[:, :size] = scale[:, None] * rng.standard_normal((draws, size))
        return {"reward": target.rewards(u), "weight": u[:, : target.num_weights]}


def _are_labels(motive: np.ndarray) -> bool:
    """Whether motives of each draw [chain, draw, task] are numbered as they appear."""
    if motive.min() < 0 or motive.max() >= motive.shape[2]:
        return False
    return all(np.array_equal(first_seen(each), each) for each in motive.reshape(-1, motive.shape[2]))
