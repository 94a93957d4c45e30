"""Several environments as one: their union, one reward for each state name; against plain loops and quadrature."""

import itertools

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from arviz_stats import mcse

import manymotives as mm
from cases import in_turn
from environments_examples import BOTH, LEFT, RIGHT, demonstrations_of, environment_from
from environments_oracle import log_likelihood, random_counts, random_world
from manymotives.data.environments import Environments
from manymotives.inference.many_chains.choices import _rewards
from manymotives.inference.many_chains.layout import data_of, static_layout_of
from places import HOUSE, TRIANGLE

PRIORS = {"Dirichlet": mm.DirichletReward, "Beta": mm.BetaReward, "Gaussian": mm.GaussianReward}
RULES = {"Softmax": mm.Softmax, "SoftOptimal": mm.SoftOptimal}
SHORT = mm.HMC(chains=1, draws=20, warmup=20, max_rounds=1)


def two_worlds(seed):
    """Two random environments with some states, some actions and an end in common."""
    rng = np.random.default_rng(seed)
    first = random_world(rng, ["w", "x", "y", "end"], ["l", "r"], terminal=["end"])
    second = random_world(rng, ["y", "v", "x"], ["r", "u", "l"])
    return rng, {"first": first, "second": second}


# ---- the union ------------------------------------------------------------------------------------------------


def test_states_are_pairs_and_transitions_block_diagonal():
    both = mm.Environments(BOTH)
    assert both.states == ("left: food", "left: water", "right: food", "right: water")
    assert both.actions == ("a", "b", "c")
    assert both.state_names == ("food", "water")
    assert both.available.tolist() == [[True, True, False]] * 2 + [[False, True, True]] * 2
    assert np.array_equal(both.tensor[:2, :2, :2], LEFT.tensor)
    assert np.array_equal(both.tensor[2:, 1:, 2:], RIGHT.tensor)
    assert both.tensor.sum() == pytest.approx(8)
    assert np.allclose(both.start, 0.25)
    assert both["left"] is LEFT


@pytest.mark.parametrize("sparse", [False, True])
def test_a_union_has_what_its_parts_have(sparse):
    rows = sp.csr_array(TRIANGLE.matrix) if sparse else TRIANGLE.tensor
    placed = mm.Environment(rows, discount=0.9, reward=[1.0, 2.0, 3.0], start={0: 1.0})
    placed = placed.with_coordinates([[0, 0], [1, 0], [0, 1]]).with_warnings(["look"])
    both = mm.Environments({"A": placed, "B": placed})
    assert sp.issparse(both.transitions) == sparse
    assert np.array_equal(both.reward, [1, 2, 3, 1, 2, 3])
    assert np.array_equal(both.start, [0.5, 0, 0, 0.5, 0, 0])
    assert both.coordinates[:3, 0].max() < both.coordinates[3:, 0].min()
    assert both.warnings == ("A: look", "B: look")
    assert mm.Environments({"A": placed, "B": HOUSE}).reward is None


def test_rewards_of_names_become_rewards_of_states():
    both = mm.Environments({"first": HOUSE, "second": HOUSE})
    assert np.array_equal(both.lifted([1.0, 2.0, 3.0]), [1, 2, 3, 1, 2, 3])


def test_a_union_survives_a_file_part_by_part():
    _, worlds = two_worlds(3)
    both = mm.Environments({name: environment_from(world) for name, world in worlds.items()})
    again = Environments.of_parts(both, both.parts)
    assert again.states == both.states
    assert again.state_names == both.state_names
    assert again.names == both.names
    assert abs(again.matrix - both.matrix).max() < 1e-15
    assert np.array_equal(again.available, both.available)
    assert np.allclose(again.start, both.start)


def test_parts_that_are_not_those_of_a_union_are_refused():
    both = mm.Environments(BOTH)
    for spoilt in (both.parts[:1], [both.parts[0], both.parts[1] | {"name": "up"}]):
        with pytest.raises(mm.errors.InputError):
            Environments.of_parts(both, spoilt)


