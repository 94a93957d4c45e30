"""Who acts on which motive, when: a switching model's hidden chain, bound to data.

Motives have parameters for each *unit*: everybody together (pooled), or each task. Rows of the transition matrix of
motives stand at the nodes of a tree; a step's row is that of its *context*, a leaf:

    everywhere   pooled: the root             hierarchical: root → tasks              separate: a root for each task
    by state     pooled: root → states        hierarchical: root → states → tasks     separate: task's root → states

Rows of a root are Dirichlet(α β + κ at the motive itself), the last, by which segments begin, Dirichlet(α β); those of
a child are Dirichlet(ν · its parent's). With K motives α β = (1, …, 1). Where their number is inferred, β ~
Dirichlet(γ / K, …, γ / K) and α ~ Gamma(1, 0.1).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from manymotives.data.demonstrations import Demonstrations
from manymotives.models.hidden_markov import Segments
from manymotives.models.priors import Prior
from manymotives.models.sharing import Hierarchical, Pooled
from manymotives.models.switching import STATE, StickBreaking, Switching

KNOWN = -1  # in place of a family: a number that is not inferred


class RowTree(NamedTuple):
    """Nodes level by level, those of one root next to each other; and the priors of κ and ν, for compiled loops."""

    parent: np.ndarray  # [N]; −1: a root
    begin: np.ndarray  # [R, L + 1] the first node of each root and level …
    end: np.ndarray  # [R, L + 1] … and where they end
    context: np.ndarray  # [C] the node that each context is
    stickiness_family: int  # of log κ, or KNOWN
    stickiness: np.ndarray  # [2] its parameters, or the number itself
    concentration_family: int
    concentration: np.ndarray  # [2]
    sparsity: float  # γ / K of how much motives are used; 0 where their number is known


@dataclass(frozen=True, eq=False)
class Assignment:
    """Steps in the order of time, and the tree of rows."""

    num_motives: int  # K
    num_units: int  # U
    num_tasks: int
    num_episodes: int
    segments: Segments
    tree: RowTree
    levels: tuple[str, ...]  # of the tree below its roots: "state", "task"

    @property
    def num_roots(self) -> int:
        return len(self.tree.begin)

    @property
    def num_contexts(self) -> int:
        return len(self.tree.context)

    @classmethod
    def of(cls, switching: Switching, sharing: Any, demonstrations: Demonstrations) -> "Assignment":
        """For these choices, in the order in which they were made."""
        num_states, num_tasks = len(demonstrations.states), demonstrations.num_tasks
        by_state = switching.by == STATE
        pooled, hierarchical = isinstance(sharing, Pooled), isinstance(sharing, Hierarchical)
        roots = 1 if pooled or hierarchical else num_tasks
        widths = ([num_states] if by_state else []) + ([num_tasks] if hierarchical else [])
        levels = (("state",) if by_state else ()) + (("task",) if hierarchical else ())
        state, task = demonstrations.state.astype(np.int64), demonstrations.task.astype(np.int64)
        begins = ~demonstrations.follows
        left = np.where(begins, state, np.roll(state, 1))  # the state that was left; at a beginning, where that is
        where, who = left if by_state else np.zeros_like(left), np.zeros_like(task) if pooled else task
        if pooled or hierarchical:  # contexts in the order of leaves: state by state, or root by root
            context = where * (1 if pooled else num_tasks) + who
        else:
            context = who * (num_states if by_state else 1) + where
        segments = Segments(
            state=state,
            action=demonstrations.action.astype(np.int64),
            unit=who,
            task=task,
            episode=demonstrations.episode.astype(np.int64),
            begins=begins,
            context=context,
        )
        return cls(
            num_motives=switching.num_motives,
            num_units=1 if pooled else num_tasks,
            num_tasks=num_tasks,
            num_episodes=demonstrations.num_episodes,
            segments=segments,
            tree=_tree(roots, widths, switching),
            levels=levels,
        )


def _tree(roots: int, widths: list[int], switching: Switching) -> RowTree:
    """`roots` trees whose nodes of each level have as many children as `widths` say."""
    parents = [np.full(roots, -1)]
    sizes, first = [1], 0
    for width in widths:
        above = len(parents[-1])
        parents.append(np.repeat(np.arange(first, first + above), width))
        first, sizes = first + above, [*sizes, sizes[-1] * width]
    starts = np.cumsum([0, *(roots * size for size in sizes)])
    begin = starts[:-1] + np.arange(roots)[:, None] * np.array(sizes)
    motives = switching.motives
    stickiness_family, stickiness = _prior(switching.stickiness)
    concentration_family, concentration = _prior(switching.concentration)
    return RowTree(
        parent=np.concatenate(parents).astype(np.int64),
        begin=begin.astype(np.int64),
        end=(begin + np.array(sizes)).astype(np.int64),
        context=np.arange(starts[-2], starts[-1], dtype=np.int64),
        stickiness_family=stickiness_family,
        stickiness=stickiness,
        concentration_family=concentration_family,
        concentration=concentration,
        sparsity=float(motives.concentration) / motives.most if isinstance(motives, StickBreaking) else 0.0,
    )


def _prior(value: Any) -> tuple[int, np.ndarray]:
    """The family of a positive number's logarithm, and its parameters; or KNOWN, and the number."""
    if not isinstance(value, Prior):
        return KNOWN, np.array([float(value), 0.0])
    parameters = np.zeros(2)
    parameters[: len(value.parameters)] = [float(each) for each in value.parameters]
    return value.family, parameters
