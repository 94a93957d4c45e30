"""Who resembles whom: how much subjects would lose by each other's goals, and whether they fall into groups.

The distance of i from j, for one draw of the posterior, is what j loses if its life is run by what is best for i:

    d(i, j) = (V*_j − V_j^{π*_i}) / (V*_j − V_j^{blind})

where V is the expected value for j's reward from the places where choices were seen, π*_i what is best for i, and blind
an agent that picks any action alike. 0: the goals of i serve j as well as its own; 1: no better than acting blindly.
Nothing that choices cannot tell (scale, constants, shaping) enters. Both directions are averaged, then all draws.

Groups: subjects are points whose distances are the expected ones (classical scaling), cut into 2, 3, … groups (Ward),
and judged by how much closer they are to their own group than to the next one (mean silhouette). The same is done for
as many points from normal clouds of the same covariance, which have no groups. Groups are supported where fewer than
5 % of the clouds look as grouped; their number is where the subjects beat the clouds by most. How sure that is: each
draw's own distances are cut into as many groups, and `together` counts how often two subjects end up in one.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import pdist, squareform

from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.findings.sample import Sample, sample_of
from manymotives.posterior import Posterior

MOST_SUBJECTS = 150  # beyond it, those with the most choices
FEWEST_FOR_GROUPS = 6
MOST_GROUPS = 8
SUPPORTED = 0.05
CLOUDS = 199
NO_GAIN = 1e-9  # of a reward's size: nothing is to be gained from it


@dataclass(frozen=True, eq=False)
class Clusters:
    """Whether subjects fall into groups, and which subject belongs to which."""

    number: int  # 1: none are supported
    p_value: float  # share of clouds without groups that look as grouped; nan where there are too few subjects
    group: np.ndarray  # [M] 0, 1, …, the largest first
    together: np.ndarray  # [M, M] how often two are in one group, over draws
    silhouettes: pd.DataFrame  # groups, subjects, cloud: mean silhouettes

    def __repr__(self) -> str:
        sizes = np.bincount(self.group)
        p = "too few for a test" if np.isnan(self.p_value) else f"p = {self.p_value:.2g}"
        if not self.is_supported:
            return f"No groups are supported among {len(self.group):,} tasks ({p})."
        return f"{self.number} groups, of {', '.join(map(str, sizes))} tasks ({p}). Tasks' groups: {self.group + 1}"

    @property
    def is_supported(self) -> bool:
        return self.number > 1

    @property
    def sureness(self) -> np.ndarray:
        """[M] how often, on average, a subject is together with the others of its group."""
        same = (self.group[:, None] == self.group) & ~np.eye(len(self.group), dtype=bool)
        with np.errstate(invalid="ignore"):
            return np.where(same.any(axis=1), (self.together * same).sum(axis=1) / same.sum(axis=1), 1.0)


@dataclass(frozen=True, eq=False)
class Similarity:
    """Distances between subjects with their uncertainty, a map of them, and groups."""

    who: tuple[str, ...]
    left_out: int  # subjects beyond the number that is compared
    distance: np.ndarray  # [M, M] expected
    lower: np.ndarray  # [M, M] 95 % interval
    upper: np.ndarray
    nearest: np.ndarray  # [M] whom each resembles most, in expectation
    nearest_probability: np.ndarray  # [M] how often, over draws
    positions: np.ndarray  # [M, 2] the map: distances as well as the plane can show them
    shown: float  # correlation of distances on the map with the distances themselves
    order: np.ndarray  # [M] so that those alike stand together
    clusters: Clusters
    draws: int

    def __repr__(self) -> str:
        left_out = f" ({self.left_out:,} with fewer choices are left out)" if self.left_out else ""
        head = f"Similarity of {len(self.who):,} tasks{left_out}, from {self.draws:,} draws. {self.clusters!r}"
        return f"{head}\n\n{self.to_frame().round(3).to_string(index=False, max_rows=20)}"

    def to_frame(self) -> pd.DataFrame:
        """One row a subject: its group, whom it resembles most, and how sure that is."""
        rows = np.arange(len(self.who))
        return pd.DataFrame(
            {
                "task": self.who,
                "group": self.clusters.group + 1,
                "sureness": self.clusters.sureness,
                "most_like": [self.who[n] for n in self.nearest],
                "distance": self.distance[rows, self.nearest],
                "probability": self.nearest_probability,
            }
        )


def similarity(posterior: Posterior | Sample, *, seed: int = 0) -> Similarity:
    """How similar the tasks are in what they want.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    seed
        Seed of the search for groups.

    Returns
    -------
    Similarity
        The `distance` between tasks with intervals, a map, and `clusters`.
    """
    sample = posterior if isinstance(posterior, Sample) else sample_of(posterior)
    if len(sample.who) < 2:
        raise InputError("there is only one task, so there is nobody to compare it with.")
    made = sample.counts.sum(axis=(1, 2))
    kept = np.sort(np.argsort(-made, kind="stable")[:MOST_SUBJECTS])
    draws = distance_draws(sample, kept)
    return _described(draws, tuple(str(sample.who[k]) for k in kept), len(sample.who) - len(kept), seed)


def distance_draws(sample: Sample, kept: np.ndarray) -> np.ndarray:
    """[draws, M, M] symmetric distances between some subjects."""
    posterior = sample.posterior
    seen = sample.counts.sum(axis=(0, 2)).astype(float)
    weights = seen / seen.sum()
    on = posterior.model.reward.on
    rewards, best = sample.rewards[:, kept], sample.plan.actions[:, kept]
    environment = posterior.environment
    choices = environment.available.copy()
    choices[environment.is_terminal, 0] = True  # the nominal action
    blind = choices / choices.sum(axis=1, keepdims=True)
    own = posterior.own_discounts()
    discounts = np.full(rewards.shape[:2], environment.discount) if own is None else own[:, kept]
    lost = np.stack([_lost(environment, on, r, b, d, weights, blind) for r, b, d in zip(rewards, best, discounts)])
    return 0.5 * (lost + lost.transpose(0, 2, 1))


def _lost(
    environment: Environment,
    on: str,
    rewards: np.ndarray,
    best: np.ndarray,
    discounts: np.ndarray,  # [M]
    weights: np.ndarray,
    blind: np.ndarray,  # [S, A] the policy of blind choice
) -> np.ndarray:
    """[M, M] what j (columns) loses by the goals of i (rows), in units of what it gains over blind choice."""
    states, actions = environment.available.shape
    earned = rewards if on == "state_action" else np.repeat(rewards[..., None], actions, axis=-1)
    deterministic = np.zeros((len(best), states, actions))
    np.put_along_axis(deterministic, best[..., None], 1.0, axis=2)
    value = np.empty((len(best) + 1, len(best)))
    for discount in np.unique(discounts):
        visits = np.stack([_visits(environment, policy, weights, discount) for policy in (*deterministic, blind)])
        # the value of a policy is its discounted visits times what they earn
        mine = discounts == discount
        value[:, mine] = np.einsum("isa,jsa->ij", visits, earned[mine], optimize=True)
    own, aimless = np.diag(value), value[-1]
    gain = own - aimless
    worth = gain > NO_GAIN * np.abs(earned).max(axis=(1, 2))
    lost = np.where(worth, (own - value[:-1]) / np.where(worth, gain, 1.0), 0.0)
    return np.maximum(lost, 0.0)


def _visits(environment: Environment, policy: np.ndarray, weights: np.ndarray, discount: float) -> np.ndarray:
    """[S, A] discounted visits x with x = w + γ P_πᵀ x, spread over the actions of the policy."""
    states, actions = policy.shape
    if states <= 60:
        moves = np.einsum("sa,sat->st", policy, environment.tensor)
        x = np.linalg.solve(np.eye(states) - discount * moves.T, weights)
    else:
        spread = sp.csr_array(
            (policy.ravel(), np.arange(states * actions), np.arange(states + 1) * actions),
            shape=(states, states * actions),
        )
        moves = sp.csr_array(spread @ environment.matrix)
        x = spl.spsolve(sp.csc_array(sp.eye_array(states) - discount * moves.T), weights)
    return x[:, None] * policy


def _described(draws: np.ndarray, who: tuple[str, ...], left_out: int, seed: int) -> Similarity:
    expected = draws.mean(axis=0)
    lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
    alone = draws + np.diag(np.full(len(who), np.inf))
    nearest = (expected + np.diag(np.full(len(who), np.inf))).argmin(axis=1)
    clusters = clusters_of(draws, seed=seed)
    positions = _scaled(expected)[:, :2]
    positions = np.pad(positions, ((0, 0), (0, 2 - positions.shape[1])))
    shown = _correlation(squareform(expected, checks=False), pdist(positions))
    order = leaves_list(linkage(squareform(expected, checks=False), "average")) if len(who) > 2 else np.arange(len(who))
    return Similarity(
        who=who,
        left_out=left_out,
        distance=expected,
        lower=lower,
        upper=upper,
        nearest=nearest,
        nearest_probability=(alone.argmin(axis=2) == nearest).mean(axis=0),
        positions=positions,
        shown=shown,
        order=order[np.argsort(clusters.group[order], kind="stable")],
        clusters=clusters,
        draws=len(draws),
    )


def clusters_of(draws: np.ndarray, *, seed: int = 0) -> Clusters:
    """Groups of subjects, from draws [draws, M, M] of the distances between them.

    Parameters
    ----------
    draws
        [draws, M, M]: distances between M subjects.
    seed
        Seed of the reference distribution.

    Returns
    -------
    Clusters
        The `number` of groups, 1 if the data support no division; the `group` of each subject; `p_value`.
    """
    count = draws.shape[1]
    nobody = Clusters(1, np.nan, np.zeros(count, dtype=int), np.ones((count, count)), _table([], [], []))
    if count < FEWEST_FOR_GROUPS:
        return nobody
    points = _scaled(draws.mean(axis=0))
    if points.shape[1] == 0:  # all the same
        return nobody
    rng = np.random.default_rng(seed)
    sizes = np.arange(2, min(MOST_GROUPS, count // 2) + 1)
    subjects, cuts = _silhouettes(points, sizes)
    spread = points.std(axis=0)
    clouds = np.array([_silhouettes(rng.standard_normal(points.shape) * spread, sizes)[0] for _ in range(CLOUDS)])
    p_value = float((1 + (clouds.max(axis=1) >= subjects.max()).sum()) / (1 + CLOUDS))
    table = _table(sizes, subjects, clouds.mean(axis=0))
    if p_value >= SUPPORTED:
        return Clusters(1, p_value, nobody.group, nobody.together, table)
    best = int((subjects - clouds.mean(axis=0)).argmax())
    _, group, size = np.unique(cuts[best], return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-size, kind="stable"))
    together = np.zeros((count, count))
    for distance in draws:
        own = _scaled(distance)
        cut = _silhouettes(own, sizes[best : best + 1])[1][0] if own.shape[1] else np.zeros(count)
        together += cut[:, None] == cut
    return Clusters(len(size), p_value, rank[group], together / len(draws), table)


def _scaled(distance: np.ndarray) -> np.ndarray:
    """Points [M, dimensions] whose distances resemble these: classical scaling, the widest direction first."""
    centre = np.eye(len(distance)) - 1.0 / len(distance)
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    order = np.argsort(-values)
    values, vectors = values[order], vectors[:, order]
    wide = values > 1e-9 * max(values[0], 1e-12)
    points = vectors[:, wide] * np.sqrt(values[wide])
    return points * np.where(points.sum(axis=0) + points[0] < 0, -1.0, 1.0)  # a sign that does not depend on the solver


def _silhouettes(points: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean silhouettes [sizes] of Ward's groups [sizes, M]."""
    condensed = pdist(points)
    tree = linkage(points, "ward")
    distance = squareform(condensed)
    groups = np.stack([fcluster(tree, int(size), "maxclust") for size in sizes])
    return np.array([_silhouette(distance, group) for group in groups]), groups


def _silhouette(distance: np.ndarray, group: np.ndarray) -> float:
    """Rousseeuw's mean silhouette; those alone in a group count 0."""
    names, number = np.unique(group, return_inverse=True)
    member = np.eye(len(names))[number]
    size = member.sum(axis=0)
    total = distance @ member  # [M, groups]
    own = np.take_along_axis(total, number[:, None], axis=1)[:, 0] / np.maximum(size[number] - 1, 1)
    others = np.where(member > 0, np.inf, total / size)
    nearest = others.min(axis=1)
    width = np.where(size[number] > 1, (nearest - own) / np.maximum(np.maximum(own, nearest), 1e-300), 0.0)
    return float(width.mean()) if len(names) > 1 else 0.0


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    if len(first) < 2 or first.std() == 0 or second.std() == 0:
        return 1.0
    return float(np.corrcoef(first, second)[0, 1])


def _table(sizes: object, subjects: object, cloud: object) -> pd.DataFrame:
    return pd.DataFrame({"groups": sizes, "subjects": subjects, "cloud": cloud})
