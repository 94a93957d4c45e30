"""Maximum likelihood, or the mode of the posterior, with standard errors: what economists publish, and a first look.

    θ̂ = argmax log p(choices | θ)                   criterion="likelihood"
    θ̂ = argmax log p(choices | θ) + log p(θ)        criterion="posterior"

Under `Pooled()` θ is one vector of parameters for all tasks; under `Separate()`, one for each. Parameters that the
model gives as numbers are known; those with priors are estimated. Under "likelihood" only the support of a prior
counts. Under "posterior" the mode is that of the density of unconstrained coordinates: weights and Gaussian rewards as
they are, logarithms of inverse temperatures and of unnormalised Dirichlet shares, logits of lapse rates, discounts and
Beta rewards. A mode in other coordinates would lie elsewhere; a maximum of the likelihood would not.

Standard errors come from the observed information −∂² log p at the estimate, by central differences of the exact
gradient; or from the expected (Fisher) information; or, robust to misspecification and to dependence within clusters,
from the sandwich H⁻¹ (Σ s sᵀ) H⁻¹ with one score s for each cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from manymotives.data.labels import unknown_names
from manymotives.errors import InputError, quoted
from manymotives.inference.checks import check_moves_rewards_alone, checked_counts
from manymotives.inference.draws import Draws, EstimateDraws, RunState
from manymotives.inference.existence import chart_of, check_bounded, check_choices, check_identified
from manymotives.inference.kinks import settled_at_kinks
from manymotives.inference.maximisation import AT_ONCE, Chart, Maximum, Objective, maximise
from manymotives.inference.mcmc.evaluation import Evaluation
from manymotives.inference.mcmc.forecast import forecast_of_plans
from manymotives.inference.progress import Forecast, Progress
from manymotives.inference.standard_errors import covariances, observed_information
from manymotives.io.records import Recorded
from manymotives.models import Target
from manymotives.models.episodes import LARGEST as MOST_EPISODES
from manymotives.models.rewards import LINEAR

CRITERIA = ("likelihood", "posterior")
ERRORS = ("observed", "expected", "robust")
STARTS = 3  # enough to notice a second maximum where there is one; a start costs …
PLANS = 10  # … some ten plans per parameter
SPREAD = 2.0  # of random starts around the first, in units of log-odds over all parameters together
TIED = 1e-6  # in log likelihood: maxima closer than this are the same
LARGEST_STATES, LARGEST_PARAMETERS = 2_000, 1_000  # beyond, the dense algebra of the information takes minutes


@dataclass(frozen=True)
class MaximumLikelihood(Recorded):
    """Point estimates with standard errors: the maximum of the likelihood, or the mode of the posterior.

    Parameters
    ----------
    criterion
        "likelihood": estimates depend on the choices alone, and of a prior only the range of possible values is used.
        "posterior": the mode of the posterior (MAP), for priors whose own parameters are numbers.
    starts
        Where searches begin; the best maximum that they find is kept. With a whole number n, one search begins at the
        centre (weights of 0, or the medians of priors) and n − 1 at random points around it. Or a list of dictionaries
        such as `[{"replacement": 4.0, "maintenance": 0.0}]`, with names as in `posterior.estimates()`; parameters that
        are not named begin at the centre.
    errors
        "observed": from the curvature of the log likelihood at the estimate. "expected": from the Fisher information.
        "robust": the sandwich estimator, which allows for dependence within clusters (tasks under `Pooled()`, episodes
        otherwise) and for a model that is only approximately right.
    draws
        The number of draws from the normal distribution around the estimate, with which all methods of a `Posterior`
        work.
    """

    criterion: str = "likelihood"
    starts: Any = STARTS
    errors: str = "observed"
    draws: int = 1_000

    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_counts(self, "draws")
        for word, known in (("criterion", CRITERIA), ("errors", ERRORS)):
            if getattr(self, word) not in known:
                names = ", ".join(f'"{name}"' for name in known[:-1]) + f' or "{known[-1]}"'
                raise InputError(f"MaximumLikelihood: {word} must be {names}; found {quoted(getattr(self, word))}.")
        if not isinstance(self.starts, list | tuple):
            checked_counts(self, "starts")
        elif not self.starts or not all(isinstance(start, Mapping) for start in self.starts):
            raise InputError(
                "MaximumLikelihood: starts must be a whole number, or a list of dictionaries such as "
                f'[{{"discount": 0.9}}]; found {quoted(self.starts)}.'
            )

    def init(self, target: Target, seed: int) -> RunState:
        check_moves_rewards_alone(self, target)
        self._check_population(target)
        states, parameters = target.environment.num_states, target.num_coordinates
        if states > LARGEST_STATES or parameters > LARGEST_PARAMETERS:
            raise InputError(
                f"MaximumLikelihood is for up to {LARGEST_STATES:,} states and {LARGEST_PARAMETERS:,} parameters per "
                f"task; there are {states:,} and {parameters:,}. Use HMC(), or fewer features."
            )
        return RunState(target, seed)

    def _check_population(self, target: Target) -> None:
        """Refuse populations whose parameters would be maximised together with their tasks'."""
        has_population = target.layout.group_size > 1
        if self.criterion == "likelihood" and has_population:
            raise InputError(
                "MaximumLikelihood: under Hierarchical() the joint likelihood of tasks and population has no "
                "maximum: it is unbounded as the population's scale goes to 0. EmpiricalBayes() maximises the "
                "marginal likelihood of the population instead; or use Separate() or Pooled()."
            )
        if self.criterion == "posterior" and target.num_hyper:
            raise InputError(
                f'MaximumLikelihood: criterion="posterior" needs a known prior, but {target.blocks[0].name!r} is '
                "inferred: the joint density of parameters and of their prior's scale is unbounded. Give the "
                "parameters of priors as numbers, or use EmpiricalBayes()."
            )

    def forecast(self, target: Target, seed: int, draws: int) -> Forecast:
        """How long it takes on this machine: searches, and the information at their end."""
        starts = len(self.starts) if isinstance(self.starts, list | tuple) else self.starts
        plans = (PLANS * starts + 2) * target.num_coordinates * target.num_tasks + draws
        return forecast_of_plans(target, plans)

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Draws]:
        return None, estimated(self, state.target, state.seed, draws, progress)


