"""The room of the gallery of errors for tasks that share motives: priors, models, methods, scores, the command line."""

from dataclasses import replace

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA
from manymotives.commands.mixture import asked_mixture

QUICK = mm.HMC(chains=1, draws=5, warmup=5, thin=1, max_rounds=1)
GAUSSIAN = mm.GaussianReward(mean=0.0, scale=1.0)
IMPOSSIBLE = mm.RewardPolicyModel(
    mm.GaussianReward(mean=[0.0, 100.0, 0.0], scale=1e-3), mm.Softmax(1e308), mm.Mixture()
)
SHARED = mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Mixture())


def fit(model=SHARED, method=QUICK, environment=CHAIN):
    return mm.fit(model, environment, CHAIN_DATA, method, progress=False)


def told(model="mixture", method=None, reward="gaussian", motives=None, spread=None, by=None):
    """Options of the command line."""
    return asked_mixture(model, method, reward, motives, spread, by)


MIXTURES = {
    # ---- priors of partitions
    "no motives to share": lambda: mm.Mixture(0),
    "motives to share in words": lambda: mm.Mixture("three"),
    "half a motive to share": lambda: mm.Mixture(2.5),
    "a finite number below one": lambda: mm.FiniteNumber(mean=0.5),
    "shares without a concentration": lambda: mm.FiniteNumber(concentration=0.0),
    "a finite number that is a prior": lambda: mm.FiniteNumber(mean=mm.Gamma(shape=2.0, rate=1.0)),
    "a process without concentration": lambda: mm.DirichletProcess(0.0),
    "a process that may be negative": lambda: mm.DirichletProcess(mm.Normal(mean=0.0, scale=1.0)),
    "a process of several concentrations": lambda: mm.DirichletProcess([1.0, 2.0]),
    "no spread at all": lambda: mm.Mixture(spread=0.0),
    "a spread that may be negative": lambda: mm.Mixture(spread=mm.Normal(mean=0.0, scale=1.0)),
    "a spread of each weight": lambda: mm.Mixture(spread=mm.HalfNormal(scale=[1.0, 2.0])),
    "motives by the day": lambda: mm.Mixture(by="day"),
    # ---- models
    "motives shared and switched between": lambda: replace(SHARED, switching=mm.Switching()),
    "smooth rewards of shared motives": lambda: replace(SHARED, reward=mm.SmoothReward()),
    "a spread of rewards that sum to one": lambda: mm.RewardPolicyModel(
        mm.DirichletReward(), sharing=mm.Mixture(spread=0.5)
    ),
    "shared motives without a softmax": lambda: mm.PolicyOptimalityModel(sharing=mm.Mixture()),
    "shared motives where dynamics are not known": lambda: fit(
        environment=mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9)
    ),
    "impossible choices of shared motives": lambda: fit(IMPOSSIBLE),
    # ---- methods
    "shared motives by Gibbs sampling": lambda: fit(method=mm.Gibbs()),
    "shared motives by random walks": lambda: fit(method=mm.Metropolis()),
    "shared motives at first sight": lambda: fit(method=mm.EmpiricalBayes()),
    "shared motives by importance sampling": lambda: fit(method=mm.MonteCarlo()),
    "shared motives by nested importance sampling": lambda: fit(method=mm.NestedMonteCarlo()),
    "shared motives on a device": lambda: fit(method=mm.HMC(device="cpu")),
    # ---- verbs
    "a profile of shared motives": lambda: mm.profile(SHARED, CHAIN, CHAIN_DATA),
    "recovering motives of episodes": lambda: mm.recover(replace(SHARED, sharing=mm.Mixture(by="episode")), CHAIN),
    "shared motives scored by weights": lambda: mm.score(fit(), method="psis", progress=False),
    "motives of episodes scored": lambda: mm.score(
        replace(SHARED, sharing=mm.Mixture(by="episode")), CHAIN, CHAIN_DATA, QUICK, progress=False
    ),
    # ---- the command line
    "a number of motives for another model": lambda: told("mrp", motives="3"),
    "a spread for another model": lambda: told("rp", spread=0.5),
    "motives of episodes for another model": lambda: told("mrp", by="episode"),
    "shared motives by another method": lambda: told(method="gibbs"),
    "smooth shared motives": lambda: told(reward="smooth"),
    "a number of motives in words": lambda: told(motives="several"),
    "a negative spread of motives": lambda: told(spread=-1.0),
    "a spread of shares": lambda: told(reward="dirichlet", spread=0.5),
}