# ---- one likelihood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "prior", "rule", "on"),
    list(zip(range(12), *zip(*itertools.product(PRIORS, RULES, ["state", "state_action"])))),
)
def test_the_likelihood_is_the_product_over_environments(seed, prior, rule, on):
    """By value iteration in plain loops in each environment alone, with one reward for each name."""
    rng, worlds = two_worlds(seed)
    environments = {name: environment_from(world) for name, world in worlds.items()}
    counts, temperature, lapse = random_counts(rng, worlds), float(rng.uniform(0.5, 3)), float(rng.uniform(0, 0.3))
    model = mm.RewardPolicyModel(PRIORS[prior](on=on), RULES[rule](temperature, lapse=lapse), mm.Pooled())
    target = model.bind(mm.Environments(environments), demonstrations_of(counts, environments))
    u = rng.normal(size=target.num_coordinates)
    natural = {
        "Dirichlet": lambda x: np.exp(x) / np.exp(x).sum(),
        "Beta": lambda x: 1 / (1 + np.exp(-x)),
        "Gaussian": lambda x: x,
    }[prior](u)
    states = ["w", "x", "y", "end", "v"]
    if on == "state":
        reward = dict(zip(states, natural, strict=True))
        expected = log_likelihood(
            worlds, lambda s, a: reward[s], counts, temperature, soft=rule == "SoftOptimal", lapse=lapse
        )
    else:
        pairs = dict.fromkeys(
            (s, a)
            for world in worlds.values()
            for s in world["states"]
            for a in ["l", "r", "u"]
            if a in world["moves"][s]
        )
        table = dict(zip(pairs, natural, strict=True))
        expected = log_likelihood(
            worlds,
            lambda s, a: 0.0 if a is None else table[s, a],
            counts,
            temperature,
            soft=rule == "SoftOptimal",
            lapse=lapse,
        )
    assert target.log_likelihood(u[None], np.array([0]))[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
def test_derivatives_of_shared_rewards(prior):
    _, worlds = two_worlds(1)
    environments = mm.Environments({name: environment_from(world) for name, world in worlds.items()})
    target = mm.RewardPolicyModel(PRIORS[prior](), mm.Softmax(1.0)).target(
        environments, ("one",), np.zeros((1, *environments.available.shape))
    )
    rng, step = np.random.default_rng(0), 1e-6
    u = rng.normal(size=(1, target.num_coordinates))
    found = target.reward_derivatives(u, target.rewards(u))[0]
    for k in range(target.layout.num_rewards):
        change = step * (np.arange(target.num_coordinates) == k)
        by_difference = (target.rewards(u + change) - target.rewards(u - change))[0] / (2 * step)
        assert np.allclose(found[:, k], by_difference, atol=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_one_environment_by_name_is_that_environment(prior):
    demonstrations = mm.simulate(HOUSE, [[0.1, 0.2, 0.7]] * 2, mm.Softmax(3.0), steps=6, episodes=5, seed=1)
    named = mm.Demonstrations.from_frame(
        demonstrations.to_frame().assign(environment="A"), {"A": HOUSE}, episode="episode", step="step"
    )
    model = mm.RewardPolicyModel(PRIORS[prior]())
    one = mm.fit(model, HOUSE, demonstrations, SHORT, progress=False)
    other = mm.fit(model, {"A": HOUSE}, named, SHORT, progress=False)
    for name in one.data["posterior"].data_vars:
        assert np.array_equal(
            one.data["posterior"][name].values, other.data["posterior"][name].values, equal_nan=True
        ), name


# ---- one posterior --------------------------------------------------------------------------------------------


def quadrature(counts, temperature):
    """Mean, sd and correlation of rewards Normal(0, 1) of two names, by a grid; optimal values of 4 policies each."""
    axis = np.linspace(-6, 6, 481)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"))  # [name, n, n]
    log_density = -0.5 * (grid**2).sum(axis=0)
    for name, environment in BOTH.items():
        transitions, best = np.asarray(environment.transitions), None
        for policy in itertools.product(range(2), repeat=2):
            chain = np.array([transitions[s, policy[s]] for s in range(2)])
            value = np.tensordot(np.linalg.inv(np.eye(2) - 0.8 * chain), grid, axes=1)
            best = value if best is None else np.maximum(best, value)
        q = grid[:, None] + 0.8 * np.tensordot(transitions, best, axes=1)
        log_policy = temperature * q - np.logaddexp(*(temperature * q).transpose(1, 0, 2, 3))[:, None]
        for (state, action), count in counts[name].items():
            log_density += count * log_policy[environment.states.index(state), environment.actions.index(action)]
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = (grid * weight).sum(axis=(1, 2))
    return mean, ((grid - mean[:, None, None]) ** 2 * weight).sum(axis=(1, 2))


@pytest.mark.parametrize(
    "method",
    [mm.HMC(chains=4, draws=1000, warmup=200, max_rounds=1), mm.Gibbs(chains=4, draws=1000, warmup=200, thin=5)],
    ids=["HMC", "Gibbs"],
)
def test_two_environments_against_quadrature(method):
    counts = {
        "left": {("food", "a"): 9, ("food", "b"): 2, ("water", "a"): 1},
        "right": {("water", "b"): 7, ("water", "c"): 4, ("food", "c"): 2},
    }
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0), mm.Softmax(2.0), mm.Pooled())
    posterior = mm.fit(model, BOTH, demonstrations_of(counts, BOTH), method, seed=2, progress=False)
    drawn = posterior.data["posterior"].dataset["reward"]
    assert np.array_equal(drawn.isel(state=[0, 1]).values, drawn.isel(state=[2, 3]).values)
    mean, variance = quadrature(counts, 2.0)
    for k in range(2):
        own = drawn.isel(state=k)
        assert abs(float(own.mean()) - mean[k]) < 4 * float(mcse(own.values, method="mean"))
        square = (own - mean[k]) ** 2
        assert abs(float(square.mean()) - variance[k]) < 4 * float(mcse(square.values, method="mean"))


