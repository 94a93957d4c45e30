"""A draw that is made up, as a method would return it: labels can be tried on it before there is any."""

import numpy as np

from manymotives.inference import Draws
from manymotives.inference.draws import AssignmentDraws, EffectDraws, MixtureDraws
from manymotives.models import Target


def made_up_draw(target: Target) -> Draws:
    """One draw of one chain: all coordinates are 0, all motives are equally probable."""
    effects, assignment = target.effects, target.assignment
    num_tasks, size = target.num_tasks, target.num_coordinates
    return Draws(
        tasks=np.zeros((1, 1, num_tasks, size)),
        hyper=np.zeros((1, 1, target.num_groups, target.num_hyper)),
        log_likelihood=np.zeros((1, 1, num_tasks)),
        episode_log_likelihood=None if target.episodes is None else np.zeros((1, 1, target.episodes.num_episodes)),
        transition_probabilities=None if target.belief is None else np.zeros((1, 1, target.belief.is_uncertain.sum())),
        effects=(
            None
            if effects is None
            else EffectDraws(np.zeros((1, 1, *effects.applies.shape)), np.zeros((1, 1, *effects.has_slope.shape)))
        ),
        mixture=(
            None
            if target.partitions is None
            else MixtureDraws(
                motive=np.zeros((1, 1, num_tasks), dtype=np.int64),
                concentration=np.ones((1, 1)),
                spread=np.zeros((1, 1)),
                centre=np.zeros((1, 1, num_tasks, target.layout.num_rewards)),
                lp=np.zeros((1, 1)),
            )
        ),
        assignment=(
            None
            if assignment is None
            else AssignmentDraws(
                rows=np.full(
                    (1, 1, assignment.num_contexts, assignment.num_motives + 1, assignment.num_motives),
                    1.0 / assignment.num_motives,
                ),
                stickiness=np.zeros((1, 1, assignment.num_roots)),
                concentration=np.ones((1, 1, assignment.num_roots, len(assignment.levels))),
                steps=np.ones((1, 1, assignment.num_tasks, assignment.num_motives)),
                switches=np.zeros((1, 1, assignment.num_tasks)),
                log_likelihood=np.zeros((1, 1, assignment.num_tasks)),
                episode_log_likelihood=np.zeros((1, 1, 0)),
            )
        ),
    )
