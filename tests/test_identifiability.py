"""What no choice can show: against policies computed by plain loops, built cases, and what a fit makes of it."""

import itertools
import json
import re

import numpy as np
import pytest
import scipy.sparse as sp
import xarray as xr

import manymotives as mm
from cases import in_turn
from manymotives.posterior.canonical import in_unit_range
from oracles import best_by_value_iteration, soft_by_value_iteration
from oracles_worlds import random_problem
from places import HOUSE, TRIANGLE

MAZE = mm.worlds.Labyrinth(levels=2)
EVEN = np.array([1, 0, 0, 1, 1, 1, 1, 0], dtype=bool)  # levels 0 and 2; home lies one step before level 0


def made(problem, **more):
    """An environment from a problem of the oracles."""
    ends = np.flatnonzero(problem["terminal"]).tolist()
    return mm.Environment(
        problem["transitions"], discount=problem["discount"], available=problem["available"], terminal=ends, **more
    )


def randomly(seed, **kind):
    rng = np.random.default_rng(seed)
    return made(random_problem(rng, 5, 3, discount=0.7, **kind))


LOST = mm.Environment(  # 3 and 4 cannot be reached; from 3 one could choose between the two sides
    np.eye(5)[np.array([[1, 2], [0, 0], [0, 0], [0, 1], [4, 4]])], discount=0.8, start=[1, 0, 0, 0, 0]
)
CASES = {
    "labyrinth": mm.worlds.Labyrinth(levels=2, discount=0.6),
    "grid": mm.worlds.GridWorld((2, 3), discount=0.8),
    "slippery grid": mm.worlds.GridWorld((2, 3), slip=0.3, discount=0.8),
    "chain": mm.worlds.Chain(states=4, discount=0.8),
    "house": HOUSE,
    "triangle": TRIANGLE,
    "ring of forced moves": mm.Environment(np.eye(4)[[[1], [2], [3], [0]]], discount=0.8),
    "no foresight": mm.Environment(TRIANGLE.tensor, discount=0.0),
    "unreachable": LOST,
    "dense": randomly(0),
    "dense, ends": randomly(1, with_terminal=True),
    "sparse": randomly(2, dense=False),
    "sparse, missing": randomly(3, dense=False, with_missing_actions=True),
    "sparse, missing, ends": randomly(4, dense=False, with_missing_actions=True, with_terminal=True),
}


def plain_reach(environment):
    found = {int(s) for s in np.flatnonzero(environment.start)}
    while True:
        more = {
            int(t)
            for s, a in itertools.product(found, range(environment.num_actions))
            if environment.available[s, a]
            for t in np.flatnonzero(environment.tensor[s, a])
        }
        if more <= found:
            return sorted(found)
        found |= more


def plain_log_odds(environment, on, reward, soft):
    """What decides about choices: Q(s, a) − Q(s, first) in states that can be reached, by plain value iteration."""
    table = reward if on == "state_action" else np.repeat(reward[:, None], environment.num_actions, axis=1)
    problem = {
        "transitions": environment.tensor,
        "available": environment.available,
        "terminal": environment.is_terminal,
        "rewards": table,
        "terminal_value": reward if on == "state" else np.zeros(environment.num_states),
        "discount": environment.discount,
    }
    q = (
        soft_by_value_iteration(**problem, inverse_temperature=1.5)[1]
        if soft
        else best_by_value_iteration(**problem)[1]
    )
    odds = []
    for state in plain_reach(environment):
        some = np.flatnonzero(environment.available[state])
        odds += [q[state, a] - q[state, some[0]] for a in some[1:]]
    return np.array(odds)


def jacobian(environment, on, reward, soft):
    """[odds, cells] by central differences; cells that do not exist stay zero."""
    step, columns = 1e-4, []
    for cell in range(reward.size):
        nudge = np.zeros(reward.size)
        nudge[cell] = step
        nudge = nudge.reshape(reward.shape)
        ahead, behind = (plain_log_odds(environment, on, reward + sign * nudge, soft) for sign in (1, -1))
        columns.append((ahead - behind) / (2 * step))
    return np.array(columns).T.reshape(-1, reward.size)


