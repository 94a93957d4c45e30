"""Environments chosen by design, at random, or one for good: what is then known about a reward? `make design`.

The experiment of Kleine Buening, Villin & Dimitrakakis, "Environment design for inverse reinforcement learning" (2024),
whose published figures have no errors and do not say all that is needed. What follows is our reading, fixed before the
first loss by design was computed; where the paper is silent it follows a public program of the experiment. Figures of
a third party after 10 rounds (5 repetitions): .062 by design, .113 at random and .166 in one environment.

World: 40 states, 4 actions, discount .9; rewards of states round(Beta(.45, .6), 1); transition rows Dirichlet(1/36).
Neighbours: a row at radius r is drawn from Dirichlet(5/r × the row + .1) until its L1 distance from the row is between
    r − .3 (at least .01) and r + .15. The published "radius" is thus not a sharp limit; with `--strict` it is,
    and distances are at most r.
Demonstrations: in every state one of 20 neighbours (r = .5) of its four rows can be chosen, in each independently.
    Episodes of 10 choices begin in the first state. The first round is two episodes in the base environment, and the
    other nine are one each: in an environment that is designed, drawn at random, or the base environment again.
Demonstrator: Softmax(30) of Q*. The learner believes in Softmax(20), as the published one does, and in rewards that are
    uniform between 0 and 1: it is told neither the temperature nor the distribution of rewards. `--well-specified`
    tells it both, Softmax(30) and Beta(.45, .6).
Loss: V* − V^π under the true reward, π optimal for the posterior mean, averaged over 40 states and 251 environments,
    the base and 250 neighbours (r = .75).

Designs, among 50 random environments, the base, and two that are constructed (see `constructed`):
    information    the one that tells most about the reward, by `mm.design(candidates, posterior)`
    value          the one after which the regret to expect in neighbours of the base is least: decision-theoretic
    regret         the one with the largest Bayesian regret of the posterior mean's policy, as published (maximin)
"""

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import manymotives as mm

STATES, ACTIONS, DISCOUNT = 40, 4, 0.9
ROUNDS, STEPS, BLOCKS, TESTS, CANDIDATES = 10, 10, 20, 250, 50
DEMONSTRATOR = mm.Softmax(30.0)
METHOD = mm.HMC(chains=2, draws=200, warmup=100, thin=1, max_rounds=1)
ARMS = ("fixed", "random", "information", "value", "regret")
LIKE_TESTS = 8  # neighbours of the base in which the value of information is estimated


class Problem:
    """A world, its neighbours, and how good an estimate of its reward is."""

    def __init__(self, repetition: int, slack: float) -> None:
        rng = np.random.default_rng([28, repetition])
        self.reward = np.round(rng.beta(0.45, 0.6, STATES), 1)
        self.base = rng.dirichlet(np.full(STATES, 1 / 36), size=(STATES, ACTIONS))
        self.blocks = np.array([neighbour(rng, self.base, 0.5, slack) for _ in range(BLOCKS)])  # [20, S, A, S]
        self.like_tests = [environment(neighbour(rng, self.base, 0.75, slack)) for _ in range(LIKE_TESTS)]
        self.tests = [
            environment(self.base),
            *(environment(neighbour(rng, self.base, 0.75, slack)) for _ in range(TESTS)),
        ]
        self.best = [mm.plan(each, self.reward).value for each in self.tests]

    def loss(self, estimate: np.ndarray) -> float:
        attained = [mm.evaluate(each, mm.plan(each, estimate).policy, self.reward) for each in self.tests]
        return float(np.mean([best - value for best, value in zip(self.best, attained)]))

    def at_random(self, rng: np.random.Generator) -> np.ndarray:
        """One neighbour of each state's rows."""
        return self.blocks[rng.integers(BLOCKS, size=STATES), np.arange(STATES)]


def neighbour(rng: np.random.Generator, rows: np.ndarray, radius: float, slack: float) -> np.ndarray:
    """[S, A, S] at about this distance from the rows."""
    found = np.empty_like(rows)
    for place in np.ndindex(rows.shape[:-1]):
        distance = -1.0
        while not max(0.01, radius - 0.3) <= distance <= radius + slack:
            found[place] = rng.dirichlet(5 / radius * rows[place] + 0.1)
            distance = np.abs(found[place] - rows[place]).sum()
    return found


