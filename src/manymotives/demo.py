"""The embedded example: simulated subjects in an open field, what each of them wants, and what was inferred."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from manymotives import plots
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.fitting.fit import fit
from manymotives.inference import HMC
from manymotives.models import RewardPolicyModel
from manymotives.models.choice import Softmax
from manymotives.planning import loss
from manymotives.posterior import Posterior
from manymotives.reporting import report
from manymotives.worlds import GridWorld, simulate

INVERSE_TEMPERATURE = 5.0
CONCENTRATION = 0.3  # each subject cares for a few places
MAPS = 12  # subjects in the picture


@dataclass(frozen=True, eq=False)
class Demo:
    """Simulated subjects, and what was inferred of them."""

    environment: Environment
    rewards: np.ndarray  # [task, S] the truth
    demonstrations: Demonstrations
    posterior: Posterior

    @property
    def table(self) -> pd.DataFrame:
        """One row a subject: favourite place, true and inferred, and what three ways to act lose in value."""
        environment, states = self.environment, np.array(self.environment.states)
        counts = (
            self.demonstrations.counts + 1.0
        )  # one imagined choice of each action, or unvisited states have no policy
        rule = Softmax(inverse_temperature=INVERSE_TEMPERATURE)
        sampled = self.posterior.rewards.values.reshape(-1, *self.rewards.shape)
        favourite = self.posterior.mean_reward.values.argmax(axis=1)
        tasks = np.arange(len(self.rewards))
        sure = (sampled.argmax(axis=2) == favourite).mean(axis=0)
        return pd.DataFrame(
            {
                "task": self.demonstrations.tasks,
                "wants_most": states[self.rewards.argmax(axis=1)],
                "inferred": states[favourite],
                "probability": sure[tasks],
                "loss_demonstrator": loss(environment, rule.policies(environment, self.rewards), self.rewards),
                "loss_copied": loss(environment, counts / counts.sum(axis=2, keepdims=True), self.rewards),
                "loss_inferred": loss(environment, self.posterior.policies().values, self.rewards),
            }
        )

    def write(self, folder: Path) -> list[tuple[Path, str]]:
        """Tables, pictures and the posterior itself; the files made, each with what it holds."""
        folder.mkdir(parents=True, exist_ok=True)
        truth = pd.DataFrame(self.rewards, columns=[f"state {name}" for name in self.environment.states])
        truth.insert(0, "task", self.demonstrations.tasks)
        tables = (
            ("choices.csv", "the choices, one row per step", self.demonstrations.to_frame()),
            ("environment.csv", "the environment, one row per possible transition", self.environment.to_frame()),
            ("truth.csv", "the true rewards", truth),
            ("rewards.csv", "inferred rewards: mean, standard deviation and interval", self.posterior.to_frame()),
            ("subjects.csv", "the table above", self.table),
        )
        made = []
        for name, what, frame in tables:
            frame.to_csv(folder / name, index=False)
            made.append((folder / name, what))
        shown = self.demonstrations.tasks[:MAPS]
        estimate = self.posterior.mean_reward.values
        maps = {"what they want": self.rewards[:MAPS], "what we infer": estimate[:MAPS]}
        pictures = (
            ("maps.png", "a figure: true rewards above estimates", plots.maps(self.environment, maps, shown)),
            (
                "intervals.png",
                "a figure: estimates with their intervals",
                plots.rewards(self.posterior, truth=self.rewards),
            ),
        )
        for name, what, figure in pictures:
            figure.savefig(folder / name, dpi=150)
            plt.close(figure)
            made.append((folder / name, what))
        self.posterior.save(folder / "posterior.nc")
        made.append((folder / "posterior.nc", "all draws, to be read by mm.load"))
        title = f"{len(self.demonstrations.tasks)} simulated subjects in an open field"
        report(self.posterior, folder / "report.html", title=title, truth=self.rewards)
        made.append((folder / "report.html", "the report, with the true rewards: open it in a browser"))
        return made


def simulated_field(tasks: int, steps: int, seed: int, *, progress: bool = True) -> Demo:
    """Subjects whose rewards come from one Dirichlet population, fitted with the multitask model."""
    environment = GridWorld((3, 3), slip=0.1, discount=0.9)
    rewards = np.random.default_rng(seed).dirichlet(np.full(environment.num_states, CONCENTRATION), size=tasks)
    names = [f"subject {number + 1}" for number in range(tasks)]
    rule = Softmax(inverse_temperature=INVERSE_TEMPERATURE)
    demonstrations = simulate(environment, rewards, rule, steps=steps, seed=seed, tasks=names)
    draws = HMC() if tasks <= 100 else HMC(max_rounds=1)  # a demonstration is no analysis
    posterior = fit(RewardPolicyModel(), environment, demonstrations, draws, seed=seed, progress=progress)
    return Demo(environment, rewards, demonstrations, posterior)