@pytest.mark.parametrize(("name", "on", "soft"), in_turn(CASES, ["state", "state_action"], [False, True], every=2))
def test_directions_are_the_null_space_of_policies(name, on, soft):
    """At a random reward. Central differences err by about step² = 1e-8 of the values, Q* by rounding over the step."""
    environment = CASES[name]
    shape = environment.available.shape[: 1 if on == "state" else 2]
    reward = np.random.default_rng(7).normal(size=shape)
    slope = jacobian(environment, on, reward, soft)
    found = mm.identifiability(environment, on=on)
    singular = np.linalg.svd(slope, compute_uv=False) if slope.size else np.zeros(0)
    assert not ((singular > 1e-6) & (singular < 1e-4)).any()  # what is zero is clear
    cells = int(found.exists.sum())
    if slope.size:
        assert slope @ found.directions == pytest.approx(np.zeros((len(slope), found.directions.shape[1])), abs=1e-6)
        assert slope[:, ~found.exists] == pytest.approx(0, abs=1e-6)
    assert found.directions.shape[1] == cells - (singular > 1e-5).sum()
    assert found.directions.T @ found.directions == pytest.approx(np.eye(found.directions.shape[1]), abs=1e-12)
    # a difference can be shown where no direction of the null space of differences changes it
    _, _, right = np.linalg.svd(slope) if slope.size else (0, 0, np.eye(reward.size))
    null = right[(singular > 1e-5).sum() :].T
    for first, second in itertools.combinations(np.flatnonzero(found.exists), 2):
        assert found.can_show(first, second) == (np.abs(null[first] - null[second]).max() < 1e-5)


@pytest.mark.parametrize("on", ["state", "state_action"])
@pytest.mark.parametrize("name", CASES)
def test_no_choice_changes_however_far_one_goes(name, on):
    """Not only to first order: rewards ten times as large, along all directions at once; 1e-9 is their rounding."""
    environment, rng = CASES[name], np.random.default_rng(8)
    found = mm.identifiability(environment, on=on)
    reward = rng.normal(size=environment.available.shape[: 1 if on == "state" else 2])
    other = reward + (found.directions @ rng.normal(0, 10, size=found.directions.shape[1])).reshape(reward.shape)
    for rule in (mm.Softmax(2.0), mm.SoftOptimal(2.0)):
        before, after = (rule.policies(environment, r, on=on)[found.reachable] for r in (reward, other))
        assert before == pytest.approx(after, abs=1e-9, nan_ok=True)
    assert found.reduced(other) == pytest.approx(found.reduced(reward), abs=1e-9)
    assert found.reduced(found.reduced(reward)) == pytest.approx(found.reduced(reward), abs=1e-12)


# ---- where the answer is known -------------------------------------------------------------------------------


def span(columns):
    return columns @ np.linalg.pinv(columns)


def test_a_labyrinth_hides_even_against_odd_levels():
    found = mm.identifiability(MAZE)
    assert found.groups.tolist() == np.where(EVEN, 0, 1).tolist()
    assert span(found.directions) == pytest.approx(span(np.stack([EVEN, ~EVEN], axis=1).astype(float)), abs=1e-12)
    assert found.can_show(0, 3)
    assert not found.can_show(0, 1)
    assert found.forced.tolist() == [False, False, False, True, True, True, True, True]


@pytest.mark.parametrize("seed", range(5))
def test_dense_environments_hide_a_constant(seed):
    found = mm.identifiability(made(random_problem(np.random.default_rng(seed), 6, 2, discount=0.9)))
    assert found.directions == pytest.approx(np.full((6, 1), found.directions[0, 0]), abs=1e-12)
    assert found.is_plain


