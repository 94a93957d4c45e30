"""A run: a model bound to data, a method, the draws so far. `fit` and checkpoints are loops around `Run.advance`."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from manymotives.data.belief import DynamicsBelief, EnvironmentOrBelief, split_environment
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environments import Environments, environment_of
from manymotives.errors import InputError
from manymotives.fitting.compilation import compile_first
from manymotives.fitting.looks import Looks
from manymotives.inference import HMC, Method, Progress, import_methods, suited
from manymotives.inference.checks import check_state
from manymotives.inference.diagnostics import RHAT, Mixing, largest_rhat, mixing, parts_of
from manymotives.inference.mcmc.watching import advice
from manymotives.inference.progress import Advice, Forecast
from manymotives.io.records import record_of, recorded_kinds
from manymotives.models import Model
from manymotives.posterior import Posterior
from manymotives.posterior.archive import packed_state, plain_labels, unpacked_state
from manymotives.posterior.dependent_features import warnings_of_features
from manymotives.posterior.labelling.common import names_of, tree_of

# what takes time beside draws
LOOKING, LABELLING = "Looking whether the chains have mixed", "Labelling the draws"
FORECASTING = "Timing the first steps"
ONE_REWARD = (
    "under Pooled() there is one reward, which cannot inform the mean and scale of a population, and inferring them "
    "slows mixing. Give the reward a fixed prior, such as GaussianReward(mean=0.0, scale=1.0) or "
    "DirichletReward(concentration=1.0).",
)
ROUNDING = 1e-12  # what writing probabilities and making them sum to 1 again may change


class Run:
    """A run of a method on a model and data: `advance` it, then ask for its `posterior`."""

    def __init__(
        self,
        model: Any,
        environment: Any,
        demonstrations: Any,
        method: Any = None,
        *,
        seed: Any = 0,
    ) -> None:
        """What is given is checked here, and so may be anything."""
        self.kind = Posterior.kind_of(model)
        self.method = self.kind.default_method() if method is None else method
        _check_method(self.method, model)
        environment = environment_of(environment)
        for word, value, kind, name in (
            ("environment", environment, EnvironmentOrBelief, "mm.Environment, or mm.DynamicsBelief"),
            ("demonstrations", demonstrations, Demonstrations, "mm.Demonstrations"),
        ):
            if not isinstance(value, kind):
                raise InputError(f"{word} must be {name}; found {type(value).__name__}.")
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise InputError(f"seed must be a whole number of at least 0; found {seed!r}.")
        self.model: Model = model
        self.demonstrations: Demonstrations = self.model.demonstrations_of(demonstrations)
        self.seed = int(seed)
        self.belief, self.environment = split_environment(self.model.environment_of(environment))
        self.target = model.bind(self.belief or self.environment, self.demonstrations)
        self.record = json.dumps(record_of(model))  # before the work, so that nothing can go wrong with it afterwards
        self.start: Posterior | None = None  # an earlier part of the run
        given, self.method = self.method, suited(self.method, self.target)
        self.looks = Looks.of(given, self.method)
        self.state = self.method.init(self.target, self.seed)
        self.draws: Any = None  # since `start`
        self._rehearse()

    def _rehearse(self) -> None:
        """Label and check a draw that is made up: what would fail when the work is done fails before it begins."""
        made_up = self.kind.made_up(self.target)
        if made_up is None:
            names_of(self.environment, self.demonstrations)
            tree_of({}, self.environment, self.demonstrations, self.seed)
            return
        self.draws = made_up
        try:
            with np.errstate(all="ignore"):  # what is made up may overflow where what is drawn does not
                self._checked(self._labelled(), Mixing(()))  # the order of motives depends on draws: not tried
        finally:
            self.draws = None

    def resume(self, start: Any) -> None:
        """Go on from an earlier posterior of the same run."""
        if not isinstance(start, Posterior):
            raise InputError(f"start must be a Posterior, such as mm.load reads; found {type(start).__name__}.")
        arrays = self._arrays_of(start)
        check_state(arrays, self.target)
        self.start, self.state = start, replace(self.state, arrays=arrays)

    def compile(self, progress: Progress) -> None:
        """Compile what the method needs, if that has never been done on this machine."""
        if isinstance(self.method, HMC) and self.method.device is None:
            compile_first(progress)

    def advance(self, draws: int, progress: Progress) -> None:
        """So many draws more, of each chain."""
        self.state, more = self.method.advance(self.state, draws, progress)
        self.draws = more if self.draws is None else self.draws.followed_by(more)

    def forecast(self, progress: Progress) -> tuple[Forecast, Advice]:
        """How long it takes until the first look at the chains, or to the end; and what would take less."""
        self.compile(progress)
        with progress.phase(FORECASTING):
            ahead = self.method.forecast(self.target, self.seed, self.looks.points[0])
        return ahead, advice(self.target) if isinstance(self.method, HMC) else Advice()

    def follow(self, posterior: Posterior) -> None:
        """What is drawn from now on follows this posterior of the run: its draws are not labelled again."""
        self.start, self.draws = posterior, None

    def pieces(self, draws: int) -> int:
        """How much work so many draws of each chain are, with warm-up: what a progress bar counts."""
        warmup = getattr(self.method, "warmup", 0) if self.method.is_markov_chain else 0
        return int(getattr(self.method, "chains", 1) * (warmup + draws))

    @property
    def can_go_on(self) -> bool:
        return self.state is not None

    def stop(self, why: str) -> None:
        """No more draws, and a warning."""
        self.state, self.draws = None, replace(self.draws, warnings=(why,))

    @property
    def made(self) -> int:
        """Draws so far, of each chain."""
        new = 0 if self.draws is None else int(self.draws.tasks.shape[1])
        if self.start is None or getattr(self.draws, "includes_earlier", False):
            return new
        return new + int(self.start.data["posterior"].sizes["draw"])

    def mixed_so_far(self, progress: Progress) -> Mixing | None:
        """How well chains have mixed, if they have."""
        if self.start is None:
            watched = self.kind.watched(self.draws, self.model, self.target, self.demonstrations)
            return mixing_by_parts(watched, progress)
        with progress.phase(LOOKING):
            data = self.kind.relabelled(self._labelled(), self.model, self.environment)
            mixed = self.kind.mixing_of(data, self.method)
        return None if mixed is None or mixed.warnings else mixed

    def posterior(self, mixed: Mixing | None = None) -> Posterior:
        """All draws so far, labelled and checked; `mixed`: how well they have mixed, where that is known already."""
        data = self.kind.relabelled(self._labelled(), self.model, self.environment)
        return self._checked(data, mixed or self.kind.mixing_of(data, self.method))

    def _checked(self, data: xr.DataTree, mixed: Mixing | None) -> Posterior:
        """Labelled draws with what is to be said of them."""
        if mixed is not None and not mixed.warnings:
            data.attrs["mixing"] = str(mixed)
            data.attrs["effective_draws"] = float(mixed.effective)
        visits = self.demonstrations.visits.sum(axis=0)
        said = (
            *self.draws.warnings,
            *(mixed.warnings if mixed else ()),
            *(ONE_REWARD if mixed and mixed.warnings and self._infers_population_of_one else ()),
            *(self.belief.warnings if self.belief else ()),
            *self.environment.warnings,
            *(self.environment.unvisited(visits) if isinstance(self.environment, Environments) else ()),
            *self.model.warnings,
            *self.model.warnings_in(self.environment),
            *warnings_of_features(self.model.reward, self.environment),
            *self.demonstrations.warnings,
            *self.kind.warnings_about(data, self.model, ~self.environment.is_terminal),
        )
        data.attrs["warnings"] = json.dumps(said)
        return self.kind(data, self.model, self.environment, self.belief)

    def _labelled(self) -> xr.DataTree:
        """All draws so far, with their names."""
        data = self.kind.label(self.draws, self.model, self.target, self.demonstrations, self.seed)
        data["sampler"] = xr.DataTree(packed_state({} if self.state is None else self.state.arrays))
        data.attrs["model"] = self.record
        data.attrs["method"] = json.dumps(record_of(self.method))
        if self.start is not None and not getattr(self.draws, "includes_earlier", False):
            data = _joined(self.start.data, data)
        return data

    @property
    def _infers_population_of_one(self) -> bool:
        """Whether hyperparameters are inferred from one reward."""
        return self.model.is_pooled and getattr(self.target, "num_hyper", 0) > 0

    @property
    def _reads_order(self) -> bool:
        """Whether it matters when a choice was made: where motives switch, it does."""
        return getattr(self.target, "assignment", None) is not None

    def _arrays_of(self, start: Posterior) -> dict[str, np.ndarray]:
        """The sampler's state in an earlier posterior, if it is of this run."""
        environment, earlier, attrs = self.environment, start.environment, start.data.attrs
        counts = start.data["observed_data"].dataset["counts"].values
        same = (
            self.record == attrs["model"]
            and json.dumps(plain_labels(self.demonstrations.tasks)) == attrs["tasks"]
            and json.dumps(plain_labels(environment.states)) == attrs["states"]
            and json.dumps(plain_labels(environment.actions)) == attrs["actions"]
            and np.array_equal(counts, self.demonstrations.counts)
            and (not self._reads_order or _same_steps(start.demonstrations, self.demonstrations))
            and earlier.discount == environment.discount
            and np.array_equal(earlier.available, environment.available)
            and np.array_equal(earlier.is_terminal, environment.is_terminal)
            and abs(earlier.matrix - environment.matrix).max() <= ROUNDING
            and _same_belief(start.belief, self.belief)
        )
        if not same:
            raise InputError(
                "start is the posterior of another model, environment or data set, so it cannot be resumed."
            )
        kind, name = json.loads(attrs["method"])["kind"], type(self.method).__name__
        if kind != name:
            raise InputError(f"start was made by {kind}(): resume it with the same method, not {name}().")
        arrays = unpacked_state(start.data["sampler"].dataset)
        if not arrays:
            raise InputError("start was interrupted, or made by a method that cannot be resumed.")
        chains, found = getattr(self.method, "chains", None), start.data["posterior"].sizes["chain"]
        if chains is not None and chains != found:
            raise InputError(
                f"start has {found} chain{'s' if found > 1 else ''}: resume it with the same number, not with {chains}."
            )
        return arrays