@pytest.mark.parametrize("prior", in_turn(PRIORS, every=3))
def test_files_hold_several_environments(prior, tmp_path):
    demonstrations = mm.simulate(BOTH, [[1.0, 0.0, 1.0, 0.0]] * 2, mm.Softmax(2.0), steps=5, episodes=4)
    posterior = mm.fit(mm.RewardPolicyModel(PRIORS[prior]()), BOTH, demonstrations, SHORT, progress=False)
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert isinstance(again.environment, mm.Environments)
    assert again.environment.state_names == ("food", "water")
    assert again.environment["left"].actions == ("a", "b")
    assert np.array_equal(again.rewards, posterior.rewards)
    more = mm.fit(again.model, BOTH, demonstrations, SHORT, progress=False, start=again)
    assert more.rewards.sizes["draw"] == 2 * SHORT.draws
    assert again.population()["reward"].sizes["state"] == 4
    assert np.isfinite(again.hyperparameters()).all()


def test_features_by_environment_by_name_or_in_order():
    _, worlds = two_worlds(5)
    environments = {name: environment_from(world) for name, world in worlds.items()}
    both = mm.Environments(environments)
    rng = np.random.default_rng(0)
    by_name = pd.DataFrame(rng.normal(size=(5, 2)), index=[*list("wxyv"), "end"], columns=["sun", "rain"])
    by_part = {name: by_name.loc[list(each.states)] for name, each in environments.items()}
    ordered = by_name.loc[[both.state_names[k] for k in both.state_name]].to_numpy()
    pairs = pd.MultiIndex.from_tuples(
        [(both.names[m], both.state_names[k]) for m, k in zip(both.member, both.state_name)]
    )
    by_pair = pd.DataFrame(ordered, index=pairs, columns=["sun", "rain"]).iloc[::-1]
    for given in (by_name, by_part, ordered, by_pair):
        reward = mm.GaussianReward(features=given)
        assert np.array_equal(reward.features_for(both).toarray(), ordered)
    assert mm.GaussianReward(features=by_part).feature_names(2) == ("sun", "rain")


def test_features_on_pairs_by_environment():
    both = mm.Environments(BOTH)
    given = {"left": np.arange(8.0).reshape(2, 2, 2), "right": 10 + np.arange(8.0).reshape(2, 2, 2)}
    found = mm.GaussianReward(features=given, on="state_action").features_for(both).toarray().reshape(4, 3, 2)
    assert np.array_equal(found[:2, :2], given["left"])
    assert np.array_equal(found[2:, 1:], given["right"])
    assert not found[:2, 2].any()
    assert not found[2:, 0].any()


def test_weights_of_features_are_learnt_in_several_environments(tmp_path):
    features = {"left": [[1.0, 0.0], [0.0, 1.0]], "right": [[0.5, 0.5], [0.0, 2.0]]}
    demonstrations = mm.simulate(BOTH, [[1.0, 0.0, 0.5, 0.0]] * 2, mm.Softmax(2.0), steps=5, episodes=4)
    for residual in (False, True):
        reward = mm.GaussianReward(features=features, names=["sun", "rain"], residual=residual)
        posterior = mm.fit(mm.RewardPolicyModel(reward), BOTH, demonstrations, SHORT, progress=False)
        assert posterior.weights.sizes["feature"] == 2
        posterior.save(tmp_path / "run.nc")
        again = mm.load(tmp_path / "run.nc")
        assert np.array_equal(again.weights, posterior.weights)
        assert again.model.reward.features["right"] == features["right"]
        if residual:  # of one name it is one
            made = again.rewards - xr_dot(again.weights, features)
            assert np.allclose(made.isel(state=[0, 1]), made.isel(state=[2, 3]).values)


