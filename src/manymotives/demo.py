"""The embedded example: simulated tasks on a chain, what can be said of them, and a picture."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from manymotives.choice import Softmax
from manymotives.demonstrations import Demonstrations
from manymotives.environment import Environment
from manymotives.planning import loss, plan
from manymotives.plots import plot_choices, plot_table
from manymotives.worlds import Chain, simulate

INVERSE_TEMPERATURE = 4.0


@dataclass(frozen=True, eq=False)
class Demo:
    """Simulated tasks with the truth beside them."""

    environment: Environment
    rewards: np.ndarray  # [task, S]
    demonstrations: Demonstrations
    best: np.ndarray  # [task, S]
    losses: np.ndarray  # [task] of the demonstrators themselves
    copied_losses: np.ndarray  # [task] of doing what they were seen to do

    @property
    def table(self) -> pd.DataFrame:
        """One row a task."""
        counts = self.demonstrations.counts
        task, state = np.indices(self.best.shape)
        return pd.DataFrame(
            {
                "task": self.demonstrations.tasks,
                "wants_most": [self.environment.states[s] for s in self.rewards.argmax(axis=1)],
                "states_visited": (self.demonstrations.visits > 0).sum(axis=1),
                "best_action_share": counts[task, state, self.best].sum(axis=1) / counts.sum(axis=(1, 2)),
                "loss": self.losses,
                "loss_if_copied": self.copied_losses,
            }
        )

    def write(self, folder: Path) -> list[tuple[Path, str]]:
        """Tables and a picture; the files made, each with what it holds."""
        folder.mkdir(parents=True, exist_ok=True)
        truth = pd.DataFrame(self.rewards, columns=[f"state {name}" for name in self.environment.states])
        truth.insert(0, "task", self.demonstrations.tasks)
        tables = (
            ("choices.csv", "what was chosen, one row a step", self.demonstrations.to_frame()),
            ("environment.csv", "the chain, one row a possible move", self.environment.to_frame()),
            ("truth.csv", "the rewards behind the choices", truth),
            ("tasks.csv", "the table above", self.table),
        )
        made = []
        for name, what, frame in tables:
            frame.to_csv(folder / name, index=False)
            made.append((folder / name, what))
        figure = self.picture()
        figure.savefig(folder / "choices.png", dpi=150)
        plt.close(figure)
        made.append((folder / "choices.png", "a picture: what they wanted, what they did"))
        return made

    def picture(self) -> plt.Figure:
        """What they wanted beside what they did."""
        height = min(16.0, 1.6 + 0.34 * self.demonstrations.num_tasks)
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, height), layout="constrained")
        plot_table(
            self.rewards,
            self.demonstrations.tasks,
            self.environment.states,
            title="What they wanted",
            bar_label="reward",
            axes=left,
        )
        plot_choices(self.demonstrations, "forward", best=self.best, axes=right)
        right.set_title("What they did")
        figure.supxlabel("a square's size: how often they were there; a ring: mostly not the best action", fontsize=9)
        return figure


def simulated_chain_tasks(tasks: int, steps: int, seed: int) -> Demo:
    """Tasks whose rewards are drawn from one Dirichlet population, demonstrated by softmax choice."""
    environment = Chain()
    rewards = np.random.default_rng(seed).dirichlet(np.full(environment.num_states, 0.5), size=tasks)
    rule = Softmax(inverse_temperature=INVERSE_TEMPERATURE)
    names = [f"subject {number + 1}" for number in range(tasks)]
    demonstrations = simulate(environment, rewards, rule, steps=steps, seed=seed, tasks=names)
    smoothed = demonstrations.counts + 1.0  # one imagined choice of each action, or unvisited states have no policy
    copied = smoothed / smoothed.sum(axis=2, keepdims=True)
    return Demo(
        environment=environment,
        rewards=rewards,
        demonstrations=demonstrations,
        best=plan(environment, rewards).actions,
        losses=loss(environment, rule.policies(environment, rewards), rewards),
        copied_losses=loss(environment, copied, rewards),
    )