def mixing_by_parts(watched: xr.Dataset, progress: Progress) -> Mixing | None:
    """How well chains have mixed, if they have: looked at until something has not, populations first."""
    found: list[Mixing] = []
    with progress.phase(LOOKING):
        for part in parts_of(watched, shared_first=True):
            if not part.data_vars:
                continue
            if part.sizes["chain"] > 1 and largest_rhat(part) > RHAT:
                return None
            found.append(mixing(part))
            if found[-1].warnings:
                return None
    return Mixing((), max(m.rhat for m in found), min(m.bulk for m in found), min(m.tail for m in found))


def methods_for(model: Model) -> dict[str, type]:
    """The methods that can fit a model, by their names, its default first."""
    import_methods()
    default = Posterior.kind_of(model).default_method
    every = {default.__name__: default} | dict(sorted(recorded_kinds().items()))
    return {
        name: kind
        for name, kind in every.items()
        if hasattr(kind, "is_markov_chain") and issubclass(model.target_type, getattr(kind, "target_type", ()))
    }


def _check_method(method: Any, model: Model) -> None:
    """Refuse what is no method, or none for this model."""
    is_method = isinstance(method, Method) and not isinstance(method, type)
    if not is_method or not issubclass(model.target_type, method.target_type):
        names = ", ".join(f"{name}()" for name in methods_for(model))
        raise InputError(f"{method!r} cannot fit a {type(model).__name__}. These can: {names}.")


