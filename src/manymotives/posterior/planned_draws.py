"""Plans for the draws of a posterior, each in its own environment where transitions are not known."""

from typing import Any

import numpy as np
import xarray as xr

from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.planning import Plan, plan


class PlannedDraws:
    """A posterior whose draws can be planned for."""

    data: xr.DataTree
    model: Any
    environment: Environment
    belief: DynamicsBelief | None

    def own_discounts(self, which: slice = slice(None)) -> np.ndarray | None:
        """Discounts [K, who] of some of the draws, chains one after the other; None: the environment's."""
        return None

    def mean_discounts(self) -> np.ndarray | None:
        """E γ of each task; None: the environment's."""
        return None

    def planned(
        self,
        rewards: np.ndarray,
        which: slice,
        inverse_temperature: np.ndarray | None = None,
        discount: np.ndarray | None = None,
    ) -> Plan:
        """Plans for rewards [K, ...] of some of the draws, chains one after the other, each in its own environment."""
        on, soft, depth = self.model.reward.on, inverse_temperature, self.model.depth
        if not self._draws_environments:
            return plan(self.environment, rewards, on=on, inverse_temperature=soft, discount=discount, depth=depth)
        drawn = self._drawn_moves(which)
        each = [None] * len(rewards) if soft is None else list(soft)
        found = [
            plan(self._environment_with(moves), reward, on=on, inverse_temperature=temperature)
            for moves, reward, temperature in zip(drawn, rewards, each, strict=True)
        ]
        return Plan(
            **{
                name: None if each[0] is None else np.stack([np.asarray(one) for one in each])
                for name, each in zip(Plan._fields, zip(*found, strict=True), strict=True)
            }
        )

    @property
    def _draws_environments(self) -> bool:
        """Whether draws have environments of their own: those of MPO are averages over what may be."""
        return self.belief is not None and "transition" in self.data["posterior"].dataset

    def _drawn_moves(self, which: slice) -> np.ndarray:
        """Probabilities [K, E] of all possible moves in the environments of some of the draws."""
        assert self.belief is not None
        drawn = self.data["posterior"].dataset["transition"].values
        return self.belief.complete(drawn.reshape(-1, drawn.shape[-1])[which])

    def _environment_with(self, moves: np.ndarray) -> Environment:
        assert self.belief is not None
        return self.belief.environment(moves)

    def _planned_draws(self, rewards: np.ndarray, inverse_temperature: np.ndarray | None) -> Plan:
        """Plans for rewards [chain, draw, ...] of all draws."""
        if not self._draws_environments:
            own = self.own_discounts()
            own = None if own is None else np.broadcast_to(own.reshape(*rewards.shape[:2], -1), rewards.shape[:3])
            return self.planned(rewards, slice(None), inverse_temperature, own)
        shape = rewards.shape[:2]
        soft = None if inverse_temperature is None else inverse_temperature.reshape(-1, *inverse_temperature.shape[2:])
        found = self.planned(rewards.reshape(-1, *rewards.shape[2:]), slice(None), soft)
        return Plan(*(None if v is None else v.reshape(*shape, *v.shape[1:]) for v in found))

    def flat_draws(self, values: xr.DataArray) -> xr.DataArray:
        """Chains one after the other (sample, task, ...), and one task where everybody is one."""
        if self.model.is_pooled:
            values = values.isel(task=[0])
        return values.stack(sample=("chain", "draw")).transpose("sample", "task", ...)
