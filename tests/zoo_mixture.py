"""Models at random whose tasks share motives; the log density of draws recomputed from its definition.

    python tests/zoo_mixture.py --models 60 --seed 0

Worlds of 2 to 5 states, Gaussian or Dirichlet rewards whose hyperparameters are known or not, inverse temperatures
known or each task's own, every prior of partitions, with a spread or without; tasks without choices, with one, alike.
Nothing here but what is drawn comes from the library.
"""

import argparse
import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

NUMBER = 400  # motives that a finite number is summed over


@dataclass(frozen=True)
class Specimen:
    """A world, a model in words and numbers, and choices."""

    transitions: np.ndarray  # [S, A, S]
    discount: float
    reward: str  # "known", "population" or "dirichlet"
    temperature: float | None  # None: each task's own, Gamma(4, rate 1)
    motives: tuple[str, float]  # "finite", mean; "process", concentration (0: Gamma(1, 1)); "known", their number
    spread: float | None  # of its half-normal prior; negative: known
    counts: np.ndarray  # [M, S, A]

    def __str__(self) -> str:
        return (
            f"{self.counts.shape} choices, {self.reward} rewards, temperature {self.temperature}, {self.motives}, "
            f"spread {self.spread}"
        )


def specimen(seed: int, index: int) -> Specimen:
    """Number `index` of the zoo with this seed."""
    rng = np.random.default_rng([seed, index, 27])
    states, actions, tasks = int(rng.integers(2, 6)), int(rng.integers(2, 4)), int(rng.choice([1, 2, 3, 5, 8]))
    counts = rng.poisson(rng.choice([0.3, 1.0, 4.0]), size=(tasks, states, actions)).astype(float)
    if rng.random() < 0.3:
        counts[:] = counts[0]  # alike
    if rng.random() < 0.3:
        counts[-1] = 0.0  # silent
    if rng.random() < 0.2:
        counts[0] = 0.0
        counts[0, 0, 0] = 1.0  # one choice
    reward = str(rng.choice(["known", "population", "dirichlet"]))
    spread = None if reward == "dirichlet" else (None, 0.5, -0.3, 1e-6)[rng.integers(4)]
    motives = [("finite", 1.5), ("finite", 4.0), ("process", 0.0), ("process", 0.7), ("known", 1.0), ("known", 3.0)]
    return Specimen(
        transitions=rng.dirichlet(np.full(states, 0.5), size=(states, actions)),
        discount=float(rng.choice([0.3, 0.9])),
        reward=reward,
        temperature=None if reward == "dirichlet" or rng.random() < 0.3 else float(rng.choice([0.5, 3.0])),
        motives=motives[rng.integers(len(motives))],
        spread=spread,
        counts=counts,
    )


def drawn(one: Specimen, seed: int, draws: int = 12) -> Any:
    """The library's draws."""
    import manymotives as mm
    from manymotives.inference import sample

    rewards = {
        "known": mm.GaussianReward(mean=0.3, scale=1.2),
        "population": mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.5)),
        "dirichlet": mm.DirichletReward(mm.Gamma(shape=3.0, rate=2.0)),
    }
    kind, number = one.motives
    process = mm.DirichletProcess(number) if number else mm.DirichletProcess()
    prior = {"finite": lambda: mm.FiniteNumber(mean=number), "process": lambda: process, "known": lambda: int(number)}
    spread = None
    if one.spread is not None:
        spread = mm.HalfNormal(scale=one.spread) if one.spread > 0 else -one.spread
    rule = mm.Softmax(mm.Gamma(shape=4.0, rate=1.0) if one.temperature is None else one.temperature)
    model = mm.RewardPolicyModel(rewards[one.reward], rule, mm.Mixture(prior[kind](), spread=spread))
    environment = mm.Environment(one.transitions, discount=one.discount)
    target = model.target(environment, tuple(range(len(one.counts))), one.counts)
    method = mm.HMC(chains=2, draws=draws, warmup=10, thin=1)
    return sample(method, target, seed=seed)


# ---- the definition ----------------------------------------------------------------------------------------------


def log_policy(one: Specimen, reward: np.ndarray, temperature: float) -> np.ndarray:
    """log π [S, A] of a softmax of optimal values, by value iteration."""
    value = np.zeros(len(reward))
    for _ in range(int(math.log(1e-14) / math.log(one.discount)) + 1):
        q = reward[:, None] + one.discount * one.transitions @ value
        value = q.max(axis=1)
    return special.log_softmax(temperature * q, axis=1)


