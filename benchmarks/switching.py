"""Two motives on a 5 × 5 grid, as published, and how much of the truth is found: `make switching` (some minutes).

Five actions (four moves and staying), deterministic up to the border; discount .95, soft-optimal at inverse temperature
1. Motive 0 pays 1 on arriving at or leaving state 23, motive 1 pays 1 on arriving at state 0. The motive changes with
probability .36 after a choice in state 23 (0 → 1) and .15 in state 0 (1 → 0), elsewhere with .005 (published: at most
.04). Of 200 sequences of 500 steps every fifth is held out; every fourth of the others, 40 in all, is learnt from.

Beside each score is that of the true model, which nothing can exceed but by chance. Correlations and intervals are of
what choices can show of rewards: what changes no choice (shaping) is taken out of both, truth and draws.
"""

import sys
import time
from typing import Any

import numpy as np

import manymotives as mm
from manymotives.models.assignment import Assignment
from manymotives.models.hidden_markov import log_predictions, smoothed_motives

SIDE, DISCOUNT, CHANGE = 5, 0.95, 0.005
SEEDS = (0, 1, 2)
METHOD = mm.HMC(draws=250, warmup=250, max_rounds=2)
RULE = mm.SoftOptimal(inverse_temperature=1.0)


def grid() -> tuple[mm.Environment, np.ndarray, np.ndarray]:
    """The environment, the rewards of both motives [2, S, A], and the probabilities of motives [S, 2, 2]."""
    size = SIDE * SIDE
    row, column = np.divmod(np.arange(size), SIDE)
    next_state = np.empty((size, 5), dtype=int)
    for action, (down, right) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)]):
        to_row, to_column = row + down, column + right
        inside = (to_row >= 0) & (to_row < SIDE) & (to_column >= 0) & (to_column < SIDE)
        next_state[:, action] = np.where(inside, to_row * SIDE + to_column, np.arange(size))
    transitions = np.zeros((size, 5, size))
    transitions[np.arange(size)[:, None], np.arange(5), next_state] = 1.0
    arrives, leaves = next_state == 23, np.arange(size)[:, None] == 23
    rewards = DISCOUNT * np.stack([arrives != leaves, next_state == 0])  # paid a step later
    change = np.full((size, 2), CHANGE)
    change[23, 0], change[0, 1] = 0.36, 0.15
    rows = np.empty((size, 2, 2))
    for motive in range(2):
        rows[:, motive, 1 - motive], rows[:, motive, motive] = change[:, motive], 1 - change[:, motive]
    return mm.Environment(transitions, discount=DISCOUNT), rewards, rows


def measure(seed: int, motives: int | mm.StickBreaking) -> dict[str, float]:
    """One data set: learn from 40 sequences, predict 40 others."""
    environment, rewards, rows = grid()
    agent = mm.worlds.SwitchingAgent(RULE, rows)
    every, hidden = mm.simulate(environment, rewards, agent, steps=500, episodes=200, seed=seed, on="state_action")
    held = every.episode % 5 == 0
    learnt = ~held & (every.episode % 5 == 1 + every.episode // 5 % 4)
    training, test, truth = _only(every, learnt), _only(every, held), hidden[held]
    reward = mm.GaussianReward(mean=0.0, scale=mm.HalfNormal(0.1), on="state_action")
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(), mm.Pooled(), mm.Switching(motives, by="state"))
    begin = time.monotonic()
    posterior: Any = mm.fit(model, environment, training, METHOD, seed=seed, progress=False)
    seconds = time.monotonic() - begin

    segments = Assignment.of(mm.Switching(2, by="state"), mm.Pooled(), test).segments
    known = np.concatenate([rows, np.full((len(rows), 1, 2), 0.5)], axis=1)
    log_policies = np.log(RULE.policies(environment, rewards, on="state_action"))
    best = smoothed_motives(segments, known, log_policies, test.num_episodes)[0].argmax(axis=1)
    found = posterior.motives(test, "smoothed").values[:, :2].argmax(axis=1)
    order = [0, 1] if (found == truth).mean() >= 0.5 else [1, 0]
    figures = {
        "seconds": seconds,
        "nats a step": float(posterior.log_predictions(test).mean()),
        "of the truth": float(log_predictions(segments, known, log_policies).mean()),
        "assigned right": max((found == truth).mean(), (found != truth).mean()),
        "by the truth": (best == truth).mean(),
        "P(2 motives)": float(posterior.number_of_motives.get(2, 0.0)),
    }
    identified = _without_shaping(environment)
    drawn = posterior.rewards.values.reshape(-1, posterior.num_motives, rewards[0].size)[:, order] @ identified
    true = rewards.reshape(2, -1) @ identified
    lower, upper = np.quantile(drawn, [0.05, 0.95], axis=0)
    figures["correlation"] = min(np.corrcoef(drawn[:, k].mean(axis=0), true[k])[0, 1] for k in range(2))
    figures["90 % intervals cover"] = ((lower <= true) & (true <= upper)).mean()
    return figures


def _only(demonstrations: mm.Demonstrations, rows: np.ndarray) -> mm.Demonstrations:
    """These episodes alone."""
    frame = demonstrations.to_frame().loc[rows]
    place, _, _ = grid()
    return mm.Demonstrations.from_frame(frame, place, task="task", episode="episode", step="step")


def _without_shaping(environment: mm.Environment) -> np.ndarray:
    """[S·A, S·A] the projection of rewards on pairs to what choices can show: φ(s) − γ φ(s′) changes none."""
    size, actions = environment.num_states, environment.num_actions
    shaping = np.repeat(np.eye(size), actions, axis=0) - environment.discount * environment.tensor.reshape(-1, size)
    basis, _ = np.linalg.qr(shaping)
    return np.eye(size * actions) - basis @ basis.T


def main() -> None:
    counted = "counted" in sys.argv[1:]
    chosen = [int(word) for word in sys.argv[1:] if word.isdecimal()] or SEEDS
    for seed in chosen:
        figures = measure(seed, mm.StickBreaking(most=6) if counted else 2)
        print(f"data set {seed}:", ", ".join(f"{name} {value:.4f}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
