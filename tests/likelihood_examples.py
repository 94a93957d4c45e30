"""Problems for maximum likelihood: models at random with their choices, as the library and as the oracle read them."""

from typing import Any

import numpy as np
import pandas as pd

import manymotives as mm
from oracle_likelihood import Problem


def random_problem(seed: int, *, infers: tuple[str, ...] = (), choices: int = 400) -> tuple[Any, Any, Any, Problem]:
    """Environment, model, demonstrations, and the same as a `Problem` of the oracle."""
    rng = np.random.default_rng(seed)
    states, actions = int(rng.integers(3, 5)), int(rng.integers(2, 4))
    transitions = rng.dirichlet(np.full(states, 0.5), (states, actions))
    available = rng.random((states, actions)) < 0.85
    available[:, 0] = available[0] = True
    terminal = np.zeros(states, dtype=bool)
    if rng.random() < 0.5:
        terminal[-1], available[-1] = True, False
    transitions[~available] = 0.0
    on = ("state", "state_action")[seed % 2]
    size = (states, 2) if on == "state" else (states, actions, 2)
    features = rng.normal(size=size)
    discount, lapse = float(rng.choice([0.5, 0.9])), float(rng.choice([0.0, 0.1]))
    is_soft, depth = bool(seed % 3 > 0), None if seed % 4 else 3
    truth = Problem(
        transitions, available, terminal, np.zeros((states, actions)), features, discount, 1.5, lapse, is_soft, depth
    )
    q = truth.action_values(features @ rng.normal(size=2), 1.5, discount)
    q = np.where(available, q, -np.inf)
    weight = np.exp(1.5 * (q - np.where(terminal, 0.0, q.max(axis=1))[:, None]))
    living = np.flatnonzero(~terminal)
    policy = (1 - lapse) * weight[living] / weight[living].sum(axis=1, keepdims=True)
    policy += lapse * available[living] / available[living].sum(axis=1, keepdims=True)
    state = np.repeat(living, choices // len(living))
    action = np.concatenate([rng.choice(actions, choices // len(living), p=row) for row in policy])
    environment = mm.Environment(
        transitions, discount=discount, available=available, terminal=[states - 1] if terminal.any() else ()
    )
    frame = pd.DataFrame({"task": "ann", "episode": np.arange(len(state)), "state": state, "action": action})
    data = mm.Demonstrations.from_frame(frame, environment, task="task", episode="episode")
    prior = mm.Beta(alpha=1.0, beta=4.0)
    rule = mm.SoftOptimal if is_soft else mm.Softmax
    model = mm.RewardPolicyModel(
        mm.GaussianReward(features, on=on, names=["food", "water"]),
        rule(1.5, lapse=prior if "lapse" in infers else lapse),
        mm.Pooled(),
        discount=mm.Beta(alpha=2.0, beta=1.0) if "discount" in infers else None,
        depth=depth,
    )
    counts = data.counts.sum(axis=0).astype(float)
    problem = Problem(transitions, available, terminal, counts, features, discount, 1.5, lapse, is_soft, depth, infers)
    return environment, model, data, problem


def bandit(successes: dict[str, tuple[int, int]]) -> tuple[mm.Environment, mm.Demonstrations]:
    """Two arms, one state: how often each task took the first and the second."""
    environment = mm.Environment(np.ones((1, 2, 1)), discount=0.0, states=["room"], actions=["left", "right"])
    rows = [
        (task, arm)
        for task, made in successes.items()
        for arm, times in zip(("left", "right"), made)
        for _ in range(times)
    ]
    frame = pd.DataFrame(rows, columns=["task", "action"]).assign(state="room", step=np.arange(len(rows)))
    return environment, mm.Demonstrations.from_frame(frame, environment, task="task", step="step")


LEFT = mm.GaussianReward(np.array([[[1.0], [0.0]]]), on="state_action", names=["left"])
