"""Is it motives, or is it only switching? Free policies, between which a hidden state moves: a hidden Markov model.

    z_1 ~ π_0,    z_t ~ T(z_{t−1}, ·),    a_t ~ P_{z_t}(s_t, ·)

with K hidden states, drawn anew at the beginning of each episode and after each gap. All tasks share π_0, T and P;
nothing is wanted or planned. A model that switches between motives has found some if it predicts better than this.

**Priors**, Dirichlet, written as what was seen before: c choices of each policy in each state, distributed as `counts`
are; `STAY` moves of each hidden state to itself and `SPREAD` to anywhere; `SPREAD` beginnings. Everything but c
maximises likelihood × prior (EM; of several starts the one that is ahead goes on). c is chosen within the training set:
some of its tasks, or episodes, are predicted from the others, by c larger and larger, or else smaller and smaller, as
long as that helps. EM goes on from one model by equally many steps for each c, as what has had more of them predicts
better; and for the whole training set from the best of these models.

**Prediction** is causal, p(a_t | a_1 … a_{t−1}): z_t is filtered by what came before in the same episode. Smoothing, by
what came after, serves to learn from the training set alone.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.steps import NONE
from manymotives.models.hidden_markov import Segments, expected_counts, log_predictions, smoothed_motives
from manymotives.scoring.counts import around, evident_worth

STAY, SPREAD = 9.0, 1.0
CONCENTRATIONS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # tried for c
USUAL = 10.0  # the c tried first, and the one where nothing can be tried
STARTS, TRIED = 5, 10  # so many, each for so many steps of EM
SETTLED, TUNED = 30, 10  # steps of EM before c are compared, and for each c that is
HELPS = 1e-4  # nats a choice: if another c predicts better by less, it does not help
LIMIT = 500  # steps of EM
ENOUGH = 2e-6  # nats a choice: a smaller gain is none
HELD = 5  # one in so many tasks, or episodes, is predicted to choose c
BLOCK = 10  # rows that have the same policy in the guess that a start is


@dataclass(frozen=True, eq=False)
class HiddenMarkov:
    """Policies, and how what is hidden moves between them."""

    policies: Float[np.ndarray, "K S A"]
    transitions: Float[np.ndarray, "K K"]
    initial: Float[np.ndarray, " K"]
    concentration: float  # c
    objective: float = -np.inf  # log likelihood of what it was fitted to, and log prior up to a constant
    converged: bool = False

    def log_probability(self, demonstrations: Demonstrations) -> Float[np.ndarray, " rows"]:
        """log p of what was chosen in each row, given what was chosen before in its episode; no number elsewhere."""
        segments = _segments(demonstrations, np.ones(len(demonstrations.state), dtype=bool))
        found = log_predictions(segments, self.rows, self.log_policies)
        return np.where(demonstrations.action == NONE, np.nan, found)

    @property
    def log_policies(self) -> Float[np.ndarray, "K S A"]:
        with np.errstate(divide="ignore"):
            return np.log(self.policies)

    @property
    def rows(self) -> Float[np.ndarray, "1 R K"]:
        """By which hidden states follow each other; last, by which they begin."""
        return np.vstack([self.transitions, self.initial])[None]


def fitted_hidden_markov(
    environment: Environment,
    demonstrations: Demonstrations,
    trains: Bool[np.ndarray, " rows"],
    num_policies: int,
    seed: int = 0,
    hold_out: str = "episodes",
) -> HiddenMarkov:
    """The model of so many policies that these rows ask for, if "tasks" or "episodes" like theirs are predicted."""
    learns, checks = _parts(demonstrations, trains, hold_out)
    everything = Training.of(environment, demonstrations, trains)
    if num_policies == 1 or not checks.any():
        return everything.improved(everything.begun(num_policies, seed, USUAL), LIMIT)
    part = Training.of(environment, demonstrations, learns)
    settled = part.improved(part.begun(num_policies, seed, USUAL), SETTLED)
    return everything.improved(_tuned(settled, part, demonstrations, checks), LIMIT)


def _tuned(settled: HiddenMarkov, part: "Training", demonstrations: Demonstrations, checks: np.ndarray) -> HiddenMarkov:
    """This model with the c by which these rows are predicted best, improved a little."""

    def tried(concentration: float) -> tuple[float, HiddenMarkov]:
        model = part.improved(replace(settled, concentration=concentration), TUNED)
        return float(model.log_probability(demonstrations)[checks].mean()), model

    usual = best = tried(USUAL)
    larger = [each for each in CONCENTRATIONS if each > USUAL]
    smaller = [each for each in reversed(CONCENTRATIONS) if each < USUAL]
    for direction in (larger, smaller):
        for concentration in direction:
            found = tried(concentration)
            if found[0] <= best[0] + HELPS:
                break
            best = found
        if best is not usual:
            break
    return best[1]


def _segments(demonstrations: Demonstrations, trains: Bool[np.ndarray, " rows"]) -> Segments:
    """Visited states in order, each of a segment up to the last one that something is learnt from."""
    begins = ~demonstrations.follows | (np.diff(demonstrations.episode, prepend=NONE) != 0)
    segment = np.cumsum(begins) - 1
    row = np.arange(len(begins))
    last = np.full(int(begins.sum()), NONE)
    np.maximum.at(last, segment[trains], row[trains])
    used = row <= last[segment]  # after it nothing is known of the segment, and nothing is to be learnt
    action = np.where(trains, demonstrations.action, NONE)[used].astype(np.int64)
    nobody = np.zeros(len(action), dtype=np.int64)  # tasks, episodes and places are all alike here
    state = demonstrations.state[used].astype(np.int64)
    return Segments(state, action, unit=nobody, task=nobody, episode=nobody, begins=begins[used], context=nobody)


@dataclass(frozen=True, eq=False)
class Training:
    """What is learnt from: rows, and the policy of everybody."""

    rows: Segments
    pooled: Float[np.ndarray, "S A"]

    @classmethod
    def of(cls, environment: Environment, demonstrations: Demonstrations, trains: np.ndarray) -> "Training":
        rows = _segments(demonstrations, trains & (demonstrations.action != NONE))
        counts = _counted(rows.state, rows.action, environment.available.shape)
        uniform = environment.available / np.maximum(environment.available.sum(axis=1, keepdims=True), 1)
        return cls(rows, around(counts, uniform, evident_worth(counts, uniform)))

    def begun(self, num_policies: int, seed: int, concentration: float) -> HiddenMarkov:
        """The best of several guesses, each improved a little. In a guess each block of rows has a policy at random."""
        rng = np.random.default_rng([seed, num_policies])
        found = []
        for _ in range(STARTS if num_policies > 1 else 1):
            policy = rng.integers(num_policies, size=len(self.rows.state) // BLOCK + 1).repeat(BLOCK)
            counts = [
                _counted(self.rows.state[mine], self.rows.action[mine], self.pooled.shape)
                for mine in (policy[: len(self.rows.state)] == k for k in range(num_policies))
            ]
            nothing = np.zeros((num_policies, num_policies)), np.zeros(num_policies)
            guess = self._likeliest(np.array(counts), *nothing, concentration)
            found.append(self.improved(guess, TRIED))
        return max(found, key=lambda each: each.objective)

    def improved(self, model: HiddenMarkov, limit: int) -> HiddenMarkov:
        """By steps of EM, until they gain nothing or there were so many."""
        choices = int((self.rows.action != NONE).sum())
        before = -np.inf
        for step in range(limit + 1):
            smoothed, moves, likelihood = smoothed_motives(self.rows, model.rows, model.log_policies, 1)
            objective = float(likelihood[0]) + self._log_prior(model)
            model = replace(model, objective=objective, converged=objective - before <= ENOUGH * choices)
            if model.converged or step == limit:
                break
            before = objective
            chosen = expected_counts(self.rows, smoothed, 1, *self.pooled.shape)
            model = self._likeliest(chosen, moves[0, :-1], moves[0, -1], model.concentration)
        return model

    def _likeliest(
        self, chosen: np.ndarray, moved: np.ndarray, begun: np.ndarray, concentration: float
    ) -> HiddenMarkov:
        """Given how often what happened, expected or guessed."""
        size = len(begun)
        policies = chosen + concentration * self.pooled[None]
        transitions = moved + _moves_before(size)
        initial = begun + SPREAD / size
        return HiddenMarkov(
            policies / (chosen.sum(axis=2, keepdims=True) + concentration),
            transitions / transitions.sum(axis=1, keepdims=True),
            initial / initial.sum(),
            concentration,
        )

    def _log_prior(self, model: HiddenMarkov) -> float:
        seen = np.broadcast_to(self.pooled > 0, model.policies.shape)
        in_policies = (self.pooled[None] * np.log(model.policies, where=seen, out=np.zeros(seen.shape))).sum()
        in_moves = (_moves_before(len(model.initial)) * np.log(model.transitions)).sum()
        in_beginnings = SPREAD / len(model.initial) * np.log(model.initial).sum()
        return float(model.concentration * in_policies + in_moves + in_beginnings)


def _moves_before(size: int) -> Float[np.ndarray, "K K"]:
    """Moves that the prior of T is worth."""
    return STAY * np.eye(size) + SPREAD / size


def _counted(state: np.ndarray, action: np.ndarray, shape: tuple[int, ...]) -> Float[np.ndarray, "S A"]:
    """How often what was chosen where."""
    made = action != NONE
    flat = np.ravel_multi_index((state[made], action[made]), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def _parts(demonstrations: Demonstrations, trains: np.ndarray, hold_out: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows in two: to learn from, and to choose c by. By task or episode; a single one is split in time."""
    made = np.flatnonzero(trains & (demonstrations.action != NONE))
    checks = np.zeros(len(trains), dtype=bool)
    for unit in [demonstrations.task, demonstrations.episode][hold_out == "episodes" :]:
        names = np.unique(unit[made])
        if len(names) > 1:
            checks[made] = np.isin(unit[made], names[::HELD])
            break
    else:
        checks[made[len(made) - len(made) // HELD :]] = True
    return trains & ~checks, checks
