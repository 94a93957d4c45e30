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
            f"{contender.name}: draws of who shares a motive cannot be reweighted: without its choices, a task could "
            'act on motives that none of its draws shows. Score it without method="psis" (on the command line, without '
            "--method none)."
        )
    if sharing.by == EPISODE:
        raise InputError(
            f'{contender.name}: Mixture(by="episode") has episodes in the place of tasks, which the other models have. '
            'Score Mixture(by="task") with demonstrations.by_episode(), where all models have episodes as tasks.'
        )