def environment(rows: np.ndarray) -> mm.Environment:
    start = np.zeros(STATES)
    start[0] = 1.0
    return mm.Environment(rows / rows.sum(axis=-1, keepdims=True), discount=DISCOUNT, start=start)


def repetition(
    number: int, arms: tuple[str, ...], well_specified: bool, strict: bool, every_round: bool
) -> dict[str, Any]:
    """Losses of all arms in one world: after the last round, or after every round."""
    began, problem = time.process_time(), Problem(number, slack=0.0 if strict else 0.15)
    prior = mm.BetaReward(alpha=0.45, beta=0.6) if well_specified else mm.BetaReward(alpha=1.0, beta=1.0)
    choice = mm.Softmax(30.0 if well_specified else 20.0)
    model = mm.RewardPolicyModel(prior, choice, mm.Pooled())
    losses, seconds = {}, {}
    for arm in arms:
        since = time.process_time()
        losses[arm] = _arm(arm, problem, model, number, every_round)
        seconds[arm] = round(time.process_time() - since, 1)
    return {"repetition": number, "losses": losses, "seconds": seconds, "total": time.process_time() - began}


def _arm(arm: str, problem: Problem, model: Any, number: int, every_round: bool) -> list[float]:
    """Losses after each round that was evaluated, the last one last."""
    rng = np.random.default_rng([28, number, ARMS.index(arm)])  # an arm is the same whatever runs beside it
    members = {"base": environment(problem.base)}
    tables = [trajectories(members["base"], problem, "base", number, 1)]
    losses: list[float] = []
    posterior: Any = None
    for count in range(1, ROUNDS + 1):
        if count > 1:
            name = "base" if arm == "fixed" else f"round {count}"
            if arm != "fixed":
                rows = problem.at_random(rng) if arm == "random" else chosen(arm, problem, posterior, rng)
                members[name] = environment(rows)
            tables.append(trajectories(members[name], problem, name, number, count))
        is_shown = every_round or count == ROUNDS
        if is_shown or arm not in ("fixed", "random"):
            together = pd.concat(tables)
            demonstrations = mm.Demonstrations.from_frame(together, members, episode="episode", step="step")
            posterior = mm.fit(model, members, demonstrations, METHOD, seed=number, progress=False)
        if is_shown:
            losses.append(problem.loss(posterior.by_state_name(posterior.mean_reward).values[0]))
    return losses


def trajectories(place: mm.Environment, problem: Problem, name: str, number: int, count: int) -> pd.DataFrame:
    """What the demonstrator does in a round: two episodes in the first, one in the others."""
    seed = int(np.random.SeedSequence([28, number, count]).generate_state(1)[0])
    sizes: Any = {"steps": STEPS, "episodes": 2 if count == 1 else 1, "seed": seed}
    table = mm.simulate(place, problem.reward, DEMONSTRATOR, **sizes).to_frame()
    return table.assign(environment=name, episode=[f"{count}.{episode}" for episode in table["episode"]])


# ---- designs ---------------------------------------------------------------------------------------------------


def chosen(arm: str, problem: Problem, posterior: Any, rng: np.random.Generator) -> np.ndarray:
    """Rows of transitions of the next environment."""
    draws = posterior.by_state_name(posterior.rewards.isel(task=0)).values.reshape(-1, STATES)
    temperature = posterior.model.choice.inverse_temperature
    candidates = {f"random {k}": problem.at_random(rng) for k in range(CANDIDATES)}
    candidates["base"] = problem.base
    candidates["told apart"] = constructed(problem, draws, temperature, "information")
    candidates["regretted"] = constructed(problem, draws, temperature, "regret")
    places = {name: environment(rows) for name, rows in candidates.items()}
    if arm == "information":
        best = mm.design(places, posterior, steps=STEPS, draws=len(draws), progress=False).best
    elif arm == "regret":
        best = max(places, key=lambda name: bayesian_regret(places[name], draws))
    else:
        best = min(places, key=lambda name: regret_after(places[name], problem, draws, temperature))
    return candidates[best]


