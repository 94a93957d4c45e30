"""The page a scientist can read: one HTML file that needs nothing else."""

import os
from collections.abc import Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from manymotives.errors import InputError
from manymotives.io.atomic import whole_file
from manymotives.posterior import Counterfactual, Posterior, SwitchingPosterior
from manymotives.reporting.content import About, content_of
from manymotives.reporting.motives import motive_content_of
from manymotives.reporting.page import page
from manymotives.reporting.sections_whatif import checked_counterfactuals
from manymotives.scoring import Score

__all__ = ["report"]


def report(
    posterior: Posterior,
    path: str | os.PathLike[str],
    *,
    score: Score | Sequence[Score] | None = None,
    title: str | None = None,
    truth: ArrayLike | None = None,
    counterfactual: Counterfactual | Sequence[Counterfactual] | None = None,
) -> Path:
    """Write what was found to one HTML file, which loads nothing from anywhere; its path.

    Parameters
    ----------
    posterior
        What `fit` returned, or `load` read.
    path
        Where to write; the file appears whole or not at all.
    score
        What `mm.score` returned, or several of them: held-out prediction beside the plain baselines.
    title
        Of the page.
    truth
        True rewards [task, S] (or [task, S, A]) where they are known, as of simulated subjects: shown beside.
    counterfactual
        What `posterior.counterfactual` returned, or several of them: what would happen after a change.

    Returns
    -------
    Path
        Where the page was written.
    """
    if not isinstance(posterior, Posterior):
        raise InputError(f"posterior must be a result of mm.fit or mm.load; found {type(posterior).__name__}.")
    if title is not None and not isinstance(title, str):
        raise InputError(f"title must be text; found {title!r}.")
    scores = () if score is None else tuple(score) if isinstance(score, list | tuple) else (score,)
    for each in scores:
        if not hasattr(each, "table") or not hasattr(each, "hold_out"):
            raise InputError(f"score must be a result of mm.score, or a list of these; found {type(each).__name__}.")
    asked = checked_counterfactuals(counterfactual, posterior)
    target = Path(path)
    with whole_file(target) as temporary:
        heading = title or "What they want"
        content: About = (
            motive_content_of(posterior, heading, scores, truth)
            if isinstance(posterior, SwitchingPosterior)
            else content_of(posterior, heading, scores, truth, asked)
        )
        temporary.write_text(page(content), encoding="utf-8")
    return target