def _same_steps(one: Demonstrations, other: Demonstrations) -> bool:
    words = ("task", "episode", "state", "action", "follows")
    return all(np.array_equal(getattr(one, word), getattr(other, word)) for word in words)


def _same_belief(one: DynamicsBelief | None, other: DynamicsBelief | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(abs(one.concentration - other.concentration).max() == 0)


def _joined(before: xr.DataTree, after: xr.DataTree) -> xr.DataTree:
    """Both sets of draws as one; what is said of a chain, not of its draws, is a rate, and averaged over them."""
    counts = [float(tree["posterior"].sizes["draw"]) for tree in (before, after)]
    groups = {name: after[name].to_dataset() for name in after.children}
    for name in ("posterior", "log_likelihood", "sample_stats"):
        old, new = before[name].to_dataset(), groups[name]
        made = [word for word in new.data_vars if "draw" in new[word].dims]
        joined = xr.concat([old[made], new[made]], dim="draw", join="exact")
        joined = joined.assign_coords(draw=np.arange(joined.sizes["draw"]))
        others = {word: new[word] for word in new.data_vars if word not in made}
        if name == "sample_stats":
            others = {word: (counts[0] * old[word] + counts[1] * rate) / sum(counts) for word, rate in others.items()}
        groups[name] = joined.assign(others)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = dict(after.attrs)
    return tree
