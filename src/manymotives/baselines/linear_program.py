"""Linear programming (Ng & Russell 2000, section 3): the reward for which what was done is best by the widest margin.

    maximise   Σ_s min_{a ≠ π(s)} [Q^π(s, π(s)) − Q^π(s, a)] − λ |w|₁          ρ = φ w;  by default φ are the states
    such that  Q^π(s, π(s)) − Q^π(s, a) ≥ margin,   |w_k| ≤ 1                    Q^π is linear in w

It assumes that agents are optimal and deterministic, and that their whole policy is known. Here π(s) is the action they
took most often; where several were taken equally often all of them count as π (played evenly, held only against the
others, so that one of them may turn out better than the rest). In states nobody chose in, π is first played evenly;
then the program is solved again with what is optimal there for the reward found, which must stay optimal but adds
nothing to the sum. w = 0 is always allowed, and is the answer once λ is large enough.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from manymotives.baselines.common import Problem, Result, checked_number, checked_problem, listed
from manymotives.baselines.expectations import checked_features, one_hot, value_slopes
from manymotives.data.environment import Environment
from manymotives.errors import InputError, quoted
from manymotives.planning import reliable_plan
from manymotives.planning.problem import allowed_actions

NOTHING = 1e-9  # a reward below this is no reward


def linear_program(
    environment: Any,
    demonstrations: Any,
    *,
    penalty: Any = 0.5,
    margin: float = 0.0,
    relax: bool = False,
    features: Any = None,
    on: str = "state",
) -> Result:
    """The reward of each task by linear programming, and the policy that is optimal for it.

    Parameters
    ----------
    environment, demonstrations
        The environment, and the demonstrations in it.
    penalty
        λ, as a fraction of the smallest λ for which the reward is zero everywhere. (That λ is in
        `details["largest_penalty"]`; a fraction between 0 and 1 has the same meaning whatever the scale of values.)
        Small penalties spread rewards over all states, up to ±1; large ones keep only the few states that matter most.
        With a list of fractions, the result is for the first, and the rewards for each are in `details["reward_path"]`.
    margin
        How much better the observed action must be than every other, wherever it was taken. Above 0 there may be no
        such reward with weights within ±1; an error then says where.
    relax
        In that case, whether to use the reward whose margins fall short by the least in total.
    features, on
        φ: [S, K], or [S, A, K] with `on="state_action"`. By default, every state (or pair) has a reward of its own.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` if the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations)
    basis = checked_features(environment, features, on)
    margin = checked_number(margin, "margin")
    is_path = np.iterable(penalty) and not isinstance(penalty, str)
    shares = [checked_number(share, "penalty", most=1.0) for share in (penalty if is_path else [penalty])]
    if not shares:
        raise InputError("penalty is an empty list. Give one number from 0 to 1, or several.")
    dense = basis.on_pairs()
    weights = np.zeros((problem.num_tasks, len(shares), basis.size))
    largest, shortfall, objective = np.zeros((3, problem.num_tasks))
    warnings: list[str] = []
    nothing: list[str] = []
    for task in range(problem.num_tasks):
        programme = _Programme.of(problem.environment, problem.counts[task], dense)
        largest[task] = programme.largest_penalty()
        if (problem.counts[task].sum(axis=1) == 0)[~problem.environment.is_terminal].any():
            guess = basis.rewards(programme.solve(shares[0] * largest[task], np.zeros(len(programme.pairs)))[0])
            actions = reliable_plan(problem.environment, guess, on=on).actions
            programme = _Programme.of(problem.environment, problem.counts[task], dense, actions)
            largest[task] = programme.largest_penalty()
        margins = np.where(programme.seen, margin, 0.0)
        slack = np.zeros(len(margins))
        if margin > 0 and (slack := programme.least_shortfall(margins)).sum() > NOTHING:
            shortfall[task] = slack.sum()
            _complain(problem, task, programme, slack, margin, relax, warnings)
        for position, share in enumerate(shares):
            if share == 1 and margin == 0:  # a whole edge of rewards is as good as none: none it is
                continue
            weights[task, position], value = programme.solve(share * largest[task], margins - slack)
            objective[task] = value if position == 0 else objective[task]
        if np.abs(weights[task, 0]).max() <= NOTHING:
            nothing.append(problem.named(task))
    if nothing:
        warnings.append(
            f"the reward is zero everywhere for {listed(nothing)}: no reward makes the demonstrated actions "
            "better than the others, or the penalty is too large. Their policies take the first available action."
        )
    rewards = basis.rewards(weights)
    policies = reliable_plan(problem.environment, rewards[:, 0], on=on).policy
    agreement = _agreement(problem.counts, policies)
    differs = (agreement < 1) & (np.abs(weights[:, 0]).max(axis=1) > NOTHING)  # the others have been told
    if differs.any():
        other = [problem.named(task) for task in np.flatnonzero(differs)]
        warnings.append(
            f"for {listed(other)} the policy that is optimal for the reward differs from the demonstrated actions "
            f"in up to {1 - agreement[differs].min():.0%} of the visited states. Either the reward makes both "
            "equally good (ties go to the first action); or, where actions were taken equally often or the "
            "margin was relaxed, the demonstrated actions are not optimal for it."
        )
    details = {
        "agreement": problem.labelled(agreement, "task"),
        "weights": problem.labelled(weights[:, 0], "task", "feature", feature=basis.names),
        "largest_penalty": problem.labelled(largest, "task"),
        "penalty": problem.labelled(shares[0] * largest, "task"),
        "objective": problem.labelled(objective, "task"),
        "shortfall": problem.labelled(shortfall, "task"),
    }
    if is_path:
        on_what = ("state", "action")[: rewards.ndim - 2]
        axes = ("task", "penalty_share", *on_what)
        details["reward_path"] = problem.labelled(rewards, *axes, penalty_share=np.array(shares))
    return problem.result("linear_program", policies, rewards[:, 0], details, tuple(warnings))


def _agreement(counts: np.ndarray, policies: np.ndarray) -> np.ndarray:
    """Share [M] of the states seen in which policies [M, S, A] do what was done most often."""
    seen = counts.sum(axis=2) > 0
    same = np.take_along_axis(counts, policies.argmax(axis=2)[..., None], axis=2)[..., 0] == counts.max(axis=2)
    return (same & seen).sum(axis=1) / seen.sum(axis=1)


class _Programme(NamedTuple):
    """One task's linear program in w = w⁺ − w⁻ and one t_s ≤ min_a D(s, a) · w for each state that counts."""

    pairs: np.ndarray  # [P, 2] state and action: what is not done where something else is
    seen: np.ndarray  # [P] whether somebody chose there
    better: np.ndarray  # [P, K] D(s, a) = ∂(V^π(s) − Q^π(s, a)) / ∂w

    @classmethod
    def of(
        cls,
        environment: Environment,
        counts: np.ndarray,
        on_pairs: np.ndarray,
        elsewhere: np.ndarray | None = None,  # actions [S] in states nobody chose in; None: all, evenly
    ) -> "_Programme":
        allowed = allowed_actions(environment)
        seen = counts.sum(axis=1, keepdims=True) > 0
        otherwise = allowed if elsewhere is None else one_hot(elsewhere, environment.num_actions) > 0
        done = np.where(seen, (counts == counts.max(axis=1, keepdims=True)) & (counts > 0), otherwise)
        policy = done / done.sum(axis=1, keepdims=True)
        value, q = value_slopes(environment, policy, on_pairs)
        pairs = np.argwhere(allowed & ~done)
        better = value[pairs[:, 0]] - q[pairs[:, 0], pairs[:, 1]]
        better[np.abs(better) < 1e-12 * max(1.0, float(np.abs(value).max()))] = 0.0  # rounding is no preference
        return cls(pairs, seen[pairs[:, 0], 0], better)

    def solve(self, penalty: float, margins: np.ndarray) -> tuple[np.ndarray, float]:
        """Weights [K], and the objective there."""
        size = self.better.shape[1]
        if not self.seen.any():
            return np.zeros(size), 0.0
        found, height = self._solved(np.full(2 * size, penalty), margins, budget=None)
        return found[:size] - found[size : 2 * size], height

    def largest_penalty(self) -> float:
        """The smallest λ whose answer is w = 0: what one unit of |w|₁ can win, since the margins grow with w."""
        if not self.seen.any():
            return 0.0
        return max(0.0, self._solved(np.zeros(2 * self.better.shape[1]), np.zeros(len(self.pairs)), budget=1.0)[1])

    def least_shortfall(self, margins: np.ndarray) -> np.ndarray:
        """How much of the margin is missing at each pair [P] when as little as possible is missing in all."""
        count, size = self.better.shape
        if count == 0:
            return np.zeros(0)
        rows = np.hstack([-self.better, self.better, -np.eye(count)])
        cost = np.concatenate([np.zeros(2 * size), np.ones(count)])
        bounds = [(0.0, 1.0)] * (2 * size) + [(0.0, None)] * count
        found = linprog(cost, A_ub=rows, b_ub=-margins, bounds=bounds, method="highs")
        _check(found)
        return np.maximum(found.x[2 * size :], 0.0)

    def _solved(self, prices: np.ndarray, margins: np.ndarray, budget: float | None) -> tuple[np.ndarray, float]:
        """w⁺, w⁻ and t at Σ t_s − prices · (w⁺, w⁻) at its largest, and that; with |w|₁ ≤ budget, if there is one."""
        count, size = self.better.shape
        states, row = np.unique(self.pairs[self.seen, 0], return_inverse=True)
        difference = sp.csr_array(np.hstack([-self.better, self.better]))
        belongs = sp.csr_array((np.ones(len(row)), (np.arange(len(row)), row)), shape=(len(row), len(states)))
        rows = [
            sp.hstack([difference[np.flatnonzero(self.seen)], belongs]),  # t_s − D(s, a) w ≤ 0
            sp.hstack([difference, sp.csr_array((count, len(states)))]),  # −D(s, a) w ≤ −margin
        ]
        limits = [np.zeros(len(row)), -margins + 1e-12]
        if budget is not None:
            rows.append(sp.csr_array(np.append(np.ones(2 * size), np.zeros(len(states)))[None]))
            limits.append(np.array([budget]))
        cost = np.append(prices, -np.ones(len(states)))
        bounds = [(0.0, 1.0 if budget is None else None)] * (2 * size) + [(None, None)] * len(states)
        found = linprog(
            cost, A_ub=sp.vstack(rows, format="csr"), b_ub=np.concatenate(limits), bounds=bounds, method="highs"
        )
        _check(found)
        return found.x, float(-cost @ found.x)


def _check(found: Any) -> None:
    if found.status != 0:  # the least shortfall was asked for before, so this is the solver's own failure
        raise InputError(f"the linear program could not be solved: {found.message}")


def _complain(
    problem: Problem,
    task: int,
    programme: _Programme,
    slack: np.ndarray,
    margin: float,
    relax: bool,
    warnings: list[str],
) -> None:
    """Say where no reward gives the margin; that is an error unless a relaxation was asked for."""
    environment = problem.environment
    worst = sorted(range(len(slack)), key=lambda p: -float(f"{slack[p]:.3g}"))  # alike as told: in their order
    where = [
        f"in state {quoted(environment.states[programme.pairs[p, 0]])} against action "
        f"{quoted(environment.actions[programme.pairs[p, 1]])} ({slack[p]:.3g} short)"
        for p in worst
        if slack[p] > NOTHING
    ]
    told = (
        f"no reward within ±1 makes the actions of {problem.named(task)} better than all others by {margin:g}: it "
        f"fails {listed(where)}."
    )
    if not programme.seen.all():  # another guess might do
        told += " In unvisited states, actions were predicted from the reward without a margin."
    if not relax:
        raise InputError(f"{told} Lower the margin, or use relax=True for the reward that falls short least.")
    warnings.append(f"{told} This is the reward that falls short least.")
