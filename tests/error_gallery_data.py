"""The first room of the gallery of errors: environments, demonstrations, files, beliefs, plans and worlds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
import scipy.sparse as sp

import manymotives as mm
from manymotives.commands.features import check_features, made_of_features
from manymotives.io.columns import choice_columns, feature_columns

CHAIN = mm.worlds.Chain(states=3)
ROOMS = mm.Environment(
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]],
    discount=0.9,
    states=["hall", "kitchen", "garden"],
    actions=["on", "back"],
    available=[[True, False], [True, True], [False, False]],
    terminal=["garden"],
)
LETTERED = mm.worlds.Labyrinth(levels=1)  # its states are named "0", "1", …, "home"
ROWS = [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.3, 0.7]]]  # a good 2 × 2 environment


def spoilt(state, action, row):
    rows = np.array(ROWS)
    rows[state, action] = row
    return rows


def table(**columns):
    good = {
        "state": ["a", "a", "b"],
        "action": ["x", "x", "x"],
        "next_state": ["a", "b", "a"],
        "probability": [0.5, 0.5, 1.0],
    }
    return pd.DataFrame(good | columns)


def choices(**columns):
    good = {"task": ["ann", "ann", "bob"], "state": ["hall", "kitchen", "hall"], "action": ["on", "back", "on"]}
    return pd.DataFrame(good | columns)


def read(frame, environment=ROOMS, **columns):
    return mm.Demonstrations.from_frame(frame, environment, **columns)


def in_file(name, content):
    """A file with this content, in the folder where the test runs."""
    Path(name).write_bytes(content)
    return name


def features(content, **columns):
    return mm.io.read_features(in_file("features.csv", content), ROOMS, **columns)


class Trajectory(NamedTuple):
    """What `imitation` calls one, as far as it is read."""

    obs: Any
    acts: Any


CONTINUOUS = SimpleNamespace(dataset_id="hopper", observation_space="Box(11)", action_space="Box(3)")
CHAIN_DATA = mm.simulate(CHAIN, np.ones((2, 3)), mm.Softmax(1.0), steps=5, tasks=["ann", "bob"])
VAGUE = mm.DynamicsBelief.around(CHAIN, 3.0)
WIDE = mm.DynamicsBelief(sp.csr_array(sp.eye_array(500)), discount=0.9, possible=sp.eye_array(500))


def belief(counts: Any = None, **given: Any) -> mm.DynamicsBelief:
    nothing = np.zeros((3, 2, 3))
    return mm.DynamicsBelief(nothing if counts is None else counts, discount=0.9, actions=CHAIN.actions, **given)


DATA = {
    # ---- environments
    "transitions of the wrong shape": lambda: mm.Environment(np.ones((2, 3)), discount=0.9),
    "transitions with more next states than states": lambda: mm.Environment(np.ones((2, 2, 3)), discount=0.9),
    "sparse transitions of the wrong shape": lambda: mm.Environment(sp.csr_array(np.ones((5, 2))), discount=0.9),
    "a row that does not sum to one": lambda: mm.Environment(
        spoilt(1, 0, [0.9, 0.07]), discount=0.9, states=["hall", "kitchen"], actions=["left", "right"]
    ),
    "a sparse row that does not sum to one": lambda: mm.Environment(
        sp.csr_array(spoilt(1, 0, [0.9, 0.07]).reshape(4, 2)), discount=0.9
    ),
    "an empty row": lambda: mm.Environment(spoilt(0, 1, [0.0, 0.0]), discount=0.9),
    "a negative probability": lambda: mm.Environment(spoilt(0, 1, [-0.5, 1.5]), discount=0.9),
    "a probability that is not a number": lambda: mm.Environment(spoilt(0, 0, [np.nan, 1.0]), discount=0.9),
    "a discount of one": lambda: mm.Environment(ROWS, discount=1.0),
    "a state without actions": lambda: mm.Environment(ROWS, discount=0.9, available=[[True, True], [False, False]]),
    "availability of the wrong shape": lambda: mm.Environment(ROWS, discount=0.9, available=[True, False]),
    "too few names": lambda: mm.Environment(ROWS, discount=0.9, states=["hall"]),
    "a name used twice": lambda: mm.Environment(ROWS, discount=0.9, actions=["left", "left"]),
    "an unknown terminal state": lambda: mm.Environment(
        ROWS, discount=0.9, states=["hall", "kitchen"], terminal=["kitschen"]
    ),
    "nothing but terminal states": lambda: mm.Environment(ROWS, discount=0.9, terminal=[0, 1]),
    "a start of the wrong length": lambda: mm.Environment(ROWS, discount=0.9, start=[1.0]),
    "a start that does not sum to one": lambda: mm.Environment(ROWS, discount=0.9, start=[0.5, 0.4]),
    "a negative start": lambda: mm.Environment(ROWS, discount=0.9, start=[1.5, -0.5]),
    "a start in an unknown state": lambda: mm.Environment(ROWS, discount=0.9, start={7: 1.0}),
    "an own reward of the wrong shape": lambda: mm.Environment(ROWS, discount=0.9, reward=[1.0, 2.0, 3.0]),
    "an own reward that is not finite": lambda: mm.Environment(ROWS, discount=0.9, reward=[1.0, np.inf]),
    "coordinates of the wrong shape": lambda: mm.Environment(ROWS, discount=0.9).with_coordinates([1.0, 2.0]),
    "a state without a place": lambda: mm.worlds.Chain(states=2).with_coordinates({0: (0.0, 0.0)}),
    # ---- environment tables
    "not a table": lambda: mm.Environment.from_frame([1, 2], discount=0.9),
    "a missing column": lambda: mm.Environment.from_frame(table().drop(columns="probability"), discount=0.9),
    "an empty table": lambda: mm.Environment.from_frame(table().head(0), discount=0.9),
    "a hole in the table": lambda: mm.Environment.from_frame(table(next_state=["a", None, "a"]), discount=0.9),
    "a probability in words": lambda: mm.Environment.from_frame(table(probability=[0.5, "half", 1.0]), discount=0.9),
    "the same move twice": lambda: mm.Environment.from_frame(table(next_state=["a", "a", "a"]), discount=0.9),
    "a state only arrived at": lambda: mm.Environment.from_frame(table(next_state=["a", "c", "a"]), discount=0.9),
    "only terminal states": lambda: mm.Environment.from_frame(
        table(action=None, next_state=None, probability=None), discount=0.9
    ),
    "memory where there is none": lambda: read(choices()).with_memory(ROOMS),
    # ---- demonstrations
    "an unknown state": lambda: read(choices(state=["hall", "kitchn", "attic"])),
    "names of another type": lambda: read(pd.DataFrame({"task": 1, "state": [0], "action": ["back"]}), LETTERED),
    "an unknown action": lambda: read(choices(action=["on", "bakc", "on"])),
    "an action that does not exist there": lambda: read(choices(action=["back", "back", "on"])),
    "an action in a terminal state": lambda: read(choices(state=["hall", "garden", "hall"])),
    "the same step twice": lambda: read(choices(step=[4, 4, 4]), step="step"),
    "no such column": lambda: read(choices(), step="trial"),
    "a row without a task": lambda: read(choices(task=["ann", None, "bob"])),
    "steps in words": lambda: read(choices(step=["first", "second", "third"]), step="step"),
    "a next state that does not come next": lambda: read(choices(then=["hall", "hall", "kitchen"]), next_state="then"),
    "nothing chosen": lambda: read(choices(action=[None, None, None])),
    "no trajectories": lambda: mm.Demonstrations.from_lists([], ROOMS),
    "too few actions": lambda: mm.Demonstrations.from_lists([(["hall", "kitchen", "hall"], ["on"])], ROOMS),
    "a list of pairs": lambda: mm.Demonstrations.from_lists([[("hall", "on"), ("kitchen", "back")]], ROOMS),
    "too few tasks": lambda: mm.Demonstrations.from_lists([(["hall"], ["on"])], ROOMS, tasks=["ann", "bob"]),
    "counts of an unknown task": lambda: read(choices()).transition_counts("eve"),
    # ---- labels and odd data frames
    "two columns that give one name": lambda: read(
        pd.DataFrame({"task": [1, 1], "x": ["a", "a, b"], "y": ["b, c", "c"], "action": "on"}), None, state=["x", "y"]
    ),
    "labels of other states": lambda: mm.plan(CHAIN, pd.Series([1.0, 0.0, 0.0], index=["a", "b", "c"])),
    "rewards that lack a state": lambda: mm.plan(CHAIN, pd.Series([1.0, 0.0], index=[2, 1])),
    "rewards with a label twice": lambda: mm.plan(CHAIN, pd.Series([1.0, 0.0, 0.0], index=[0, 1, 1])),
    "rewards that lie on their side": lambda: mm.plan(
        mm.Environment(np.eye(2)[:, None], discount=0.9, states=["hall", "attic"]),
        pd.DataFrame(np.eye(2), index=["attic", "hall"], columns=["Ann", "Bo"]),
    ),
    "temperatures with labels": lambda: mm.Softmax(pd.Series([1.0, 2.0], index=["Ann", "Bo"])).policies(
        CHAIN, np.zeros((2, 3))
    ),
    "lists as names": lambda: read(pd.DataFrame({"task": 1, "state": [["hall"]], "action": "on"}), None),
    "two columns of one name": lambda: read(
        pd.DataFrame([[1, "hall", "on", "attic"]], columns=["task", "state", "action", "state"]), None
    ),
    "numbers as names of columns": lambda: read(pd.DataFrame([[1, "hall", "on"]]), None),
    "times with and without a zone": lambda: read(
        pd.DataFrame(
            {
                "task": 1,
                "time": [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-01", tz="UTC")],
                "state": "hall",
                "action": "on",
            }
        ),
        None,
        step="time",
    ),
    "a count that is empty": lambda: mm.DynamicsBelief.from_frame(
        pd.DataFrame({"state": ["hall"], "action": [None], "next_state": ["hall"], "count": [1]}), discount=0.9
    ),
    "a name of a thousand letters": lambda: read(
        pd.DataFrame({"task": 1, "state": ["x" * 1000], "action": ["right"]}), CHAIN
    ),
    # ---- files
    "no file": lambda: mm.io.read_demonstrations("nowhere.csv"),
    "an empty file": lambda: mm.io.read_demonstrations(in_file("empty.csv", b"")),
    "another kind of file": lambda: mm.io.read_environment(in_file("choices.docx", b"x"), discount=0.9),
    "a file with a heading only": lambda: mm.io.read_demonstrations(in_file("head.csv", b"task,state,action\n")),
    "a file in Latin-1": lambda: mm.io.read_demonstrations(in_file("latin.csv", b"task,state,action\n1,caf\xe9,x\n")),
    "a broken Parquet file": lambda: mm.io.read_demonstrations(in_file("broken.parquet", b"PAR1 no")),
    # ---- tables of features
    "features without a row for a state": lambda: features(b"state,food\nhall,1\n"),
    "features of a state twice": lambda: features(b"state,food\nhall,1\nkitchen,0\nhall,2\ngarden,0\n"),
    "features of an unknown state": lambda: features(b"state,food\nhall,1\nkitschen,0\ngarden,0\n"),
    "features of no state": lambda: features(b"state,food\nhall,1\n,0\ngarden,0\n"),
    "a feature in words": lambda: features(b"state,food\nhall,much\nkitchen,0\ngarden,0\n"),
    "a feature with an empty cell": lambda: features(b"state,food\nhall,1\nkitchen,\ngarden,0\n"),
    "a feature without end": lambda: features(b"state,food\nhall,1\nkitchen,inf\ngarden,0\n"),
    "a table without features": lambda: features(b"state\nhall\nkitchen\ngarden\n"),
    "a table of features without states": lambda: features(b"food\n1\n0\n0\n"),
    "features without a row for a pair": lambda: features(b"state,action,food\nhall,on,1\n", action="action"),
    "features of a pair twice": lambda: features(
        b"state,action,food\nhall,on,1\nhall,on,1\nkitchen,on,0\nkitchen,back,0\n", action="action"
    ),
    "features on the command line with Beta rewards": lambda: check_features("beta", 0),
    "features on the command line with a history": lambda: check_features(None, 1),
    "features of states for rewards on pairs": lambda: made_of_features(
        None, features(b"state,food\nhall,1\nkitchen,0\ngarden,0\n"), "pairs"
    ),
    "a column of states under another name": lambda: feature_columns(
        ["place", "food"], choice_columns(["room", "action"], {}, "choices.csv"), "features.csv"
    ),
    # ---- environments estimated from data, trajectories of other libraries
    "nothing to estimate from": lambda: mm.estimate_environment(
        mm.Demonstrations.from_lists([(["hall"], ["on"])]), discount=0.9
    ),
    "choices in a terminal state": lambda: mm.estimate_environment(CHAIN_DATA, discount=0.9, terminal=[0]),
    "not a trajectory": lambda: mm.io.from_trajectories([([0], [1])]),
    "trajectories of numbers that are not whole": lambda: mm.io.from_trajectories([Trajectory([0.5, 1.0], [0])]),
    "trajectories of pictures": lambda: mm.io.from_trajectories([Trajectory(np.zeros((2, 3, 3)), [0])]),
    "a trajectory beyond the environment": lambda: mm.io.from_trajectories([Trajectory([0, 7], [0])], CHAIN),
    "not a Minari dataset": lambda: mm.io.from_minari(7),
    "Minari's continuous spaces": lambda: mm.io.from_minari(SimpleNamespace(spec=CONTINUOUS, iterate_episodes=list)),
    # ---- environments that are not known
    "a belief of negative counts": lambda: belief(-np.ones((3, 2, 3))),
    "a belief of nothing": lambda: belief(prior=0.0),
    "a prior less than nothing": lambda: belief(prior=-1.0),
    "a prior of another shape": lambda: belief(prior=np.ones((2, 2, 2))),
    "possible moves of another shape": lambda: belief(possible=np.ones((2, 2, 2))),
    "what is impossible was seen": lambda: belief(np.ones((3, 2, 3)), possible=np.tile([1.0, 1.0, 0.0], (3, 2, 1))),
    "actions that exist elsewhere": lambda: belief(possible=[[True]]),
    "a belief in an impossible move that was made": lambda: belief(possible=np.tile([1.0, 0.0, 0.0], (3, 2, 1))).after(
        CHAIN_DATA
    ),
    "a belief about other places": lambda: mm.DynamicsBelief(
        np.zeros((3, 2, 3)), discount=0.9, states=["a", "b", "c"]
    ).after(CHAIN_DATA),
    "a belief in a last state where choices are made": lambda: mm.DynamicsBelief.from_demonstrations(
        CHAIN_DATA, discount=0.9, terminal=[0]
    ),
    "counts that are words": lambda: mm.DynamicsBelief.from_frame(
        pd.DataFrame({"state": ["a"], "action": ["x"], "next_state": ["a"], "count": ["often"]}), discount=0.9
    ),
    "a belief of no weight": lambda: mm.DynamicsBelief.around(CHAIN, 0.0),
    "no samples of a belief": lambda: belief().sample(0),
    "an interval of everything": lambda: belief().to_frame(level=1.0),
    "a method that must know the environment": lambda: mm.fit(
        mm.RewardPolicyModel(), belief(), CHAIN_DATA, mm.MonteCarlo(), progress=False
    ),
    "calibration of MPO under a belief": lambda: mm.calibrate(mm.PolicyOptimalityModel(), belief()),
    # ---- planning
    "what choices can show of no environment": lambda: mm.identifiability([[1.0]]),
    "what choices can show of something else": lambda: mm.identifiability(CHAIN, on="states"),
    "what choices can show of features elsewhere": lambda: mm.identifiability(CHAIN, features=np.ones((4, 2))),
    "what choices can show of features in words": lambda: mm.identifiability(CHAIN, features=[["a"], ["b"], ["c"]]),
    "what choices can show from states elsewhere": lambda: mm.identifiability(CHAIN, visited=[1, 2]),
    "weights that no choice can show, of no features": lambda: mm.identifiability(CHAIN).weights,
    "rewards of the wrong shape": lambda: mm.plan(CHAIN, [1.0, 2.0]),
    "rewards on pairs, not said so": lambda: mm.plan(CHAIN, np.ones((3, 2))),
    "rewards on something else": lambda: mm.plan(CHAIN, np.ones(3), on="states"),
    "a reward that is not finite": lambda: mm.plan(CHAIN, [0.0, np.nan, 1.0]),
    "rewards in words": lambda: mm.plan(CHAIN, ["a", "b", "c"]),
    "rewards in half precision": lambda: mm.plan(CHAIN, jnp.ones(3, jnp.float16)),
    "a start that does not fit": lambda: mm.plan(CHAIN, np.ones((2, 3)), start=np.zeros((4, 3), int)),
    "a negative inverse temperature in JAX": lambda: mm.plan(CHAIN, np.ones(3), inverse_temperature=jnp.asarray(-2.0)),
    "a zero inverse temperature": lambda: mm.plan(CHAIN, np.ones(3), inverse_temperature=0.0),
    "inverse temperatures that do not fit": lambda: mm.plan(
        CHAIN, np.ones((2, 3)), inverse_temperature=[1.0, 2.0, 3.0]
    ),
    "a start that holds no actions": lambda: mm.plan(CHAIN, np.ones(3), start=[0.5, 0.5, 0.5]),
    "a start with an action too many": lambda: mm.plan(CHAIN, np.ones(3), start=[0, 1, 2]),
    "a start with an action that does not exist": lambda: mm.plan(ROOMS, np.ones(3), start=[1, 0, 0]),
    "a policy of the wrong shape": lambda: mm.evaluate(CHAIN, np.ones((2, 2)), np.ones(3)),
    "a policy that does not sum to one": lambda: mm.evaluate(CHAIN, np.full((3, 2), 0.4), np.ones(3)),
    "a policy that plays what does not exist": lambda: mm.evaluate(ROOMS, np.full((3, 2), 0.5), np.ones(3)),
    "policies and rewards that do not fit": lambda: mm.evaluate(CHAIN, np.full((4, 3, 2), 0.5), jnp.ones((5, 3))),
    # ---- decisions where transitions are not known
    "a soft plan under a belief": lambda: mm.plan(VAGUE, np.ones(3), inverse_temperature=2.0),
    "a plan under a belief that begins somewhere": lambda: mm.plan(VAGUE, np.ones(3), start=[0, 0, 0]),
    "a plan under a belief with a discount": lambda: mm.plan(VAGUE, np.ones(3), discount=0.5),
    "a plan that counts forever": lambda: mm.plan(CHAIN, np.ones(3), discount=1.0),
    "discounts of other rewards": lambda: mm.plan(CHAIN, np.ones((2, 3)), discount=[0.5, 0.6, 0.7]),
    "a learner with a discount": lambda: mm.simulate(
        CHAIN, np.ones(3), mm.worlds.ModelBasedLearner(), steps=2, discount=0.5
    ),
    "a plan under a belief with a depth": lambda: mm.plan(VAGUE, np.ones(3), depth=2),
    "a plan of no step": lambda: mm.plan(CHAIN, np.ones(3), depth=0),
    "a plan of some steps in JAX": lambda: mm.plan(CHAIN, jnp.ones(3), depth=2),
    "a plan of some steps that begins somewhere": lambda: mm.plan(CHAIN, np.ones(3), depth=2, start=[0, 0, 0]),
    "a learner with a depth": lambda: mm.simulate(CHAIN, np.ones(3), mm.worlds.ModelBasedLearner(), steps=2, depth=2),
    "a plan under a belief in JAX": lambda: mm.plan(VAGUE, jnp.ones(3)),
    "no environments to plan with": lambda: mm.plan(VAGUE, np.ones(3), environments=0),
    "environments to plan with in words": lambda: mm.plan(VAGUE, np.ones(3), environments="many"),
    "a seed that is none": lambda: mm.plan(VAGUE, np.ones(3), seed=-1),
    "environments to draw where one is known": lambda: mm.plan(CHAIN, np.ones(3), environments=10),
    "more environments than memory": lambda: mm.plan(WIDE, np.ones(500), environments=1000),
    "a plan in something else": lambda: mm.plan("chain", np.ones(3)),
    "the value of a policy under a belief": lambda: mm.evaluate(VAGUE, np.full((3, 2), 0.5), np.ones(3)),
    "losses under a belief in JAX": lambda: mm.optimality.loss_matrix(VAGUE, jnp.full((1, 3, 2), 0.5), np.ones((1, 3))),
    "losses where an environment is known": lambda: mm.optimality.loss_matrix(
        CHAIN, np.full((1, 3, 2), 0.5), np.ones((1, 3)), environments=3
    ),
    "a method without environments": lambda: mm.OptimalityMonteCarlo(environments=0),
    "a belief on an accelerator": lambda: mm.fit(
        mm.PolicyOptimalityModel(), VAGUE, CHAIN_DATA, mm.OptimalityMonteCarlo(device="gpu"), progress=False
    ),
    # ---- worlds and demonstrators
    "a negative temperature": lambda: mm.Softmax(-1.0),
    "a soft-optimal agent without temperature": lambda: mm.SoftOptimal(0.0),
    "no steps": lambda: mm.simulate(CHAIN, np.ones(3), mm.Softmax(1.0), steps=0),
    "no tasks": lambda: mm.simulate(CHAIN, np.ones((0, 3)), mm.Softmax(1.0), steps=5),
    "too many axes": lambda: mm.simulate(CHAIN, np.ones((2, 2, 3)), mm.Softmax(1.0), steps=5),
    "a chain of one": lambda: mm.worlds.Chain(states=1),
    "a slip above one": lambda: mm.worlds.GridWorld((2, 2), slip=1.5),
    "a crooked drawing": lambda: mm.worlds.GridWorld(["..", "."]),
    "nothing but walls": lambda: mm.worlds.GridWorld("##"),
    "a letter not drawn": lambda: mm.worlds.GridWorld("S.", rewards={"G": 1.0}),
    "a labyrinth without levels": lambda: mm.worlds.Labyrinth(levels=0),
    "a negative spread": lambda: mm.worlds.RandomMDP(spread=-1.0),
    "a concentration of zero": lambda: mm.worlds.DirichletMDP(concentration=0.0),
    "an environment without states": lambda: mm.worlds.RandomMDP(states=0),
    "a learner that explores too much": lambda: mm.worlds.ModelBasedLearner(epsilon=2.0),
    "a learner without a prior": lambda: mm.worlds.ModelBasedLearner(transition_prior=0.0),
}