def estimated(method: MaximumLikelihood, target: Target, seed: int, draws: int, progress: Progress) -> Draws:
    """Estimates and their covariances, and draws from the normal distribution around them."""
    is_likelihood = method.criterion == "likelihood"
    every, evaluation = np.arange(target.num_tasks), Evaluation(target)
    parameters = None if is_likelihood else np.array(_prior_parameters(target))
    check_choices(target)
    middle = middle_of(target, is_likelihood)
    chart, information = chart_of(target, middle, parameters, planned=evaluation.planned)
    if is_likelihood:
        check_identified(target, chart, information)
    objective = Objective(target, parameters, evaluation)
    found, agreeing = _best_of(objective, chart, _starts(method, target, middle, chart, seed), progress)
    if not target.layout.is_soft:
        found = settled_at_kinks(objective, chart, found, every)
    curvature, is_smooth = observed_information(objective, chart, found, every)
    found = found._replace(curvature=curvature)
    if is_likelihood:
        check_bounded(objective, chart, found, every)
    covariance = covariances(method.errors, objective, chart, found, is_smooth)
    rng = np.random.default_rng([seed, 1])
    drawn = found.u + np.einsum("mdf,nmf->nmd", *_noise(covariance, rng, draws))
    likelihood, by_episode = _likelihoods(target, drawn, evaluation, progress)
    value = _log_likelihoods(objective, found.u, every)
    estimate = EstimateDraws(
        coordinates=found.u,
        covariance=covariance,
        log_likelihood=value,
        log_posterior=found.value,
        gradient_norm=np.linalg.norm(found.gradient, axis=1),
        converged=found.converged.astype(np.int64),
        iterations=found.iterations.astype(np.int64),
        starts_agreeing=agreeing.astype(np.int64),
        num_parameters=np.full(len(every), chart.basis.shape[2], dtype=np.int64),
    )
    return Draws(
        tasks=drawn[None],
        hyper=target.draw_hyper(np.random.default_rng([seed, 2]), draws)[None],
        log_likelihood=likelihood[None],
        warnings=_warnings(method, target, found, is_smooth, agreeing),
        episode_log_likelihood=by_episode,
        estimate=estimate,
    )


