"""MPO-MC, the paper's Algorithm 2: policies from their posterior, rewards from their prior, and each against each."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from manymotives.errors import InputError, quoted
from manymotives.inference.checks import checked_counts
from manymotives.inference.draws import OptimalityDraws, RunState
from manymotives.inference.mcmc.forecast import least_seconds
from manymotives.inference.optimality.policies_given_rewards import policies_given_rewards
from manymotives.inference.optimality.rewards_given_policies import rewards_given_policies
from manymotives.inference.progress import Forecast, Progress
from manymotives.io.records import Recorded
from manymotives.models import OptimalityTarget
from manymotives.models.optimality import DistributionOptimality, log_survival_of
from manymotives.planning import BeliefPlannedRewards, PlannedRewards

NUM_REWARDS = 2_000
TIMED = 40  # for a forecast
FEW_REWARDS = 10.0  # effective ones, below which the set is too coarse for what the choices say
FLAT = 0.01  # of the largest span: below it, a given reward makes nearly every policy nearly optimal
SURPRISING = 0.025  # prior probability of a gap beyond what a task loses
MUCH = 0.5  # of a task's loss: what better policies could add to it
FAVOURS_FLAT = 0.75  # of the average span beforehand


@dataclass(frozen=True)
class OptimalityMonteCarlo(Recorded):
    """Algorithm 2 of the paper, for `PolicyOptimalityModel`.

    Parameters
    ----------
    draws
        K: the number of policies drawn for each task, and of equally weighted draws that are returned (rounded up to a
        multiple of four if tasks share rewards, which takes four chains).
    num_rewards
        N: the number of candidate rewards drawn from the prior, by default 2 000. None if the model has a reward set of
        its own.
    device
        "cpu", in float64; or "gpu", in float32, for the paper's factorisation.
    environments
        If transitions are unknown: the number of environments drawn from the belief to represent it. With 100, values
        under a belief have an error of a tenth of their variation between environments, all in the same direction.
    """

    draws: int = 1_000
    num_rewards: int | None = None
    device: str = "cpu"
    environments: int = 100

    target_type: ClassVar[type] = OptimalityTarget
    is_markov_chain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_counts(self, "draws", "environments", *(() if self.num_rewards is None else ("num_rewards",)))
        if self.device not in ("cpu", "gpu"):
            raise InputError(f'OptimalityMonteCarlo: device must be "cpu" or "gpu"; found {self.device!r}.')

    def init(self, target: OptimalityTarget, seed: int) -> RunState:
        if target.has_given_rewards and self.num_rewards is not None:
            raise InputError(
                "OptimalityMonteCarlo: num_rewards is for rewards drawn from a prior, but these are given. Leave "
                "it out."
            )
        if self.device == "gpu":
            self._check_device(target)
        return RunState(target, seed)

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, OptimalityDraws]:
        target, seed = state.target, state.seed
        given_reward = target.model.factorisation == "policy_given_reward"
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
        rewards, measure = target.reward_set(rng, self.num_rewards or NUM_REWARDS)
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(8,)))
        planned = target.planned_rewards(rewards, self.environments, stream)
        if given_reward:
            found = policies_given_rewards(target, planned, measure, draws, seed, progress)
        else:
            found = rewards_given_policies(target, planned, measure, draws, seed, progress, self.device)
        spread = found.weights @ planned.spans
        effective = 1.0 / np.square(found.weights).sum(axis=1)
        statistics = found.statistics | {
            "effective_rewards": (("task",), effective),
            "mean_span": (("task",), spread),
        }
        more = _about_rewards(target, planned, measure, effective, spread) + _about_gaps(target, found.loss)
        bounds = None
        if isinstance(planned, BeliefPlannedRewards):
            bounds = np.stack([planned.best, planned.upper])
            more += _about_bounds(target, planned, found)
        return None, replace(found, statistics=statistics, warnings=found.warnings + more, bounds=bounds)

    def forecast(self, target: OptimalityTarget, seed: int, draws: int) -> Forecast:
        """How long it takes to plan for the rewards, from a few of them: the rest takes time as well."""
        count = self.num_rewards or NUM_REWARDS
        rewards, _ = target.reward_set(np.random.default_rng(seed), min(TIMED, count))
        every = 1.0 if target.has_given_rewards else count / len(rewards)
        rng = np.random.default_rng(seed)
        seconds = least_seconds(lambda _: target.planned_rewards(rewards, self.environments, rng), fewest=2)
        return Forecast(every * seconds, "at least")

    def _check_device(self, target: OptimalityTarget) -> None:
        given_reward = target.model.factorisation == "policy_given_reward"
        if target.belief is not None:
            raise InputError('device="gpu" is for known environments. Under a belief use the CPU.')
        if given_reward or isinstance(target.model.optimality, DistributionOptimality):
            raise InputError(
                'device="gpu" is for factorisation="reward_given_policy" and a prior of gaps other than '
                "DistributionOptimality: use the CPU."
            )
        import jax

        try:
            jax.devices("gpu")
        except RuntimeError:
            raise InputError(
                'device="gpu": JAX finds no GPU here. Install JAX with GPU support, or use "cpu".'
            ) from None


def _about_gaps(target: OptimalityTarget, loss: np.ndarray) -> tuple[str, ...]:
    """Whether tasks are further from optimal than the prior of ε would have had it."""
    middle = np.median(loss, axis=(0, 1))
    beyond = np.exp(log_survival_of(target.model.optimality)(middle))
    surprised = np.flatnonzero(beyond < SURPRISING)
    if not surprised.size:
        return ()
    worst = int(np.argmin(beyond))
    return (
        f"{len(surprised)} of {len(middle)} tasks lose more than the prior of the gap anticipated: the median "
        f"loss of {target.tasks[worst]!r} is {middle[worst]:.3g} ({target.model.unit_of_loss}), and a larger gap had "
        f"prior probability {beyond[worst]:.2g}. Allow larger gaps, unless you are sure of the prior.",
    )


def _about_bounds(target: OptimalityTarget, planned: BeliefPlannedRewards, found: OptimalityDraws) -> tuple[str, ...]:
    """Whether better policies than those found could make losses much larger."""
    short = found.weights @ planned.shortfall
    middle = np.median(found.loss, axis=(0, 1))
    worst = int(np.argmax(short - middle))
    if short[worst] <= MUCH * middle[worst]:
        return ()
    return (
        "losses are relative to the best policy found without knowledge of the environment. Knowing it would be "
        f"worth up to {short[worst]:.3g} more ({target.model.unit_of_loss}), and the median loss of "
        f"{target.tasks[worst]!r} is {middle[worst]:.3g}: if there are better policies, losses are larger, by at most "
        "that amount. More observed transitions would reduce it.",
    )


def _about_rewards(
    target: OptimalityTarget,
    planned: PlannedRewards | BeliefPlannedRewards,
    measure: np.ndarray,
    effective: np.ndarray,
    spread: np.ndarray,
) -> tuple[str, ...]:
    """What to say of the set of rewards, once the weights are known."""
    found = []
    worst = int(np.argmin(effective))
    if not target.has_given_rewards and effective[worst] < FEW_REWARDS:
        found.append(
            f"the posterior of {target.tasks[worst]!r} rests on effectively {effective[worst]:.1f} of "
            f"{len(measure)} rewards drawn from the prior: the set is too coarse for these choices. Raise "
            "num_rewards."
        )
    if target.model.scale_free or target.model.factorisation == "policy_given_reward":
        return tuple(found)  # there, a reward for which any policy will do explains nothing
    flat = np.flatnonzero(planned.spans < FLAT * planned.spans.max())
    if target.has_given_rewards and flat.size:
        names = ", ".join(quoted(target.model.reward.names[j]) for j in flat[:5])
        found.append(
            f"nearly every policy is nearly optimal for reward {names}{' …' if flat.size > 5 else ''}, which "
            "hardly varies between states, so it is favoured whatever was chosen. Leave it out, or use "
            "scale_free=True."
        )
    before, least = float(measure @ planned.spans), int(np.argmin(spread))
    if spread[least] < FAVOURS_FLAT * before and not flat.size:
        found.append(
            "the posterior favours flat rewards, for which all policies have similar values: the largest "
            f"possible loss is {spread[least] / before:.2f} times that under the prior (task "
            f"{target.tasks[least]!r}). This is a property of the model as much as of the data; scale_free=True "
            "removes it."
        )
    return tuple(found)
