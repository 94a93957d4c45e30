"""A hierarchical model meets a new task: predictions from the population that the other tasks have shown.

Three ways, the cheapest first. **Reweighted**: with the task's reward integrated out, leaving a task out of a posterior
divides by p(d_m | h),

    p(h | d_others) ∝ p(h | d) / p(d_m | h),    p(d_m | h) ≈ mean_j p(d_m | ρ_j),  ρ_j ~ population h,

and a new task's ρ_j are then weighted by the choices it has shown; all from one fit, where Pareto k̂ says that the
weights can be trusted. **Continued**: the chains of that fit go on without the choices that are held out, from where
they are, which is near where they belong; what they draw first is thrown away. **Refit**: from the beginning.

A task with covariates stays in the fit without its choices: it is predicted from its covariates.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from manymotives.data.belief import EnvironmentOrBelief, known_part
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.families import draw_all
from manymotives.fitting.fit import method_of
from manymotives.inference import Progress, suited
from manymotives.inference.importance import UNRELIABLE, normalised, smoothed
from manymotives.models import Target
from manymotives.posterior import RewardPolicyPosterior
from manymotives.posterior.archive import unpacked_state
from manymotives.scoring.contenders import Contender, predicted
from manymotives.scoring.prediction import CONTINUED, REFIT, REWEIGHTED, Prediction
from manymotives.scoring.splits import Split, only

NUMBERS = 2_000_000  # of policies kept at a time: draws × states × actions
POPULATIONS = 500  # draws of the population that tasks are drawn from …
TASKS = 200  # … and tasks from each, at most
NEW_TASKS = 1_000  # drawn, at least, from a population that the chains went on to
IMPOSSIBLE = -1e300  # log p of what a task would never do: −∞ times no such choice would not be 0
FORGOTTEN, KEPT = 0.1, 0.2  # of a method's draws: thrown away, and kept, when chains go on …
FEWEST_FORGOTTEN, FEWEST_KEPT = 8, 16  # … but no fewer sweeps than these


@dataclass(frozen=True, eq=False)
class NewTasks:
    """New tasks drawn from draws of a population: their policies, one row a task."""

    log_policies: Float[np.ndarray, "N S·A"]  # 0 where an action does not exist: nobody can have chosen it
    populations: int  # N = populations × tasks drawn from each
    is_known: bool  # the population needs no inference, so that no task has had any part in it

    @classmethod
    def of(
        cls, target: Target, hyper: Float[np.ndarray, "K H"], moves: np.ndarray | None, seed: int, least: int
    ) -> "NewTasks":
        """Tasks from populations with hyperparameters `hyper`, in their natural form.

        `moves` [K, E′]: the environments drawn with them, where it is not known.
        """
        size = target.environment.num_states * target.environment.num_actions
        every = -(-len(hyper) // POPULATIONS)
        kept, moves = hyper[::every], None if moves is None else moves[::every]
        each = max(-(-least // len(kept)), min(TASKS, NUMBERS // (size * len(kept))))
        parameters = np.repeat(target.parameters_at(kept), each, axis=0)
        u = draw_all(np.random.default_rng([seed, 1]), target.layout.families, np.ascontiguousarray(parameters))
        nobody = np.zeros(len(u), dtype=int)
        step = max(1, NUMBERS // 8 // size) if moves is None else len(u)
        parts = [_log_policies(target, u[k : k + step], nobody[k : k + step], moves) for k in range(0, len(u), step)]
        log_policies = np.concatenate(parts).reshape(len(u), size)
        exists = target.environment.available.ravel()
        log_policies = np.where(exists, np.maximum(log_policies, IMPOSSIBLE), 0.0)
        return cls(log_policies, len(kept), target.num_hyper == 0)

    def log_likelihood(self, counts: Float[np.ndarray, "S A"]) -> Float[np.ndarray, " N"]:
        return self.log_policies @ counts.ravel()

    def leave_out_weights(self, counts: Float[np.ndarray, "S A"]) -> tuple[Float[np.ndarray, " N"], float]:
        """Log weights that take a task's choices back out of the population, and the worse of two k̂.

        One is of the weights; the other of the likelihoods that their integrals are averages of.
        """
        if self.is_known:
            return np.zeros(len(self.log_policies)), float("-inf")
        likelihood = self.log_likelihood(counts)
        _, inside = smoothed(likelihood)
        evidence = logsumexp(likelihood.reshape(self.populations, -1), axis=1)
        log_weights, outside = smoothed(-evidence)
        return np.repeat(log_weights, len(likelihood) // self.populations), max(inside, outside)

    def policy(self, log_weights: Float[np.ndarray, " N"], available: np.ndarray) -> Float[np.ndarray, "S A"]:
        """log Σ w π."""
        total = normalised(log_weights) @ np.exp(self.log_policies)
        with np.errstate(divide="ignore"):
            return np.log(np.where(available, total.reshape(available.shape), 0.0))


def predict_held_out_tasks(
    contender: Contender,
    dynamics: EnvironmentOrBelief,
    demonstrations: Demonstrations,
    splits: tuple[Split, ...],
    posterior: RewardPolicyPosterior,
    seed: int,
    *,
    refits: bool,
) -> Iterator[Prediction]:
    """A prediction for each split, in their order: tasks one after the other, each with rising experience."""
    everybody, environment = _new_tasks(posterior, seed), known_part(dynamics)
    counts = demonstrations.counts.astype(float)
    cold: dict[int, tuple[NewTasks, np.ndarray, float]] = {}  # who was imagined for a task before it showed anything
    for number, split in enumerate(splits):
        known = _counts_of(demonstrations, split)
        found = Prediction(np.full(environment.available.shape, np.nan), REWEIGHTED, float("inf"))
        if everybody is not None:
            found = _warmed(everybody, *everybody.leave_out_weights(counts[split.task]), known, environment, REWEIGHTED)
        if refits and found.pareto_k > UNRELIABLE and split.task in cold:
            found = _warmed(*cold[split.task], known, environment, CONTINUED)
        if refits and found.pareto_k > UNRELIABLE:
            gone_on = _continued(contender, dynamics, demonstrations, split, posterior, [seed, number])
            if gone_on is None:
                found = refit(contender, dynamics, demonstrations, split, seed)
            else:
                found, new_tasks = gone_on
                if new_tasks is not None:
                    cold[split.task] = (new_tasks, np.zeros(len(new_tasks.log_policies)), float("-inf"))
        yield found


def predict_without(
    contender: Contender,
    dynamics: EnvironmentOrBelief,
    demonstrations: Demonstrations,
    split: Split,
    posterior: RewardPolicyPosterior,
    seeds: list[int],
) -> Prediction:
    """Where all want the same: chains that go on without what is held out, or a fit anew."""
    gone_on = _continued(contender, dynamics, demonstrations, split, posterior, seeds)
    return refit(contender, dynamics, demonstrations, split, seeds[0]) if gone_on is None else gone_on[0]


def refit(
    contender: Contender, dynamics: EnvironmentOrBelief, demonstrations: Demonstrations, split: Split, seed: int
) -> Prediction:
    """From the beginning, on a split's training set."""
    log_policies, mixed = predicted(contender, dynamics, only(demonstrations, split.trains), seed)
    return Prediction(log_policies[split.task], REFIT, mixed=mixed)


