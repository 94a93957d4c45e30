"""Labelled arrays: another order is the same rewards, other labels are refused, bare numbers go by position."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import manymotives as mm
from manymotives.data.alignment import aligned

STATES, ACTIONS, TASKS = ("hall", "kitchen", "garden", "attic"), ("stay", "go"), ("Ann", "Bo", "Cy")
RNG = np.random.default_rng(0)
ENV = mm.Environment(RNG.dirichlet(np.ones(4), size=(4, 2)), discount=0.8, states=STATES, actions=ACTIONS)
REWARDS = RNG.normal(size=(3, 4))
ON_PAIRS = RNG.normal(size=(4, 2))
POLICY = RNG.dirichlet(np.ones(2), size=4)
TURN = [2, 0, 3, 1]  # another order of the states


def frames():
    """REWARDS with their labels, states in another order, by every library."""
    frame = pd.DataFrame(REWARDS, columns=STATES).iloc[:, TURN]
    array = xr.DataArray(REWARDS, dims=("task", "state"), coords={"state": list(STATES)})
    return {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "pyarrow": pa.Table.from_pandas(frame),
        "xarray": array[:, TURN],
        "xarray, turned": array.T[TURN],
        "a list of series": [row for _, row in frame.iterrows()],
    }


@pytest.mark.parametrize("kind", frames())
def test_states_in_another_order_are_the_same_rewards(kind):
    given = frames()[kind]
    np.testing.assert_array_equal(mm.plan(ENV, given).q, mm.plan(ENV, REWARDS).q)
    np.testing.assert_array_equal(mm.loss(ENV, POLICY, given), mm.loss(ENV, POLICY, REWARDS))
    np.testing.assert_array_equal(
        mm.optimality.loss_matrix(ENV, POLICY[None], given), mm.optimality.loss_matrix(ENV, POLICY[None], REWARDS)
    )
    one, two = (mm.simulate(ENV, each, mm.Softmax(3.0), steps=20, seed=0) for each in (given, REWARDS))
    np.testing.assert_array_equal(one.action, two.action)


def test_pairs_and_policies_are_aligned_on_both_axes():
    pairs = pd.DataFrame(ON_PAIRS, index=STATES, columns=ACTIONS).iloc[TURN, ::-1]
    policy = xr.DataArray(POLICY, dims=("state", "action"), coords={"state": list(STATES), "action": list(ACTIONS)})
    expected = mm.evaluate(ENV, POLICY, ON_PAIRS, on="state_action")
    found = mm.evaluate(ENV, policy[TURN].T, pairs, on="state_action")
    np.testing.assert_array_equal(found, expected)
    actions = mm.plan(ENV, REWARDS[0]).actions
    start = pd.Series(actions, index=STATES).iloc[TURN]
    np.testing.assert_array_equal(mm.plan(ENV, REWARDS[0], start=start).actions, actions)


def test_tasks_are_aligned_where_they_have_names():
    frame = pd.DataFrame(REWARDS, index=TASKS, columns=STATES).iloc[[1, 2, 0], TURN]
    cold = pd.Series([1.0, 5.0, 9.0], index=TASKS)
    options = {"steps": 30, "seed": 0, "tasks": TASKS}
    one = mm.simulate(ENV, frame, mm.Softmax(cold.iloc[::-1]), **options)
    two = mm.simulate(ENV, REWARDS, mm.Softmax(cold.to_numpy()), **options)
    np.testing.assert_array_equal(one.action, two.action)
    known = mm.RewardPolicyModel(choice=mm.Softmax(cold.iloc[::-1])).bind(ENV, one).fixed_temperature
    np.testing.assert_array_equal(known, [1.0, 5.0, 9.0])
    with pytest.raises(mm.errors.InputError, match="has labels, but the rewards have none"):
        mm.Softmax(cold).policies(ENV, REWARDS)


def test_what_has_no_labels_goes_by_position():
    plain = mm.plan(ENV, REWARDS).q
    for given in (pd.DataFrame(REWARDS), pl.DataFrame(REWARDS), xr.DataArray(REWARDS), REWARDS.tolist()):
        np.testing.assert_array_equal(mm.plan(ENV, given).q, plain)
    np.testing.assert_array_equal(mm.plan(ENV, pd.Series(REWARDS[0], index=[0, 1, 2, 3])).q, plain[0])
    assert aligned(REWARDS, "rewards", state=STATES) is REWARDS


def test_numbers_are_labels_too():
    env = mm.Environment(ENV.transitions, discount=0.8)
    series = pd.Series(REWARDS[0])
    expected = mm.plan(env, REWARDS[0]).q
    np.testing.assert_array_equal(mm.plan(env, series.iloc[::-1]).q, expected)  # a RangeIndex that runs backwards
    np.testing.assert_array_equal(mm.plan(env, series.iloc[TURN]).q, expected)
    np.testing.assert_array_equal(mm.plan(env, series.rename(index=str).iloc[TURN]).q, expected)  # as in a file


def test_tracing_stays_possible():
    def value(rewards):
        return mm.plan(ENV, rewards, inverse_temperature=2.0).value.sum()

    assert np.isfinite(jax.jit(jax.grad(value))(jnp.asarray(REWARDS[0]))).all()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (pd.DataFrame(REWARDS, columns=["hall", "kitchen", "gardn", "attic"]), "did you mean 'garden'"),
        (pd.DataFrame(REWARDS, columns=["hall", "kitchen", "hall", "attic"]), "'hall' stands for more than one state"),
        (pd.DataFrame(REWARDS[:, :3], columns=STATES[:3]), "the state 'attic' has no label"),
        (pd.DataFrame(RNG.normal(size=(4, 4)), index=STATES, columns=list("abcd")), "transpose the array"),
        (pd.Series(REWARDS[0], index=[4, 3, 2, 1]), "unknown states 4, 3, 2, 1"),
    ],
)
def test_other_labels_are_refused(given, says):
    with pytest.raises(mm.errors.InputError, match=says):
        mm.plan(ENV, given)


@pytest.mark.parametrize("library", [pa.Table.to_pandas, pl.from_arrow, lambda table: table])
def test_times_beyond_the_calendar_are_refused_in_a_sentence(library):
    times = pa.array([1704110400000000, 2**63 - 1], type=pa.timestamp("us", tz="+09:00"))
    table = library(pa.table({"hall": ["a", "b"], "kitchen": times}))
    with pytest.raises(mm.errors.InputError, match=r"cannot be read as numbers|must be numbers"):
        mm.plan(ENV, table)


def test_environments_align_what_they_are_made_of():
    turned = {
        "state": [STATES[s] for s in TURN],
        "action": list(ACTIONS[::-1]),
        "next_state": [STATES[s] for s in TURN],
    }
    moves = xr.DataArray(ENV.tensor[TURN][:, ::-1][:, :, TURN], dims=tuple(turned), coords=turned)
    available = np.ones((4, 2), dtype=bool)
    available[1, 0] = False
    start, reward, places = RNG.dirichlet(np.ones(4)), RNG.normal(size=4), RNG.normal(size=(4, 2))
    env = mm.Environment(
        moves,
        discount=0.8,
        states=STATES,
        actions=ACTIONS,
        available=pd.DataFrame(available, index=STATES, columns=ACTIONS).iloc[TURN, ::-1],
        start=pd.Series(start, index=STATES).iloc[TURN],
        reward=pd.Series(reward, index=STATES).iloc[TURN],
    ).with_coordinates(pd.DataFrame(places, index=STATES, columns=["x", "y"]).iloc[TURN, ::-1])
    np.testing.assert_array_equal(env.available, available)
    np.testing.assert_allclose(env.tensor[available], ENV.tensor[available])
    np.testing.assert_allclose(env.start, start)
    np.testing.assert_array_equal(env.reward, reward)
    np.testing.assert_array_equal(env.coordinates, places)
    belief = mm.DynamicsBelief(moves * 10, discount=0.8, states=STATES, actions=ACTIONS)
    plain = mm.DynamicsBelief(ENV.tensor * 10, discount=0.8, states=STATES, actions=ACTIONS)
    np.testing.assert_allclose(belief.mean.tensor, plain.mean.tensor)
    exists = pd.DataFrame(available, index=STATES, columns=ACTIONS).iloc[TURN, ::-1]
    some = mm.DynamicsBelief(np.zeros((4, 2, 4)), discount=0.8, states=STATES, actions=ACTIONS, possible=exists)
    np.testing.assert_array_equal(some.mean.available, available)


def test_priors_features_and_sets_of_rewards_are_aligned(tmp_path):
    features = pd.DataFrame(RNG.normal(size=(4, 2)), index=STATES, columns=["food", "light"])
    data = mm.simulate(ENV, REWARDS, mm.Softmax(3.0), steps=10, seed=0)
    scale = pd.Series([2.0, 0.5], index=["light", "food"])
    reward = mm.GaussianReward(features=features.iloc[TURN], mean=0.0, scale=scale)
    np.testing.assert_array_equal(reward.features_for(ENV).toarray(), features.to_numpy())
    assert reward.feature_names(2) == ("food", "light")
    model = mm.RewardPolicyModel(reward)
    np.testing.assert_array_equal(model.bind(ENV, data).layout.constants[:, 1], [0.5, 2.0])
    quick = mm.Metropolis(chains=1, draws=5, warmup=5, thin=1)
    posterior = mm.fit(model, ENV, data, quick, progress=False)
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc").model.reward
    np.testing.assert_array_equal(again.features_for(ENV).toarray(), features.to_numpy())
    assert again.feature_names(2) == ("food", "light")
    found = mm.baselines.maximum_causal_entropy(ENV, data, features=features.iloc[TURN], iterations=3)
    plain = mm.baselines.maximum_causal_entropy(ENV, data, features=features.to_numpy(), iterations=3)
    np.testing.assert_array_equal(found.rewards, plain.rewards)
    cube = xr.DataArray(
        RNG.normal(size=(2, 4, 2)),
        dims=("reward", "state", "action"),
        coords={"reward": ["food", "water"], "state": list(STATES), "action": list(ACTIONS)},
    )
    chosen = mm.optimality.RewardSet(cube[:, TURN, ::-1], on="state_action")
    np.testing.assert_array_equal(chosen.for_environment(ENV), cube.values)
    assert chosen.names == ("food", "water")
    backwards = mm.optimality.RewardSet(pd.DataFrame(REWARDS).iloc[:, ::-1])
    np.testing.assert_array_equal(backwards.for_environment(mm.Environment(ENV.transitions, discount=0.8)), REWARDS)


def test_pictures_are_aligned():
    values = pd.DataFrame(REWARDS, index=TASKS, columns=STATES)
    axes = mm.plots.tables.heat_map(values.iloc[::-1, TURN], TASKS, STATES, title="", bar_label="")
    np.testing.assert_array_equal(axes.images[0].get_array(), REWARDS)


def test_one_task_has_one_intention():
    data = mm.simulate(ENV, REWARDS[0], mm.Softmax(3.0), steps=40, seed=0)
    found = mm.baselines.multiple_intentions(ENV, data, starts=1)
    assert found.details["shares"].values.tolist() == [1.0]
    with pytest.raises(mm.errors.InputError, match="there are 1 tasks: they cannot have 2 intentions"):
        mm.baselines.multiple_intentions(ENV, data, intentions=2)
