"""The verb: bind a model to data, run a method, label and check the result."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manymotives.data.belief import DynamicsBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.fitting.ctrl_c import presses
from manymotives.fitting.run import LABELLING, Run, methods_for
from manymotives.inference import InParts, Method, Progress, import_methods
from manymotives.inference.diagnostics import Mixing
from manymotives.io.netcdf import read_tree, unreadable
from manymotives.io.records import from_record
from manymotives.models import Model
from manymotives.posterior import Posterior
from manymotives.posterior.labelling.checks import check_groups, check_stored
from manymotives.posterior.labelling.common import stored_belief, stored_environment
from manymotives.posterior.labelling.drawn_rewards import with_computed
from manymotives.posterior.reward_policy import RewardPolicyPosterior

WITHOUT_CHECKSUM = (
    "this run was read from a file without a checksum, as written by version 0.1, so damage to the file cannot "
    "be detected."
)


def fit(
    model: Model,
    environment: Environment | DynamicsBelief | Mapping[Any, Environment],
    demonstrations: Demonstrations,
    method: Method | None = None,
    *,
    seed: int = 0,
    progress: bool | Progress = True,
    start: Posterior | None = None,
) -> Posterior:
    """Fit a model to demonstrations: infer what each task wants from what it did.

    Parameters
    ----------
    model
        The model, such as `RewardPolicyModel(DirichletReward(), Softmax(), Hierarchical())` or
        `PolicyOptimalityModel()`.
    environment, demonstrations
        The environment and the demonstrations in it, with the same names of states and actions. If transitions are
        unknown, a `DynamicsBelief` replaces the environment, and the transitions are inferred together with the
        rewards. Several environments are given by name, {"maze A": a, "maze B": b}; states with the same name have the
        same reward.
    method
        For a `RewardPolicyModel`: `HMC()` (the default), `Gibbs()`, `Metropolis()`, `NestedMonteCarlo()` or
        `MonteCarlo()`; `EmpiricalBayes()` for an approximation; `MaximumLikelihood()` for estimates with
        standard errors. For a `PolicyOptimalityModel`: `OptimalityMonteCarlo()`.
    seed
        Seed of the random numbers. The draws do not depend on the number of cores.
    progress
        Whether to show a progress bar in a terminal or notebook. Ctrl-C interrupts the fit and keeps the draws made so
        far.
    start
        A posterior of the same model and data from which to resume. The result contains its draws and one more round,
        as if all had been made in one run.

    Returns
    -------
    Posterior
        Labelled posterior draws, of the type that belongs to the model.
    """
    bar = progress if isinstance(progress, Progress) else Progress(bool(progress))
    run = Run(model, environment, demonstrations, method, seed=seed)
    if start is not None:
        run.resume(start)
    run.compile(bar)
    if start is not None:
        run.advance(run.method.draws, bar)
        return run.posterior()
    mixed = _until_mixed(run, bar)
    with bar.phase(LABELLING):
        return run.posterior(mixed)


def _until_mixed(run: Run, progress: Progress) -> Mixing | None:
    """Draws until the chains have mixed, as `run.looks` says, or until there are as many as a run may have.

    How well they have mixed, if that is what it ended with; none where the run was stopped.
    """
    looks, made = run.looks, 0
    with presses() as pressed, progress.of(0, "draws") as whole:
        bar = InParts(whole)
        while run.can_go_on and made < looks.last:
            following = looks.after(made)
            bar.expect(run.pieces(following), following if following < looks.last else None)
            try:
                run.advance(following - made, bar)
                made = following
                if not run.can_go_on or made == looks.last:
                    return None
                mixed = run.mixed_so_far(bar)
                if pressed.is_set():  # too late to stop the block
                    raise KeyboardInterrupt
            except KeyboardInterrupt:
                if run.draws is None:
                    raise
                run.stop("interrupted before the chains had mixed.")
                return None
            if mixed is not None and looks.is_enough(made, mixed.effective):
                return mixed
    return None


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read a posterior that `Posterior.save` wrote; an error is raised if the file is damaged or was changed.

    Parameters
    ----------
    path
        The path of the file.

    Returns
    -------
    Posterior
        The posterior as it was saved.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r}.")
    data, has_checksum = read_tree(path)
    try:
        check_groups(data)
        model = from_record(json.loads(data.attrs["model"]))
        if json.loads(data.attrs["method"])["kind"] not in methods_for(model):
            raise InputError(f"it was made by a method that cannot fit a {type(model).__name__}")
        environment = stored_environment(data)
        posterior = Posterior.kind_of(model)(data, model, environment, stored_belief(data, environment))
        if isinstance(posterior, RewardPolicyPosterior):
            with_computed(posterior)
        check_stored(posterior)
    except Exception as error:  # a file can hold anything, and fail anywhere
        raise unreadable(path, error) from None
    if not has_checksum and WITHOUT_CHECKSUM not in posterior.warnings:
        data.attrs["warnings"] = json.dumps([WITHOUT_CHECKSUM, *posterior.warnings])
    return posterior


def method_of(posterior: Posterior) -> Any:
    """The method that made a posterior, with its settings."""
    import_methods()
    return from_record(json.loads(posterior.data.attrs["method"]))