def _new_tasks(posterior: RewardPolicyPosterior, seed: int) -> NewTasks | None:
    """New tasks from draws of the population; None where these cannot be reweighted.

    They cannot where the population is a single estimate, which no weight can make forget a task; nor, to keep this
    simple, where tasks are known to act differently, or have covariates.
    """
    target, hyper = posterior.target, posterior.hyperparameters()
    estimated = target.num_hyper > 0 and not np.ptp(hyper, axis=0).any()
    known = (target.fixed_temperature, target.fixed_lapse)
    differ = any(not np.isnan(values).all() and np.ptp(values) > 0 for values in known)
    if estimated or differ or target.effects is not None:
        return None
    drawn = posterior.data["posterior"].dataset
    moves = drawn["transition"].values.reshape(len(hyper), -1) if posterior.belief is not None else None
    return NewTasks.of(target, hyper, moves, seed, NEW_TASKS)


def _warmed(
    new_tasks: NewTasks, log_weights: np.ndarray, shape: float, known: np.ndarray, environment: Environment, how: str
) -> Prediction:
    """After the choices a task has shown: those of its kind weigh more."""
    if known.any():
        log_weights, more = smoothed(log_weights + new_tasks.log_likelihood(known))
        shape = max(shape, more)
    return Prediction(new_tasks.policy(log_weights, environment.available), how, shape)