@pytest.mark.parametrize("seed", range(5))
def test_where_episodes_end_living_trades_against_ending(seed):
    """1 − γ in every state, 1 in terminal ones: ending is like staying for ever."""
    environment = made(random_problem(np.random.default_rng(seed), 7, 3, discount=0.8, with_terminal=True))
    found = mm.identifiability(environment)
    expected = np.where(environment.is_terminal, 1.0, 1 - 0.8)[:, None]
    assert found.directions.shape == (7, 1)
    assert span(found.directions) == pytest.approx(span(expected), abs=1e-9)
    assert found.groups.tolist() == (environment.is_terminal != environment.is_terminal[0]).astype(int).tolist()


@pytest.mark.parametrize("name", CASES)
def test_on_pairs_there_is_one_direction_for_each_state_that_acts(name):
    environment = CASES[name]
    found = mm.identifiability(environment, on="state_action")
    assert found.directions.shape[1] == (found.reachable & ~environment.is_terminal).sum()


def test_grids_and_chains_hide_a_constant_only():
    for name in ("grid", "slippery grid", "chain", "triangle"):
        assert mm.identifiability(CASES[name]).is_plain, name


def test_choices_seen_elsewhere_make_states_reachable():
    assert mm.identifiability(LOST).groups.tolist() == [0, 1, 1, -1, -1]
    seen = mm.identifiability(LOST, visited=[0, 0, 0, 3, 0])  # 3 leads to 0 or 1, and joins the two sides
    assert seen.groups[:3].tolist() == [0, 0, 0]
    assert seen.reachable.tolist() == [True, True, True, True, False]


def test_nothing_can_be_shown_where_nothing_is_chosen():
    found = mm.identifiability(CASES["ring of forced moves"])
    assert found.directions.shape == (4, 4)
    assert (found.reduced(np.arange(4.0)) == 0).all()
    assert not any(found.can_show(i, j) for i, j in itertools.combinations(range(4), 2))


def test_features_that_choices_cannot_tell_apart():
    rng = np.random.default_rng(0)
    side, plain = EVEN[:, None].astype(float), rng.normal(size=(8, 2))
    assert mm.identifiability(MAZE, features=plain).weights.shape == (2, 0)
    assert mm.identifiability(MAZE, features=plain).is_plain  # what is hidden, they cannot make
    found = mm.identifiability(MAZE, features=np.hstack([plain, 1e6 * side, np.ones((8, 1))]))
    assert span(found.weights) == pytest.approx(np.diag([0.0, 0, 1, 1]), abs=1e-9)
    assert found.groups.tolist() == np.where(EVEN, 0, 1).tolist()
    twice = mm.identifiability(MAZE, features=np.hstack([plain, plain[:, :1] - 2 * plain[:, 1:]]))
    assert span(twice.weights) == pytest.approx(span(np.array([[1.0], [-2], [-1]])), abs=1e-9)
    assert twice.is_plain
    assert twice.directions.shape == (8, 0)
    nothing = mm.identifiability(MAZE, features=np.hstack([plain, np.zeros((8, 1))]))
    assert span(nothing.weights) == pytest.approx(np.diag([0.0, 0, 1]), abs=1e-9)


def test_features_on_pairs():
    """A potential among the features is shaping; others are not."""
    rng = np.random.default_rng(1)
    potential = rng.normal(size=3)
    shaping = potential[:, None] - TRIANGLE.discount * TRIANGLE.tensor @ potential
    found = mm.identifiability(
        TRIANGLE, on="state_action", features=np.stack([shaping, rng.normal(size=(3, 2))], axis=2)
    )
    assert span(found.weights) == pytest.approx(np.diag([1.0, 0]), abs=1e-9)