def _log_likelihoods(
    objective: Objective, u: Float[np.ndarray, "M D"], owner: Int[np.ndarray, " M"]
) -> Float[np.ndarray, " M"]:
    """Log likelihoods without the prior."""
    return replace(objective, parameters=None)(u, owner).log_likelihood


def _prior_parameters(target: Target) -> Float[np.ndarray, "M D 2"]:
    """Of each task's coordinates, where they are known."""
    return target.parameters(np.zeros((target.num_groups, 0)))[target.group]


def middle_of(target: Target, is_likelihood: bool) -> Float[np.ndarray, "M D"]:
    """Where searches begin: medians of priors, with weights of 0 where priors do not count."""
    rng = np.random.default_rng(0)
    drawn = target.draw_tasks(rng, target.draw_hyper(rng, 501))
    found = np.median(drawn, axis=0)
    if target.layout.link == LINEAR and is_likelihood:
        found[:, : target.layout.num_rewards] = 0.0
    return found


def _starts(
    method: MaximumLikelihood, target: Target, middle: Float[np.ndarray, "M D"], chart: Chart, seed: int
) -> list[Float[np.ndarray, "M D"]]:
    """Coordinates of every start."""
    if isinstance(method.starts, int | np.integer):
        rng, free = np.random.default_rng([seed, 0]), chart.basis.shape[2]
        away = rng.standard_normal((method.starts, len(middle), free)) * SPREAD / np.sqrt(max(free, 1))
        if target.layout.is_soft:
            away[0] = 0.0  # elsewhere all actions tie where rewards are equal, and no gradient says how to leave
        else:
            away[0] *= 0.1
        return [middle + np.einsum("mdf,mf->md", chart.basis, each) for each in away]
    return [_named_start(target, start, middle) for start in method.starts]


def _named_start(target: Target, given: Mapping[Any, Any], middle: np.ndarray) -> np.ndarray:
    """Coordinates from values of parameters by name."""
    layout, found = target.layout, middle.copy()
    names = [str(name) for name in target.names]
    unknown = [name for name in given if str(name) not in names]
    if unknown:
        raise InputError(f"MaximumLikelihood: starts name an {unknown_names(unknown, names, 'parameter')}")
    for name, value in given.items():
        index = names.index(str(name))
        is_log, is_logit = index == layout.temperature, index in (layout.lapse, layout.discount)
        if index < layout.num_rewards and layout.link != LINEAR:
            raise InputError(
                f"MaximumLikelihood: starts can name weights and Gaussian rewards, but {quoted(name)} is bounded. "
                "Leave it out."
            )
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
        if not is_number or (is_log and value <= 0) or (is_logit and not 0 < value < 1):
            raise InputError(f"MaximumLikelihood: {quoted(name)} cannot start at {quoted(value)}.")
        found[:, index] = np.log(value) if is_log else np.log(value / (1 - value)) if is_logit else value
    return found