def constructed(problem: Problem, draws: np.ndarray, temperature: float, by: str) -> np.ndarray:
    """For each state the rows, of 20, that by one step tell draws best apart; or that are regretted most, on average.

    With values of the environment so far, which is then planned for anew, four times. Told apart: the mutual
    information between an action there and the draw. Regretted: E max_a Q − max_a E Q, as published, by steps.
    """
    rows = problem.base
    for _ in range(4):
        found = mm.plan(environment(rows), draws)
        ahead = np.einsum("bsat,nt->nbsa", problem.blocks, found.value) * DISCOUNT  # [draws, 20, S, A]
        if by == "regret":
            score = ahead.max(axis=-1).mean(axis=0) - ahead.mean(axis=0).max(axis=-1)
        else:
            odds = np.exp(temperature * (ahead - ahead.max(axis=-1, keepdims=True)))
            policy = odds / odds.sum(axis=-1, keepdims=True)
            score = entropy(policy.mean(axis=0)) - entropy(policy).mean(axis=0)
        rows = problem.blocks[score.argmax(axis=0), np.arange(STATES)]
    return rows


def entropy(policy: np.ndarray) -> np.ndarray:
    return -(policy * np.log(np.maximum(policy, 1e-300))).sum(axis=-1)


def bayesian_regret(place: mm.Environment, draws: np.ndarray) -> float:
    """How much is lost from the start, over draws, by acting on their mean."""
    policy = mm.plan(place, draws.mean(axis=0)).policy
    attained = mm.evaluate(place, np.broadcast_to(policy, (len(draws), *policy.shape)), draws)
    return float((mm.plan(place, draws).value - attained)[:, 0].mean())


def regret_after(place: mm.Environment, problem: Problem, draws: np.ndarray, temperature: float) -> float:
    """Expected regret in neighbours of the base of acting on the posterior mean after an episode in a candidate.

    Episodes of 100 draws; what they would teach is the average of draws, weighted by the likelihood of the episode.
    """
    truths = draws[:: max(1, len(draws) // 100)]
    policies = mm.Softmax(temperature).policies(place, draws)
    seen = mm.simulate(place, truths, mm.Softmax(temperature), steps=STEPS, seed=0).counts.reshape(len(truths), -1)
    log_weight = seen @ np.log(np.maximum(policies, 1e-300)).reshape(len(draws), -1).T
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    learnt = weight / weight.sum(axis=1, keepdims=True) @ draws
    lost = []
    for test in problem.like_tests:
        acting = mm.plan(test, learnt).policy
        lost.append((mm.plan(test, truths).value - mm.evaluate(test, acting, truths)).mean())
    return float(np.mean(lost))


# ---- many repetitions ------------------------------------------------------------------------------------------


def summary(rows: list[dict[str, Any]], arms: tuple[str, ...]) -> str:
    """Losses after the last round with their errors, and differences from random environments, by pairs."""
    lines = [f"{len(rows)} repetitions, loss after {ROUNDS} rounds (standard error over repetitions)"]
    last = {arm: np.array([row["losses"][arm][-1] for row in rows]) for arm in arms}
    root = np.sqrt(len(rows))
    for arm, loss in last.items():
        error = loss.std(ddof=1) / root if len(rows) > 1 else float("nan")
        line = f"  {arm:<12} {loss.mean():.4f} ± {error:.4f}, median {np.median(loss):.4f}"
        if arm != "random" and "random" in last and len(rows) > 1:
            gap = loss - last["random"]
            line += f"; less random {gap.mean():+.4f} ± {gap.std(ddof=1) / root:.4f}"
        lines.append(f"{line}; {np.mean([row['seconds'][arm] for row in rows]):.0f} CPU s each")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the number of the first repetition")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["fixed", "random", "information"])
    parser.add_argument("--well-specified", action="store_true")
    parser.add_argument("--strict", action="store_true", help="neighbours within the radius, without exception")
    parser.add_argument("--every-round", action="store_true", help="evaluate after each round: slower")
    parser.add_argument("--out", type=Path, default=Path("build/environment_design.jsonl"))
    given = parser.parse_args()
    arms = tuple(given.arms)
    setting = {"arms": list(arms), "well_specified": given.well_specified, "strict": given.strict}
    setting |= {"every_round": given.every_round}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    done = [row for row in map(json.loads, lines) if row["setting"] == setting]
    wanted = range(given.first, given.first + given.repetitions)
    left = [number for number in wanted if number not in {row["repetition"] for row in done}]
    rows = [row for row in done if row["repetition"] in wanted]
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(given.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        how = given.well_specified, given.strict, given.every_round
        work = [pool.submit(repetition, n, arms, *how) for n in left]
        for each in as_completed(work):
            rows.append({"setting": setting} | each.result())
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(json.dumps(rows[-1]), flush=True)
    print(summary(rows, arms))


if __name__ == "__main__":
    main()