def test_reduced_rewards_are_the_smallest_of_their_class():
    rng = np.random.default_rng(2)
    for name in ("labyrinth", "house", "sparse, missing, ends"):
        found = mm.identifiability(CASES[name])
        reward = rng.normal(size=(3, CASES[name].num_states))
        small = found.reduced(reward)
        others = small + rng.normal(size=(3, found.directions.shape[1])) @ found.directions.T
        assert (np.linalg.norm(small, axis=1) < np.linalg.norm(others, axis=1)).all()
        for i, j in itertools.combinations(range(CASES[name].num_states), 2):
            if found.can_show(i, j):  # what choices can show is left as it was
                assert small[:, i] - small[:, j] == pytest.approx(reward[:, i] - reward[:, j], abs=1e-12)


def test_large_environments_are_quick_or_left_out():
    big = mm.worlds.Labyrinth(levels=12)  # moves are certain: states merge, nothing dense is made
    found = mm.identifiability(big)
    assert found.directions.shape == (8192, 2)
    assert len(set(found.groups.tolist())) == 2
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(10_000), 3)
    moves = sp.csr_array((np.full(30_000, 1 / 3), (rows, rng.integers(5000, size=30_000))), shape=(10_000, 5000))
    vague = mm.Environment(moves, discount=0.9)
    found = mm.identifiability(vague)
    assert found.left_out == "there are 5,000 states"
    assert found.directions.shape == (5000, 1)
    assert found.is_plain
    with pytest.raises(mm.errors.InputError, match="are not listed"):
        _ = mm.identifiability(big, on="state_action").directions


# ---- what a fit makes of it -----------------------------------------------------------------------------------


def test_canonical_rewards_that_choose_alike_are_alike():
    rng = np.random.default_rng(3)
    known = mm.identifiability(MAZE)
    reward = rng.dirichlet(np.ones(8), size=5)
    other = 3 * reward + 0.4 * EVEN - 0.2
    canonical = [in_unit_range(known, xr.DataArray(r, dims=("task", "state")), None)[0] for r in (reward, other)]
    assert canonical[0].values == pytest.approx(canonical[1].values, abs=1e-12)


@pytest.fixture(scope="module")
def mice():
    truth = np.random.default_rng(0).dirichlet(np.full(8, 0.5), size=5)
    names = [f"mouse {number}" for number in range(1, 6)]
    data = mm.simulate(MAZE, truth, mm.Softmax(8.0), steps=400, seed=0, tasks=names)
    method = mm.Metropolis(chains=2, draws=150, warmup=200, thin=10)
    return mm.fit(mm.RewardPolicyModel(), MAZE, data, method, seed=0, progress=False)


def test_no_difference_is_settled_that_no_choice_can_show(mice):
    """Of 28 differences 15 are between even and odd levels. Adding to even levels and taking from odd ones changes no
    policy, and turns every such difference round."""
    learnt = mm.findings.learning(mice)
    reward = mice.rewards.values[0, :20, 1]
    shifted = reward + 5.0 * np.where(EVEN, 1, -1)
    rule = mm.Softmax(8.0)
    assert rule.policies(MAZE, reward) == pytest.approx(rule.policies(MAZE, shifted), abs=1e-9)
    for first, second in learnt.pairs[learnt.settled.any(axis=0)]:
        before, after = (r[:, first] - r[:, second] for r in (reward, shifted))
        assert before == pytest.approx(after, abs=1e-9)
    assert learnt.settled.sum() > 10  # within levels, there is something to find
    assert len(learnt.pairs) == 13
    assert len(learnt.prior_alone) == 15
    assert set(map(tuple, learnt.pairs)) | set(map(tuple, learnt.prior_alone)) == set(
        itertools.combinations(range(8), 2)
    )


