"""Tasks that share motives, scored: which held-out choices can be predicted, and how.

A held-out task stays in the fit without its choices, or with those that it has shown: its posterior is then the mixture
of the motives in use, each by how many act on it and how well it explains what was shown, and of a new motive.
"""

from manymotives.errors import InputError
from manymotives.models.mixture import EPISODE
from manymotives.scoring.contenders import Contender


def check_mixture(contender: Contender, refits: bool) -> None:
    """Refuse what reweights draws, and episodes in the place of tasks.

    Draws of a task that surely acts on one motive never show another: weights would seem reliable, and be wrong.
    """
    sharing = contender.model.sharing
    if not refits:
        raise InputError(
            f"{contender.name}: draws of partitions cannot be reweighted, because without its choices a task "
            'could have motives that occur in none of its draws. Score it without method="psis".'
        )
    if sharing.by == EPISODE:
        raise InputError(
            f'{contender.name}: under Mixture(by="episode") episodes take the place of tasks, but not in the '
            'other models. Score Mixture(by="task") with demonstrations.by_episode(), so that all models have '
            "episodes as tasks."
        )
