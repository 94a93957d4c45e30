"""Choices episode by episode: the log-likelihood of each, from the policies in the states that were visited.

log p(episode e | π) = Σ_{s, a} n_e(s, a) log π(a | s)
"""

from dataclasses import dataclass

import numpy as np

from manymotives.data.demonstrations import Demonstrations

LARGEST = 20_000_000  # draws × episodes; beyond it log-likelihoods are kept by task


@dataclass(frozen=True, eq=False)
class EpisodeCounts:
    """How often each pair was chosen in each episode; rows are the (task, state) pairs in which anything was."""

    num_episodes: int
    task: np.ndarray  # [V] of each row …
    state: np.ndarray  # [V] … and its state
    row: np.ndarray  # [P] of each (episode, state, action) that occurs, in the order of episodes
    action: np.ndarray  # [P]
    times: np.ndarray  # [P]
    first: np.ndarray  # of P: where episodes begin …
    episode: np.ndarray  # … and which these are; those without choices are not among them
    subject: np.ndarray  # [episodes] whose they are, also where everybody is one task

    @classmethod
    def of(cls, demonstrations: Demonstrations, *, pooled: bool) -> "EpisodeCounts":
        """Of all episodes; `pooled`: everybody is one task."""
        num_states = len(demonstrations.states)
        made = demonstrations.action >= 0
        owner = np.zeros(made.sum(), dtype=np.int64) if pooled else demonstrations.task[made]
        table = np.stack(
            [demonstrations.episode[made], owner * num_states + demonstrations.state[made], demonstrations.action[made]]
        )
        (episode, position, action), times = np.unique(table, axis=1, return_counts=True)
        visited, row = np.unique(position, return_inverse=True)
        first = np.flatnonzero(np.append(True, np.diff(episode) > 0)) if len(episode) else np.array([], dtype=np.int64)
        task, state = np.divmod(visited, num_states)
        subject = np.zeros(demonstrations.num_episodes, dtype=np.int64)
        subject[demonstrations.episode] = demonstrations.task
        return cls(
            demonstrations.num_episodes, task, state, row.reshape(-1), action, times, first, episode[first], subject
        )

    def clusters(self, task: int, shape: tuple[int, ...]) -> np.ndarray:
        """Counts [C, S, A] of a task by cluster: its subjects, where it has several, or else its episodes."""
        episode = np.repeat(self.episode, np.diff(np.append(self.first, len(self.row))))
        mine = self.task[self.row] == task
        owner = self.subject[episode[mine]]
        cluster = np.unique(owner if len(np.unique(owner)) > 1 else episode[mine], return_inverse=True)[1].reshape(-1)
        found = np.zeros((cluster.max(initial=-1) + 1, *shape))
        np.add.at(found, (cluster, self.state[self.row[mine]], self.action[mine]), self.times[mine])
        return found

    def log_likelihoods(self, log_policies: np.ndarray) -> np.ndarray:
        """[N, episodes] from log π of the rows [N, V, A]."""
        found = np.zeros((len(log_policies), self.num_episodes))
        if len(self.first):
            flat = self.row * log_policies.shape[2] + self.action
            terms = self.times * np.take(log_policies.reshape(len(log_policies), -1), flat, axis=1)
            found[:, self.episode] = np.add.reduceat(terms, self.first, axis=1)
        return found
