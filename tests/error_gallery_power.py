"""The room of the gallery of errors for power analyses: contrasts, rules, sizes, models."""

from dataclasses import replace

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA, in_file
from manymotives.assessment.power_result import Power
from manymotives.commands.power import _numbers

TABLE = {
    "task": ["a", "b", "c", "d"],
    "condition": ["free", "restricted"] * 2,
    "diet": ["free", "free", "restricted", "restricted"],
    "age": [1, 2, 5, 3],
}
WITHOUT = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(), mm.Hierarchical())


def model(formula="condition", **more):
    return replace(WITHOUT, sharing=mm.Hierarchical(formula, covariates=TABLE), **more)


def power(given=None, environment=CHAIN, contrast="0: restricted - free", **options):
    return mm.power(model() if given is None else given, environment, contrast=contrast, progress=False, **options)


POWER = {
    # ---- contrasts
    "power about nothing": lambda: power(contrast=""),
    "power about an unknown state": lambda: power(contrast="9 - 1"),
    "power about a state less itself": lambda: power(contrast="1 - 1"),
    "power about levels without covariates": lambda: power(WITHOUT),
    "power about an unknown level": lambda: power(contrast="0: thirsty - free"),
    "power about one level": lambda: power(contrast="0: free"),
    "power about levels of two factors": lambda: power(model("condition + diet")),
    "power about what the model knows": lambda: power(
        replace(WITHOUT, reward=mm.GaussianReward(mean=0.0)), contrast="0 - 1"
    ),
    "power about what no formula has": lambda: power(
        model(
            {"reward": "age", "inverse_temperature": "condition"}, choice=mm.Softmax(mm.LogNormal(mean=0.0, scale=1.0))
        )
    ),
    "an effect on shares": lambda: power(mm.RewardPolicyModel(), contrast="0 - 1", effect=0.5),
    "an effect that is no number": lambda: power(effect="large"),
    # ---- rules
    "power by an unknown rule": lambda: power(rule="significance"),
    "power at an impossible level": lambda: power(level=0.4),
    "equivalence without a margin": lambda: power(rule="equivalence"),
    "a margin of a direction": lambda: power(margin=0.1),
    # ---- sizes
    "no subjects to plan for": lambda: power(subjects=[]),
    "half a step to plan for": lambda: power(steps=[0.5]),
    "one replication": lambda: power(replications=1),
    "a certain target": lambda: power(target=1.0),
    "stopping beyond everything": lambda: power(stop=2.0),
    "a negative seed of power": lambda: power(seed=-1),
    "too few subjects for a formula": lambda: power(
        model("condition + diet"), contrast="0: diet = restricted - free", subjects=[2]
    ),
    "no episodes to plan for": lambda: power(episodes=0),
    "episodes that end, not counted": lambda: power(
        environment=mm.worlds.GridWorld(["S.G"], terminal="G"), contrast="r0c0: restricted - free"
    ),
    "several environments, episodes not counted": lambda: power(environment={"a": CHAIN, "b": CHAIN}),
    # ---- models and environments
    "power of no model": lambda: power("pilot.nc"),
    "power of policies' optimality": lambda: power(mm.PolicyOptimalityModel()),
    "power analysed by nothing": lambda: power(analysis="the same"),
    "power of separate tasks": lambda: power(replace(WITHOUT, sharing=mm.Separate()), contrast="0 - 1"),
    "power of shared motives": lambda: power(replace(WITHOUT, sharing=mm.Mixture()), contrast="0 - 1"),
    "power of motives that switch": lambda: power(
        analysis=replace(WITHOUT, switching=mm.Switching()), contrast="0 - 1"
    ),
    "power with temperatures of each task": lambda: power(model(choice=mm.Softmax([1.0, 2.0, 3.0, 4.0]))),
    "power of a model nowhere": lambda: power(environment=None),
    "power where dynamics are not known": lambda: power(
        environment=mm.DynamicsBelief.from_demonstrations(CHAIN_DATA, discount=0.9)
    ),
    "power in no environment": lambda: power(environment="a maze"),
    "power of members of several levels": lambda: power(
        model("condition + (1 | diet) + (1 | age)"), contrast="0: condition = restricted - free"
    ),
    "truth and analysis without a common table": lambda: power(
        model("condition"), analysis=model("diet"), contrast="0: restricted - free"
    ),
    "power by importance sampling": lambda: power(method=mm.MonteCarlo()),
    # ---- files and the command line
    "a power analysis that is not there": lambda: Power.load("power.json"),
    "a power analysis of something else": lambda: Power.load(in_file("power.json", b"{}")),
    "subjects in words": lambda: _numbers("eight", "--subjects"),
}
