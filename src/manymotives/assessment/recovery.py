"""What could my experiment show? Simulate it, fit it, and hold the estimates against the truth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from manymotives.data.alignment import aligned
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.fitting.fit import fit
from manymotives.inference import Method, Progress
from manymotives.models import RewardPolicyModel
from manymotives.planning import loss
from manymotives.posterior import Posterior
from manymotives.worlds import simulate


@dataclass(frozen=True, eq=False, repr=False)
class Recovery:
    """A simulated experiment with the truth beside what was inferred."""

    rewards: np.ndarray  # the truth, [task, S] or [task, S, A]
    inverse_temperatures: np.ndarray  # [task]
    demonstrations: Demonstrations
    posterior: Posterior
    losses: pd.DataFrame  # of policies, one row a task

    @property
    def table(self) -> pd.DataFrame:
        """`Posterior.to_frame(of="state")` with the truth, and whether the interval covers it."""
        frame = self.posterior.to_frame(of="state")
        true = self.posterior.mean_reward.copy(data=self.rewards).to_dataframe("truth").reset_index()
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
            f"{mean['demonstrator']:.3g} the demonstrators themselves, {mean['copied']:.3g} copying them"
        )


def recover(
    model: RewardPolicyModel,
    environment: Environment,
    *,
    tasks: int | Sequence[Label] = 20,
    steps: int = 50,
    episodes: int = 1,
    method: Method | None = None,
    rewards: ArrayLike | None = None,
    seed: int = 0,
    progress: bool | Progress = True,
) -> Recovery:
    """Simulate an experiment from the model, fit it with the same model, and compare.

    Parameters
    ----------
    tasks, steps, episodes
        The design: how many subjects (or their names), choices an episode, episodes each.
    method
        As for `fit`.
    rewards
        The truth, [task, S] ([task, S, A] on pairs), where it should not come from the model's prior.
    seed
        Another number, another experiment.
    """
    if not isinstance(model, RewardPolicyModel):
        raise InputError(f"recover simulates a RewardPolicyModel(...), not a {type(model).__name__}.")
    if isinstance(tasks, int) and tasks < 1:
        raise InputError(f"tasks must be at least 1; found {tasks}.")
    names = tuple(range(tasks)) if isinstance(tasks, int) else tuple(tasks)
    rng = np.random.default_rng([seed, 1])
    pooled = model.is_pooled
    count = 1 if pooled else len(names)
    nothing = np.zeros((count, environment.num_states, environment.num_actions))
    prior_target = model.target(environment, names[:count], nothing)
    u = prior_target.draw_tasks(rng, prior_target.draw_hyper(rng, 1))[0]
    owner = np.arange(count)
    temperature, lapse = prior_target.temperatures(u, owner), prior_target.lapses(u, owner)
    axes = {"state": environment.states, "action": environment.actions}
    named = axes if model.reward.on == "state_action" else {"state": environment.states}
    true = (
        prior_target.rewards(u)
        if rewards is None
        else np.asarray(aligned(rewards, "rewards", task=names, **named), dtype=float)
    )
    if pooled and rewards is None:
        true = np.repeat(true, len(names), axis=0)
    if pooled:
        temperature, lapse = np.repeat(temperature, len(names)), np.repeat(lapse, len(names))
    rule = type(model.choice)(inverse_temperature=temperature, lapse=lapse)
    on = model.reward.on
    demonstrations = simulate(environment, true, rule, steps=steps, episodes=episodes, seed=seed, tasks=names, on=on)
    posterior = fit(model, environment, demonstrations, method, seed=seed, progress=progress)
    smoothed = demonstrations.counts + environment.available
    smoothed = smoothed / np.maximum(smoothed.sum(axis=2, keepdims=True), 1)
    policies = {
        "inferred": posterior.policies().values,
        "demonstrator": rule.policies(environment, true, on=on),
        "copied": smoothed,
    }
    losses = {name: loss(environment, policy, true, on=on) for name, policy in policies.items()}
    return Recovery(true, temperature, demonstrations, posterior, pd.DataFrame({"task": names} | losses))
