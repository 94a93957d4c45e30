"""What chains have drawn, put together."""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from manymotives.inference.draws import AssignmentDraws, Draws, EffectDraws, MixtureDraws

if TYPE_CHECKING:
    from manymotives.inference.mcmc.chains import MarkovChain

Kind = TypeVar("Kind", AssignmentDraws, EffectDraws, MixtureDraws)


def draws_of(made: list["MarkovChain"], kept: int, warnings: tuple[str, ...]) -> Draws:
    """The first so many draws of each chain."""
    target = made[0].target
    if target.partitions is not None:
        return _mixture_draws(made, kept, warnings)
    statistics: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "acceptance_rate": (("chain", "task"), np.stack([chain.acceptance_rate for chain in made])),
        "prior_acceptance_rate": (("chain", "task"), np.stack([chain.prior_acceptance_rate for chain in made])),
    }
    if target.belief is not None:
        rates = np.array([0.0 if chain.dynamics is None else chain.dynamics.acceptance_rate for chain in made])
        statistics["environment_acceptance_rate"] = (("chain",), rates)
    return Draws(
        tasks=np.stack([chain.drawn.tasks[:kept] for chain in made]),
        hyper=np.stack([chain.drawn.hyper[:kept] for chain in made]),
        log_likelihood=np.stack([chain.drawn.log_likelihood[:kept] for chain in made]),
        episode_log_likelihood=(
            None if target.episodes is None else np.stack([chain.episode_log_likelihood[:kept] for chain in made])
        ),
        transition_probabilities=(
            None if target.belief is None else np.stack([chain.transition_probabilities[:kept] for chain in made])
        ),
        statistics=statistics,
        warnings=warnings,
        assignment=_stacked(
            AssignmentDraws, [chain.assignment_draws for chain in made if chain.assignment_draws], kept
        ),
        effects=_stacked(EffectDraws, [chain.effect_draws for chain in made if chain.effect_draws], kept),
    )


def _mixture_draws(made: list[Any], kept: int, warnings: tuple[str, ...]) -> Draws:
    """The same of chains over partitions of tasks."""
    return Draws(
        tasks=np.stack([chain.drawn.tasks[:kept] for chain in made]),
        hyper=np.stack([chain.drawn.hyper[:kept] for chain in made]),
        log_likelihood=np.stack([chain.drawn.log_likelihood[:kept] for chain in made]),
        statistics={"acceptance_rate": (("chain",), np.array([chain.recent_acceptance for chain in made]))},
        warnings=warnings,
        mixture=_stacked(MixtureDraws, [chain.mixture_draws for chain in made], kept),
    )


def _stacked(kind: type[Kind], drawn: list[Kind], kept: int) -> Kind | None:
    """The first so many draws of each chain; None where there are none."""
    return kind(*(np.stack([part[:kept] for part in parts]) for parts in zip(*drawn))) if drawn else None
