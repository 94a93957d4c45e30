"""Environments estimated from what was seen, against counting by hand; trajectories of other libraries."""

from dataclasses import dataclass

import gymnasium
import minari
import numpy as np
import pytest

import manymotives as mm

WALKS = [
    (["hall", "kitchen", "hall", "hall"], ["on", "back", "on"]),
    (["hall", "kitchen", "garden"], ["on", "on"]),
    (["kitchen", "hall"], ["back", "jump"]),  # nobody saw where the jump led
]


def counted(walks):
    """How often each next state followed, by hand."""
    found = {}
    for states, actions in walks:
        for state, action, following in zip(states, actions, states[1:]):
            ways = found.setdefault((state, action), {})
            ways[following] = ways.get(following, 0) + 1
    return found


def test_probabilities_are_the_frequencies_that_were_seen():
    env, demos = mm.estimate_environment(mm.Demonstrations.from_lists(WALKS), discount=0.9)
    by_hand = counted(WALKS)
    for s, state in enumerate(env.states):
        for a, action in enumerate(env.actions):
            ways = by_hand.get((state, action), {})
            assert env.available[s, a] == bool(ways)
            for t, following in enumerate(env.states):
                expected = ways.get(following, 0) / max(1, sum(ways.values()))
                assert env.tensor[s, a, t] == pytest.approx(expected, abs=1e-15)
    assert [state for state, ends in zip(env.states, env.is_terminal) if ends] == ["garden"]
    np.testing.assert_allclose(env.start, [0, 2 / 3, 1 / 3])
    assert demos.counts.sum() == 6
    assert (
        "1 choices are left out, because it is not known where they lead, for example 'jump' in 'hall'"
        in (demos.warnings[-1])
    )


def test_the_estimate_finds_the_environment_that_made_the_data():
    """Frequencies of n transitions are off by sqrt(p (1 − p) / n); five such is once in a million."""
    truth = mm.worlds.Chain(states=3, slip=0.3)
    demos = mm.simulate(truth, np.zeros((2, 3)), mm.Softmax(1.0), steps=20_000, seed=0)
    env, _ = mm.estimate_environment(demos, discount=truth.discount)
    seen = np.asarray(demos.transition_counts().sum(axis=1)).reshape(3, 2, 1)
    error = np.sqrt(truth.tensor * (1 - truth.tensor) / seen)
    assert (np.abs(env.tensor - truth.tensor) <= 5 * error + 1e-12).all()
    wrong = mm.worlds.Chain(states=3, slip=0.35)  # and would not pass for another
    assert (np.abs(wrong.tensor - env.tensor) > 5 * error).any()


def test_the_estimate_is_marked_wherever_it_goes(tmp_path):
    env, demos = mm.estimate_environment(mm.Demonstrations.from_lists(WALKS), discount=0.9)
    assert "estimated from these data: 6 transitions of 3 state-action pairs" in env.warnings[0]
    assert "estimated" in repr(env)
    assert env.with_memory().warnings == env.warnings
    quick = mm.Metropolis(chains=1, draws=5, warmup=5, thin=1)
    posterior = mm.fit(mm.RewardPolicyModel(), env, demos, quick, progress=False)
    assert env.warnings[0] in posterior.warnings
    posterior.save(tmp_path / "run.nc")
    assert mm.load(tmp_path / "run.nc").environment.warnings == env.warnings


# ---- trajectories --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trajectory:
    """The fields of imitation.data.types.Trajectory (1.0), which needs PyTorch to be imported."""

    obs: np.ndarray
    acts: np.ndarray
    infos: np.ndarray | None
    terminal: bool


def test_trajectories_of_imitation():
    walks = [
        Trajectory(np.array([0, 4, 8]), np.array([1, 1]), None, False),
        Trajectory(np.array([[0], [1]]), np.array([2]), None, True),
    ]
    lake = mm.io.from_gymnasium("FrozenLake-v1", discount=0.9)
    demos = mm.io.from_trajectories(walks, lake, tasks=["ann", "bob"])
    assert demos.tasks == ("ann", "bob")
    assert demos.counts.sum() == 3
    assert demos.counts[0, 4, 1] == demos.counts[1, 0, 2] == 1
    alone = mm.io.from_trajectories(walks)
    assert (alone.num_tasks, alone.num_episodes, alone.states) == (1, 2, (0, 1, 4, 8))


@pytest.mark.filterwarnings("ignore")  # Minari's, about what a dataset should also say
def test_datasets_of_minari(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    collector = minari.DataCollector(gymnasium.make("FrozenLake-v1"), data_format="hdf5")
    rng = np.random.default_rng(0)
    visited, taken = [], []
    for number in range(3):
        state, _ = collector.reset(seed=number)
        for _ in range(20):
            visited.append(int(state))
            taken.append(int(rng.integers(4)))
            state, _, ended, cut, _ = collector.step(taken[-1])
            if ended or cut:
                break
    about = {"algorithm_name": "chance", "code_permalink": "-", "author": "-", "author_email": "-", "description": "-"}
    dataset = collector.create_dataset("lake/chance-v0", **about)
    collector.close()
    lake = mm.io.from_gymnasium("FrozenLake-v1", discount=0.9)
    expected = np.zeros((16, 4), dtype=int)
    np.add.at(expected, (visited, taken), 1)
    for given in (dataset, "lake/chance-v0"):
        demos = mm.io.from_minari(given, lake)
        assert demos.tasks == ("lake/chance-v0",)
        assert demos.num_episodes == 3
        assert demos.warnings == ()
        np.testing.assert_array_equal(demos.counts[0], expected)
    both = mm.io.from_minari({"ann": dataset, "bob": dataset}, lake)
    assert both.tasks == ("ann", "bob")
    np.testing.assert_array_equal(both.counts[1], expected)
    with pytest.raises(mm.errors.InputError, match="Minari finds no dataset 'lake/none-v0' here"):
        mm.io.from_minari("lake/none-v0")