def _best_of(
    objective: Objective, chart: Chart, starts: list[np.ndarray], progress: Progress
) -> tuple[Maximum, Int[np.ndarray, " M"]]:
    """The best maximum of each task over all starts, and how many starts reached it."""
    every = np.arange(objective.target.num_tasks)
    found = [maximise(objective, chart, start, every, progress) for start in starts]
    values = np.array([one.value for one in found])  # [starts, M]
    settled = np.array([one.converged for one in found])
    best = values.max(axis=0)
    is_best = values >= best - TIED * np.maximum(1.0, np.abs(best))
    pick = np.where((is_best & settled).any(axis=0), (is_best & settled).argmax(axis=0), values.argmax(axis=0))
    chosen = [np.stack([getattr(found[k], word)[m] for m, k in enumerate(pick)]) for word in Maximum._fields]
    return Maximum(*chosen), is_best.sum(axis=0)


def _noise(
    covariance: Float[np.ndarray, "M D D"], rng: np.random.Generator, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """A root of each covariance, which may be singular, and standard normal numbers to multiply it with."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return root, rng.standard_normal((draws, *values.shape))


def _likelihoods(
    target: Target, drawn: Float[np.ndarray, "N M D"], evaluation: Evaluation, progress: Progress
) -> tuple[Float[np.ndarray, "N M"], np.ndarray | None]:
    """Log likelihoods of draws by task, and by episode where these are few enough to keep."""
    draws, tasks, _ = drawn.shape
    likelihood, episodes, every = np.empty((draws, tasks)), target.episodes, np.arange(tasks)
    keeps = episodes is not None and draws * episodes.num_episodes <= MOST_EPISODES
    by_episode = np.empty((1, draws, episodes.num_episodes)) if keeps and episodes is not None else None
    step = max(1, AT_ONCE // tasks)
    with progress.of(draws, "draws") as report:
        for begin in range(0, draws, step):
            rows = drawn[begin : begin + step]
            flat, whose = rows.reshape(-1, rows.shape[2]), np.tile(every, len(rows))
            parts = []
            for first in range(0, len(flat), AT_ONCE):
                part = slice(first, first + AT_ONCE)
                made = evaluation(flat[part], target.counts[whose[part]], whose[part])
                likelihood[begin : begin + step].reshape(-1)[part] = made.log_likelihood
                parts.append(made.q.copy())
            if by_episode is not None and episodes is not None:
                q = np.concatenate(parts).reshape(len(rows), tasks, *target.counts.shape[1:])
                values = target.episode_log_likelihoods(rows, q[:, episodes.task, episodes.state])
                by_episode[0, begin : begin + step] = values
            report.update(begin + len(rows))
    return likelihood, by_episode


def _warnings(
    method: MaximumLikelihood, target: Target, found: Maximum, is_smooth: np.ndarray, agreeing: np.ndarray
) -> tuple[str, ...]:
    """What to know of these estimates."""
    name = "maximum likelihood" if method.criterion == "likelihood" else "the mode of the posterior"
    said = [
        f"these are estimates by {name}: draws come from the normal distribution around the estimate, a "
        "large-sample approximation, and not from a posterior. Intervals are rough if there are few choices. "
        "Confirm with HMC()."
    ]
    unsettled = [task for task, is_settled in zip(target.tasks, found.converged) if not is_settled]
    if unsettled:
        said.append(
            f"the search did not converge for {len(unsettled):,} of {target.num_tasks:,} tasks, such as "
            f"{quoted(unsettled[0])}: estimates and standard errors there are unreliable."
        )
    if not is_smooth.all():
        said.append(
            f"a best action changes at the estimate of {(~is_smooth).sum():,} of {target.num_tasks:,} tasks: the "
            "likelihood of Softmax() has a kink there, and standard errors, from the expected information on one side, "
            "are unreliable. SoftOptimal() has no kinks."
        )
    starts = method.starts if isinstance(method.starts, int | np.integer) else len(method.starts)
    apart = int((agreeing < starts).sum())
    if apart:
        said.append(
            f"of {starts} starts, some ended at a lower maximum in {apart:,} of {target.num_tasks:,} tasks. The "
            "highest one found is reported; raise `starts` to look for others."
        )
    return tuple(said)