def test_what_choices_can_identify_is_shown_in_sentences(mice):
    known = repr(mm.identifiability(MAZE))
    assert known.startswith("What choices can identify of rewards on 8 states:\n  Choices can identify differences")
    assert "array(" not in known
    assert repr(mice.unidentified()) == "\n".join(mice.unidentified())
    assert repr(mice.unidentified()[0]).startswith("'Choices can identify")  # still a list of strings
    chain = mm.worlds.Chain()
    assert "every difference between the rewards of two states; what they cannot identify is a constant" in repr(
        mm.identifiability(chain)
    )
    assert "up to potential shaping" in repr(mm.identifiability(chain, on="state_action"))
    assert "the weights of all features" in repr(mm.identifiability(chain, features=np.eye(5)[:, :2]))
    assert "the weight of “feature 0”" in repr(mm.identifiability(chain, features=np.ones((5, 1))))


def test_that_nothing_is_unidentified_is_said():
    choices = mm.simulate(mm.worlds.Chain(), np.eye(5)[:2], mm.Softmax(2.0), steps=5, seed=0)
    posterior = mm.fit(mm.RewardPolicyModel(), mm.worlds.Chain(), choices, mm.NestedMonteCarlo(draws=20))
    assert posterior.unidentified() == []
    assert repr(posterior.unidentified()).startswith("Choices in this environment can identify every difference")


def test_findings_are_shown_as_text(mice):
    learnt, alike = mm.findings.learning(mice), mm.findings.similarity(mice)
    check = mm.findings.predictive_check(mice)
    shown = [repr(each) for each in (learnt, alike, alike.clusters, check)]
    assert shown[0].startswith("What was learnt about 8 rewards of 5 tasks, from 300 draws:")
    assert "15 differences that rest on the prior alone" in shown[0]
    assert shown[1].startswith("Similarity of 5 tasks, from ")
    assert shown[2] == "No groups are supported among 5 tasks (too few for a test)."
    assert shown[3].startswith(f"Choices compared with {check.draws} replications: p = ")
    assert not any("array(" in each for each in shown)


def test_tables_and_summaries_say_what_rests_on_the_prior(mice):
    frame = mice.to_frame("state")
    side = dict(zip(map(str, MAZE.states), EVEN))
    assert frame["identified"].tolist() == [side[a] == side[b] for a, b in zip(frame["state"], frame["other_state"])]
    assert "identified" not in mice.to_frame("task")
    said = repr(mice.summary())
    assert "within each of these groups: “0”, “3”, “4”, “5” and “6”; “1”, “2” and “home”" in said
    assert "Adding the same amount to every reward of one of them changes no choice in this environment" in said
    assert "rests on the prior alone" in said
    assert "“0”, “3”, “4”, “5” and “6”" in mice.summary()._repr_html_()


def test_a_report_says_what_rests_on_the_prior(mice, tmp_path):
    page = mm.report(mice, tmp_path / "mice.html").read_text(encoding="utf-8")
    assert "15 more differences rest on the prior alone" in page
    assert "changes no choice in this environment" in page
    assert "relative to its group" in page


def test_actions_without_an_alternative_are_not_ranked(tmp_path):
    """In the hall of the house there is one action: it costs nothing against the best, and that is no finding."""
    reward = np.where(HOUSE.available, np.random.default_rng(0).normal(size=(2, 3, 2)), 0.0)
    data = mm.simulate(HOUSE, reward, mm.Softmax(4.0), steps=30, seed=1, on="state_action")
    model = mm.RewardPolicyModel(mm.GaussianReward(on="state_action"))
    quick = mm.Metropolis(chains=2, draws=60, warmup=60, thin=1)
    posterior = mm.fit(model, HOUSE, data, quick, seed=0, progress=False)
    page = mm.report(posterior, tmp_path / "house.html").read_text(encoding="utf-8")
    told = json.loads(re.search(r'id="data-rewards"[^>]*>(.*?)</script>', page, re.DOTALL).group(1))
    assert [told["cells"][c] for c in told["aside"]] == ["on in hall"]
    frame = posterior.to_frame("state", canonical=True)
    assert frame["identified"].all()
    raw = posterior.to_frame("state").set_index(["state_action", "other_state_action"])["identified"]
    assert not raw.any()  # each action leads elsewhere, so that every difference can be paid back