def log_partition(one: Specimen, label: np.ndarray, alpha: float) -> float:
    """log p(z): tasks come one after the other to a process; a finite number of motives is summed over."""
    kind, number = one.motives
    size, sizes = len(label), np.bincount(label)
    if kind == "process":
        total, seen = 0.0, np.zeros(len(sizes))
        for m, k in enumerate(label):
            total += math.log((seen[k] or alpha) / (alpha + m))
            seen[k] += 1
        return total
    terms = []
    for count in range(len(sizes), NUMBER) if kind == "finite" else [int(number)]:
        if count < len(sizes):
            return -math.inf
        weight = stats.poisson.logpmf(count - 1, number - 1) if kind == "finite" else 0.0
        ways = math.lgamma(count + 1) - math.lgamma(count - len(sizes) + 1)
        terms.append(weight + ways + math.lgamma(count) - math.lgamma(count + size))
    return float(special.logsumexp(terms)) + sum(math.lgamma(n + 1) for n in sizes)


def of_log(distribution: Any, logs: np.ndarray) -> float:
    """The log density of logarithms of positive numbers."""
    return float((distribution.logpdf(np.exp(logs)) + logs).sum())


def log_density(one: Specimen, tasks: np.ndarray, hyper: np.ndarray, label: np.ndarray, numbers: Any) -> np.ndarray:
    """log p of choices of each task [M], and of all that is inferred: two parts, the second one number."""
    states, (alpha, spread, centre) = len(one.transitions), numbers
    rewards, first = tasks[:, :states], np.unique(label, return_index=True)[1]
    prior = log_partition(one, label, alpha)
    if one.reward == "dirichlet":
        prior += of_log(stats.gamma(3.0, scale=0.5), hyper)
        prior += sum(of_log(stats.gamma(np.exp(hyper)), centre[m]) for m in first)
        rewards = special.softmax(rewards, axis=1)
    else:
        mean, scale = (hyper[:states], np.exp(hyper[states:])) if one.reward == "population" else (0.3, 1.2)
        prior += sum(stats.norm.logpdf(centre[m], mean, scale).sum() for m in first)
        if one.reward == "population":
            prior += stats.norm.logpdf(mean).sum() + of_log(stats.halfnorm(scale=1.5), hyper[states:])
    if one.spread is not None:
        prior += stats.norm.logpdf(tasks[:, :states], centre, spread).sum()
        prior += of_log(stats.halfnorm(scale=one.spread), np.log(np.array([spread]))) if one.spread > 0 else 0.0
    if one.motives == ("process", 0.0):
        prior += of_log(stats.gamma(1.0), np.log(np.array([alpha])))
    if one.temperature is None:
        prior += of_log(stats.gamma(4.0), tasks[:, states])
    temperature = np.exp(tasks[:, states]) if one.temperature is None else np.full(len(tasks), one.temperature)
    found = [(k * log_policy(one, rho, c)).sum() for k, rho, c in zip(one.counts, rewards, temperature)]
    return np.append(found, prior)


def problems_of(one: Specimen, draws: Any) -> list[str]:
    """What is wrong with draws; nothing, one hopes."""
    found, mixture, states = [], draws.mixture, len(one.transitions)
    for name, values in {"tasks": draws.tasks, "hyper": draws.hyper, **mixture._asdict()}.items():
        if not np.isfinite(values).all():
            found.append(f"{name} are not finite")
    if (draws.log_likelihood > 0).any():
        found.append("a log likelihood is above 0")
    if one.motives[0] == "known" and mixture.motive.max() >= one.motives[1]:
        found.append("more motives than there may be")
    if one.spread is None and not np.array_equal(draws.tasks[..., :states], mixture.centre):
        found.append("rewards are not those of motives")
    for chain, draw in np.ndindex(*draws.tasks.shape[:2]):
        label, centre = mixture.motive[chain, draw], mixture.centre[chain, draw]
        pairs = label[:, None] == label
        if not np.array_equal(pairs, (centre[:, None] == centre).all(axis=2)):
            found.append("tasks of one motive have different ones")
        numbers = mixture.concentration[chain, draw], mixture.spread[chain, draw], centre
        expected = log_density(one, draws.tasks[chain, draw], draws.hyper[chain, draw, 0], label, numbers)
        scale = max(1.0, float(np.abs(expected).sum()))
        for word, given, wanted in (
            ("log likelihood", draws.log_likelihood[chain, draw], expected[:-1]),
            ("log density", mixture.lp[chain, draw], expected.sum()),
        ):
            if not np.abs(given - wanted).max() <= 1e-7 * scale:
                found.append(f"the {word} differs by {np.abs(given - wanted).max():.3g}")
    return list(dict.fromkeys(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments, bad = parser.parse_args(), 0
    for index in range(arguments.models):
        one = specimen(arguments.seed, index)
        problems = problems_of(one, drawn(one, index))
        bad += bool(problems)
        if problems:
            print(f"model {index}: {one}: {problems[:4]}", flush=True)
    print(f"{arguments.models} models, {bad} with problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
