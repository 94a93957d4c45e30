"""Models and data with switching motives that several tests share."""

import numpy as np

import manymotives as mm
from places import TRIANGLE

SHARINGS = {"Pooled": mm.Pooled(), "Separate": mm.Separate(), "Hierarchical": mm.Hierarchical()}
STAY = np.array([[0.9, 0.1], [0.2, 0.8]])
WANTED = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 3.0]])  # of two motives


def switching_model(sharing="Pooled", by="everywhere", motives=2, **settings):
    reward = mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.0))
    switching = mm.Switching(motives, by=by, **settings)
    return mm.RewardPolicyModel(reward, mm.Softmax(2.0), SHARINGS[sharing], switching)


def switching_data(tasks=2, steps=40, episodes=1, seed=0, environment=TRIANGLE):
    """Choices of agents with two motives, and the motives."""
    wanted = np.tile(WANTED, (tasks, 1, 1))
    agent = mm.worlds.SwitchingAgent(mm.Softmax(2.0), STAY)
    return mm.simulate(environment, wanted, agent, steps=steps, episodes=episodes, seed=seed)


def quick(method=mm.Gibbs, chains=2, draws=60, warmup=40, thin=1):
    settings = {"chains": chains, "draws": draws, "warmup": warmup, "thin": thin}
    return method(**settings, max_rounds=1) if method is mm.HMC else method(**settings)
