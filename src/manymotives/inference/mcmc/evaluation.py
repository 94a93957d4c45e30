"""Coordinates of tasks and their choices in, log likelihoods and gradients out: by the compiled loops of HMC.

Every row of coordinates has a plan of its own, which is kept and starts the next plan of the same row. Consecutive
calls with similar coordinates are therefore many times quicker than planning from nothing: on 175 mileage states at a
discount of .9999, about .1 ms per row instead of 20 ms.
"""

from typing import Any, NamedTuple

import numpy as np

from manymotives.inference.mcmc.density import Workspace, density_workspace, log_density_and_gradient
from manymotives.inference.mcmc.state import Data
from manymotives.models import Target
from manymotives.models.target import FIXED
from manymotives.planning.verbs import Plan
from manymotives.planning.warm_start import World, world_of

BLOCK = 8  # rows are planned for in blocks of so many


class Evaluated(NamedTuple):
    """Log likelihoods of rows of coordinates, their gradients, and what was planned."""

    log_likelihood: np.ndarray  # [N]
    gradient: np.ndarray  # [N, D]
    q: np.ndarray  # [N, S, A]
    actions: np.ndarray  # [N, S] of the highest value


class Evaluation:
    """Log likelihoods and gradients of a target. Its workspaces are its own: use one instance per thread."""

    def __init__(self, target: Target) -> None:
        self.target, self.layout = target, target.layout.copied()
        self.options: dict[str, Any] = {"own_discounts": self.layout.discount != FIXED, "depth": target.depth or 0}
        self._workspaces: dict[int, tuple[World, Data, Workspace]] = {}

    def __call__(self, u: np.ndarray, counts: np.ndarray, tasks: np.ndarray) -> Evaluated:
        """At u [N, D], for choices [N, S, A]; parameters that are known are those of `tasks` [N]."""
        size = BLOCK * -(-len(u) // BLOCK)
        if size not in self._workspaces:
            self._workspaces[size] = self._workspace(size)
        world, data, workspace = self._workspaces[size]
        n = len(u)
        workspace.tasks[:n], data.counts[:n], data.counts[n:] = u, counts, 0.0
        workspace.tasks[n:] = u[0]
        data.temperature[:n], data.lapse[:n] = self.target.fixed_temperature[tasks], self.target.fixed_lapse[tasks]
        none = np.empty((0, self.target.num_hyper))
        log_density_and_gradient(world, self.layout, data, workspace, none, workspace.tasks)
        found = workspace.log_likelihood[:n]
        return Evaluated(
            np.where(np.isnan(found), -np.inf, found),
            workspace.likelihood_gradient[:n].copy(),
            workspace.plans.q[:n],
            workspace.plans.actions[:n],
        )

    def planned(self, u: np.ndarray, tasks: np.ndarray) -> Plan:
        """What is best at u [N, D] of these tasks [N]."""
        blocks: list[Plan] = []
        for k in range(0, len(u), BLOCK):
            part = slice(k, k + BLOCK)
            self(u[part], self.target.counts[tasks[part]], tasks[part])
            plans, n = self._workspaces[BLOCK][2].plans, len(u[part])
            found = (plans.q, plans.value, plans.actions, plans.residual, np.isfinite(plans.residual), plans.solves)
            blocks.append(Plan(*(each[:n].copy() for each in found)))
        q, value, actions, residual, converged, solves, _ = (
            None if each[0] is None else np.concatenate(each) for each in zip(*blocks)
        )
        soft = self.target.felt_temperatures(u, tasks) if self.layout.is_soft else None
        return Plan(q, value, actions, residual, converged, solves, soft)

    def _workspace(self, size: int) -> tuple[World, Data, Workspace]:
        """For so many rows."""
        target = self.target
        world = world_of(target.environment, size, self.layout.is_soft, **self.options)
        workspace = density_workspace(world, self.layout, size, 0)
        counts = np.zeros((size, *target.counts.shape[1:]))
        known = np.full(size, target.fixed_temperature[0]), np.full(size, target.fixed_lapse[0])
        return world, Data(counts, *known, np.zeros((0, target.num_coordinates)), 0, 0), workspace