def _continued(
    contender: Contender,
    dynamics: EnvironmentOrBelief,
    demonstrations: Demonstrations,
    split: Split,
    posterior: RewardPolicyPosterior,
    seeds: list[int],
) -> tuple[Prediction, NewTasks | None] | None:
    """The chains of a posterior, gone on without what is held out; None where they cannot."""
    method = contender.method
    arrays: dict[str, Any] = unpacked_state(posterior.data["sampler"].dataset)
    if type(method) is not type(method_of(posterior)) or not {"tasks", "log_likelihood", "stream"} <= arrays.keys():
        return None
    target, environment = contender.model.bind(dynamics, only(demonstrations, split.trains)), known_part(dynamics)
    method = suited(method, target)
    owner, belief = np.arange(target.num_tasks), target.belief
    environments = [environment] * len(arrays["tasks"])
    if belief is not None:
        environments = [belief.environment(belief.normalised(logs)) for logs in arrays["environment_logs"]]
    drawn_tasks = arrays["tasks"]
    if target.effects is not None:  # chains keep tasks without what covariates add
        coefficients = target.effects.coefficients(arrays["effects_z"], arrays["effects_log_spread"])
        drawn_tasks = drawn_tasks + target.effects.offsets(coefficients)
    found = [target.log_likelihood(tasks, owner, each) for tasks, each in zip(drawn_tasks, environments)]
    arrays["log_likelihood"] = np.stack(found)
    streams = [np.random.default_rng([*seeds, chain]).bit_generator.state for chain in range(len(arrays["tasks"]))]
    arrays["stream"] = np.array([json.dumps(stream) for stream in streams])
    made = posterior.rewards.sizes["draw"]  # in as many rounds as it took: the slower they mix, the more
    thin = method.thin
    forgotten = max(-(-FEWEST_FORGOTTEN // thin), round(FORGOTTEN * made))
    kept = max(-(-FEWEST_KEPT // thin), round(KEPT * made))
    method = replace(method, chains=len(arrays["tasks"]))
    begin = replace(method.init(replace(target, episodes=None), seeds[0]), arrays=arrays)
    draws = method.advance(begin, forgotten + kept, Progress(False))[1]
    is_pooled = contender.model.is_pooled
    if split.own_episodes == 0 and not is_pooled and target.effects is None:
        hyper = target.natural_hyper(draws.hyper[:, forgotten:, 0]).reshape(-1, target.num_hyper)
        drawn = draws.transition_probabilities
        moves = None if drawn is None else drawn[:, forgotten:].reshape(len(hyper), -1)
        new_tasks = NewTasks.of(_as(target, split.task), hyper, moves, seeds[-1], NEW_TASKS)
        nothing = np.zeros(len(new_tasks.log_policies))
        return Prediction(new_tasks.policy(nothing, environment.available), CONTINUED), new_tasks
    task = 0 if is_pooled else split.task
    u = draws.tasks[:, forgotten:, task].reshape(-1, target.num_coordinates)
    every = -(-len(u) // NEW_TASKS)
    drawn = draws.transition_probabilities
    moves = None if drawn is None else drawn[:, forgotten:].reshape(len(u), -1)[::every]
    u = u[::every]
    log_policies = _log_policies(target, u, np.full(len(u), task), moves)
    return Prediction(logsumexp(log_policies, axis=0) - np.log(len(u)), CONTINUED), None


def _log_policies(target: Target, u: np.ndarray, owner: np.ndarray, moves: np.ndarray | None) -> np.ndarray:
    """log π [N, S, A] of coordinates u [N, D]; each with its own environment where these are drawn: moves [K, E′].

    N is a multiple of K: neighbours share an environment.
    """
    if moves is None or target.belief is None:
        return target.log_policies(u, owner)
    parts = np.split(np.arange(len(u)), len(moves))
    environments = map(target.belief.environment, target.belief.complete(moves))
    return np.concatenate([target.log_policies(u[part], owner[part], each) for part, each in zip(parts, environments)])


def _as(target: Target, task: int) -> Target:
    """The same, where nobody in particular acts as this task is known to."""
    known = {name: getattr(target, name)[[task]] for name in ("fixed_temperature", "fixed_lapse")}
    return replace(target, **known)


def _counts_of(demonstrations: Demonstrations, split: Split) -> Float[np.ndarray, "S A"]:
    """What the task of a split has shown of itself in its training set."""
    mine = split.trains & (demonstrations.task == split.task)
    return only(demonstrations, mine).counts[split.task].astype(float)