def xr_dot(weights, features):
    stacked = np.concatenate([np.asarray(each) for each in features.values()])
    return np.einsum("cdtf,sf->cdts", weights.values, stacked)


# ---- tables of choices ----------------------------------------------------------------------------------------


def test_a_column_says_where_a_row_is():
    frame = pd.DataFrame(
        {
            "task": ["m"] * 5,
            "maze": ["left", "left", "right", "right", "left"],
            "state": ["food", "water", "water", "food", "food"],
            "action": ["a", "b", "c", "b", "a"],
        }
    )
    found = mm.Demonstrations.from_frame(frame, BOTH, environment="maze")
    assert found.episodes == ("left", "right")
    assert [found.states[s] for s in found.state] == [
        "left: food",
        "left: water",
        "left: food",
        "right: water",
        "right: food",
    ]
    assert found.next_state.tolist() == [1, 0, -1, 2, -1]
    again = mm.Demonstrations.from_frame(found.to_frame(), BOTH, episode="episode", step="step")
    assert np.array_equal(again.counts, found.counts)
    assert again.episodes == found.episodes
    usual = mm.Demonstrations.from_frame(frame.rename(columns={"maze": "environment"}), mm.Environments(BOTH))
    assert np.array_equal(usual.counts, found.counts)


def test_episodes_that_span_environments_are_several():
    frame = pd.DataFrame(
        {
            "task": ["m"] * 4 + ["n"],
            "environment": ["left", "right", "left", "right", "left"],
            "session": [1, 1, 2, 2, 1],
            "state": ["food"] * 5,
            "action": ["b"] * 5,
        }
    )
    found = mm.Demonstrations.from_frame(frame, BOTH, episode="session")
    assert found.episodes == ("left: 1", "right: 1", "left: 2", "right: 2", "left: 1")


def test_trajectories_name_their_environment():
    found = mm.Demonstrations.from_lists(
        [(["food", "water"], ["a"]), (["water"], ["c"])], BOTH, tasks=["m", "m"], environments=["left", "right"]
    )
    assert found.counts[0].nonzero()[0].tolist() == [0, 3]


def test_the_environment_by_its_old_word():
    frame = pd.DataFrame({"task": ["m"], "state": ["food"], "action": ["a"]})
    assert mm.Demonstrations.from_frame(frame, environment=LEFT).states == LEFT.states


def test_files_with_a_column_of_environments(tmp_path):
    path = tmp_path / "choices.csv"
    path.write_text("task,environment,state,action\nm,left,food,a\nm,right,water,c\n")
    found = mm.io.read_demonstrations(path, BOTH)
    assert found.counts.sum() == 2
    assert found.states == mm.Environments(BOTH).states


def test_an_environment_in_which_nobody_was_is_warned_of():
    frame = pd.DataFrame({"task": ["m"] * 3, "environment": ["left"] * 3, "state": ["food"] * 3, "action": list("aab")})
    posterior = mm.fit(mm.RewardPolicyModel(), BOTH, mm.Demonstrations.from_frame(frame, BOTH), SHORT, progress=False)
    assert any("there are no choices in environment 'right'" in warning for warning in posterior.warnings)


# ---- everything else works ------------------------------------------------------------------------------------


def test_the_other_verbs_take_several_environments():
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0))
    recovered = mm.recover(model, BOTH, tasks=3, steps=5, episodes=4, method=SHORT, progress=False)
    assert len(recovered.losses) == 3
    demonstrations = mm.simulate(BOTH, np.eye(4)[[0, 1, 2]], mm.Softmax(2.0), steps=5, episodes=4)
    scored = mm.score(model, BOTH, demonstrations, method=SHORT, beside=[], progress=False)
    assert len(scored.table)
    switching = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), switching=mm.Switching(motives=2))
    posterior = mm.fit(switching, BOTH, demonstrations, SHORT, progress=False)
    drawn = posterior.data["posterior"].dataset["reward"]
    assert np.array_equal(drawn.isel(state=[0, 1]).values, drawn.isel(state=[2, 3]).values)


@pytest.mark.parametrize("prior", PRIORS)
def test_many_chains_at_once_have_the_same_rewards(prior):
    both = mm.Environments(BOTH)
    target = mm.RewardPolicyModel(PRIORS[prior](), mm.Softmax(2.0)).target(
        both, ("m", "n"), np.zeros((2, *both.available.shape))
    )
    u = np.random.default_rng(0).normal(size=(2, target.layout.num_rewards))
    found = _rewards(static_layout_of(target), data_of(target), jnp.asarray(u.T[:, :, None]))
    assert np.allclose(np.asarray(found)[:, 0, :, 0].T, target.rewards(u), rtol=1e-12)
