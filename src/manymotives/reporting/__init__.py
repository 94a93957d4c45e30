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
    """Write the results to one HTML file, which needs no other file and no network.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    path
        Where to write the file. If writing fails, no partial file is left behind.
    score
        One or several results of `mm.score`: held-out prediction compared with the baselines.
    title
        Title of the page.
    truth
        True rewards [task, S] (or [task, S, A]) if they are known, as for simulated subjects; they are shown next to
        the estimates.
    counterfactual
        One or several results of `posterior.counterfactual`: what would happen after a change.

    Returns
    -------
    Path
        The path of the file.
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
