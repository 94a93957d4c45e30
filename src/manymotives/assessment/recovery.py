"""What could my experiment show? Simulate it, fit it, and hold the estimates against the truth."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from manymotives.assessment.mixture import drawn_mixture
from manymotives.assessment.simulators import tasks_with_covariates
from manymotives.data.alignment import aligned_numbers, is_labelled, labelled
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.execution import Job, Workers, compute, fingerprint_of
from manymotives.fitting.fit import fit
from manymotives.inference import Method, Progress
from manymotives.models import RewardPolicyModel
from manymotives.models.mixture import EPISODE
from manymotives.planning import loss
from manymotives.posterior import Posterior
from manymotives.worlds import simulate


@dataclass(frozen=True, eq=False, repr=False)
class Recovery:
    """A simulated experiment: the true values and what was inferred."""

    rewards: np.ndarray  # the truth, [task, S] or [task, S, A]
    inverse_temperatures: np.ndarray  # [task]
    discounts: np.ndarray  # [task]
    demonstrations: Demonstrations
    posterior: Posterior
    losses: pd.DataFrame  # of policies, one row a task
    replications: pd.DataFrame  # this experiment, and others like it: what each of them recovered, one row for each

    @property
    def table(self) -> pd.DataFrame:
        """`Posterior.to_frame(of="state")` with the truth, and whether the interval covers it."""
        frame = self.posterior.to_frame(of="state")
        rewards = self.posterior.by_state_name(self.posterior.mean_reward.copy(data=self.rewards))
        true = rewards.to_dataframe("truth").reset_index()
        keys = [name for name in ("task", "state", "action") if name in frame]
        frame = frame.merge(true[[*keys, "truth"]], on=keys, how="left")
        frame["covered"] = (frame["lower"] <= frame["truth"]) & (frame["truth"] <= frame["upper"])
        return frame

    @property
    def correlation(self) -> float:
        """Between true and estimated rewards, over tasks and states; NaN where either does not vary."""
        table = self.table
        if table["truth"].std() == 0 or table["mean"].std() == 0:
            return float("nan")
        return float(np.corrcoef(table["truth"], table["mean"])[0, 1])

    @property
    def coverage(self) -> float:
        """Share of true rewards inside their 95 % intervals."""
        return float(self.table["covered"].mean())

    def __repr__(self) -> str:
        mean = self.losses.drop(columns="task").mean()
        return (
            f"Recovery of {len(self.rewards)} tasks: correlation {self.correlation:.2f}, {self.coverage:.0%} of true "
            f"rewards in their 95 % intervals\n  loss in value: {mean['inferred']:.3g} acting on what was inferred, "
            f"{mean['demonstrator']:.3g} the demonstrators themselves, {mean['copied']:.3g} copying them (expected "
            "discounted sums of rewards, added up over states)" + self._others()
        )

    def _others(self) -> str:
        """What experiments like it recovered, in words; nothing where there are none."""
        if len(self.replications) == 1:
            return ""
        middle, error = self.replications.mean(), self.replications.sem()
        return (
            f"\n  over {len(self.replications)} experiments: correlation {middle['correlation']:.2f} ± "
            f"{error['correlation']:.2f}, {middle['coverage']:.1%} ± {error['coverage']:.1%} in their intervals"
        )


def recover(
    model: RewardPolicyModel,
    environment: Environment | Mapping[Any, Environment],
    *,
    tasks: int | Sequence[Label] | ArrayLike = 20,
    steps: int = 50,
    episodes: int = 1,
    method: Method | None = None,
    seed: int = 0,
    replications: int = 1,
    executor: Workers = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | Progress = True,
) -> Recovery:
    """Simulate an experiment from a model, fit the same model to it, and compare the estimates with the true values.

    Parameters
    ----------
    model
        The model from which experiments are simulated, and which is fitted to them.
    environment
        The environment in which simulated subjects act, or several by name.
    tasks
        The number of subjects; or their names; or their true rewards, [task, S] ([task, S, A] on pairs), if these
        should not be drawn from the model's prior. If the model has covariates, the subjects are those of its table, or
        some of them by name.
    steps, episodes
        The number of choices per episode, and of episodes per subject.
    method
        As for `fit`.
    seed
        Seed of the random numbers.
    replications
        The number of experiments to simulate and fit. The result describes the first of them; its table `replications`
        says how well each of them was recovered.
    executor, store
        Where to compute the other experiments, and a file for finished ones, as in `calibrate`.
    progress
        Whether to show a progress bar in a terminal or notebook.

    Returns
    -------
    Recovery
        True values and estimates: `table`, `correlation`, `coverage`.
    """
    if not isinstance(model, RewardPolicyModel):
        raise InputError(f"recover needs a RewardPolicyModel(...), not a {type(model).__name__}.")
    if model.switching is not None:
        raise InputError(
            "recover compares the reward of each task with the truth, but motives that switch have several, in "
            "no order. Simulate them with mm.worlds.SwitchingAgent(...), which returns the true motives, and "
            "fit; or use mm.calibrate."
        )
    if model.is_mixture and model.sharing.by == EPISODE:
        raise InputError(
            'recover compares tasks with the truth, but under Mixture(by="episode") motives belong to episodes. '
            'Use by="task", with as many tasks as there are episodes.'
        )
    if not isinstance(replications, int | np.integer) or replications < 1:
        raise InputError(f"replications must be a whole number of at least 1; found {replications!r}.")
    if model.has_covariates and isinstance(tasks, int | np.integer):
        tasks = tasks_with_covariates(model)
    on = model.reward.on
    place: Environment = environment_of(environment)
    names, rewards = _named_tasks(tasks, place, on)
    rng = np.random.default_rng([seed, 1])
    pooled = model.is_pooled
    count = 1 if pooled else len(names)
    nothing = np.zeros((count, place.num_states, place.num_actions))
    prior_target = model.target(place, names[:count], nothing)
    u = prior_target.draw_tasks(rng, prior_target.draw_hyper(rng, 1))[0]
    if (effects := prior_target.effects) is not None:
        u = u + effects.offsets(effects.coefficients(*effects.draw(rng)))
    if prior_target.partitions is not None:
        u = drawn_mixture(rng, prior_target, u[None])[0][0]
    owner = np.arange(count)
    temperature, lapse = prior_target.temperatures(u, owner), prior_target.lapses(u, owner)
    discount = prior_target.discounts(u, owner)
    true = prior_target.rewards(u) if rewards is None else rewards
    if pooled and rewards is None:
        true = np.repeat(true, len(names), axis=0)
    if pooled:
        temperature, lapse = np.repeat(temperature, len(names)), np.repeat(lapse, len(names))
        discount = None if discount is None else np.repeat(discount, len(names))
    rule = type(model.choice)(inverse_temperature=temperature, lapse=lapse)
    sizes: Any = {"steps": steps, "episodes": episodes, "seed": seed, "tasks": names}
    demonstrations = simulate(place, true, rule, **sizes, on=on, discount=discount, depth=model.depth)
    posterior = fit(model, place, demonstrations, method, seed=seed, progress=progress)
    smoothed = demonstrations.counts + place.available
    smoothed = smoothed / np.maximum(smoothed.sum(axis=2, keepdims=True), 1)
    policies = {
        "inferred": posterior.policies().values,
        "demonstrator": rule.policies(place, true, on=on, discount=discount, depth=model.depth),
        "copied": smoothed,
    }
    losses = {name: loss(place, policy, true, on=on, discount=discount) for name, policy in policies.items()}
    discount = np.full(len(names), place.discount) if discount is None else discount
    lost = pd.DataFrame({"task": names} | losses)
    alone = Recovery(true, temperature, discount, demonstrations, posterior, lost, pd.DataFrame())
    rows = [{"seed": seed} | _figures(alone)]
    if replications > 1:
        setting = (model, environment, tasks, steps, episodes, method)
        mark = fingerprint_of(*setting)
        jobs = [
            Job("recover", "", mark, run, 0, _recovered, setting, run, may_be_infinite=True)
            for run in range(seed + 1, seed + replications)
        ]
        shown = progress.shown if isinstance(progress, Progress) else bool(progress)
        found = compute(jobs, executor=executor, store=store, progress=shown)
        rows += [{"seed": unit.run} | numbers for unit, numbers in found.items()]
    return replace(alone, replications=pd.DataFrame(rows).set_index("seed"))


def _recovered(setting: tuple[Any, ...], seed: int) -> dict[str, float]:
    """One more experiment, as a unit of work."""
    model, environment, tasks, steps, episodes, method = setting
    sizes: Any = {"tasks": tasks, "steps": steps, "episodes": episodes}
    return _figures(recover(model, environment, method=method, seed=seed, progress=False, **sizes))


def _figures(found: Recovery) -> dict[str, float]:
    """What an experiment recovered, in numbers."""
    lost = found.losses.drop(columns="task").mean()
    figures = {"correlation": found.correlation, "coverage": found.coverage}
    return figures | {f"loss_{name}": float(value) for name, value in lost.items()}


def _named_tasks(tasks: Any, environment: Environment, on: str) -> tuple[tuple[Label, ...], np.ndarray | None]:
    """Names of tasks, and their true rewards where these are given."""
    if isinstance(tasks, int):
        if tasks < 1:
            raise InputError(f"tasks must be at least 1; found {tasks}.")
        return tuple(range(tasks)), None
    axes = {"state": environment.states} | ({"action": environment.actions} if on == "state_action" else {})
    labels = labelled(tasks, "task", *axes).labels if is_labelled(tasks) else (None,) * np.ndim(tasks)
    if len(labels) < 2:
        names = tuple(np.asarray(tasks).tolist())
        if any(isinstance(name, float) for name in names):
            raise InputError("tasks must be a number, names, or rewards [task, state]; found a single row of numbers.")
        return names, None
    rewards = aligned_numbers(tasks, "tasks", task=None, **axes)
    return tuple(labels[0] or range(len(rewards))), rewards
