"""A posterior as it was read from a file in; an error if no fit of its model could have written that."""

import json
from typing import Any

import numpy as np
import xarray as xr

from manymotives.errors import InputError
from manymotives.posterior.archive import GROUP, is_computed, unpacked_state
from manymotives.posterior.common import Posterior
from manymotives.posterior.labelling.common import coordinate_of

TEXTS = ("manymotives_version", "model", "method", "warnings", "tasks", "states", "actions")  # attributes of the root
GROUPS = ("posterior", "prior", "log_likelihood", "sample_stats", "observed_data", "constant_data", "sampler")
UNBOUNDED = ("optimality_gap", "choices")  # may be infinite: some priors of the gap, choices that a policy never makes
EFFECTS = ("_effect", "_spread", "_deviation")  # how names of draws of covariates end

Dims = tuple[str, ...]


def check_groups(data: xr.DataTree) -> None:
    """Raise unless every group is there that is read of any run."""
    missing = [name for name in GROUPS if name not in data.children]
    if missing:
        raise InputError(f"it has no group {missing[0]!r}")


def check_stored(posterior: Posterior) -> None:
    """Raise unless all that is read of a posterior is there, has its dimensions and names, and is a number."""
    data = posterior.data
    for word in TEXTS:
        if not isinstance(data.attrs.get(word), str):
            raise InputError(f"it has no attribute {word!r}")
    np.asarray(data.attrs["seed"], dtype=np.int64).item()
    if not all(isinstance(warning, str) for warning in posterior.warnings):
        raise InputError("its warnings are not text")
    available = posterior.environment.available
    sizes = {"task": len(posterior.tasks), "state": available.shape[0], "action": available.shape[1]}
    names = {word: json.loads(data.attrs[f"{word}s"]) for word in sizes}
    coordinates = {word: coordinate_of(tuple(labels)) for word, labels in names.items()}
    drawn = data["posterior"].dataset
    if GROUP in data.children:
        sizes["episode"] = len(posterior.demonstrations.episodes)
    sizes |= {word: drawn.sizes[word] for word in ("chain", "draw")}
    expected = _expected(posterior, coordinates, sizes)
    for group, variables in expected.items():
        stored = data[group].dataset
        for name, dims in variables.items():
            if name not in stored:
                raise InputError(f"it has no variable {name!r} in {group!r}")
            lengths = sizes if group != "prior" else {dim: sizes[dim] for dim in dims if dim not in ("chain", "draw")}
            _check_variable(stored[name], f"{group}/{name}", dims, lengths, available)
    for group in ("posterior", "observed_data", "constant_data"):
        for word, labels in coordinates.items():
            stored = data[group].dataset
            if word in stored.dims and not np.array_equal(stored[word].values, labels):
                raise InputError(f"the names of its {word}s in {group!r} are not those of the fit")
    _check_choices(posterior)
    unpacked_state(data["sampler"].dataset)


def _expected(posterior: Posterior, coordinates: dict[str, Any], sizes: dict[str, int]) -> dict[str, dict[str, Dims]]:
    """The dimensions of every variable that must be there, by group."""
    cells: Dims = ("state",) if posterior.model.reward.on == "state" else ("state", "action")
    likelihood = posterior.data["log_likelihood"].dataset["choices"].dims[2:]
    if likelihood not in ((), ("task",), ("episode",)):
        raise InputError(f"its log-likelihood has the dimensions {likelihood}")
    everywhere: dict[str, dict[str, Dims]] = {
        "observed_data": {"counts": ("task", "state", "action")},
        "log_likelihood": {"choices": ("chain", "draw", *map(str, likelihood))},
        "prior": {"reward": ("chain", "draw", *cells)},
    }
    found = posterior.stored_dims(coordinates, sizes)
    return everywhere | found | {"prior": everywhere["prior"] | found.get("prior", {})}


def _check_variable(values: xr.DataArray, where: str, dims: Dims, sizes: dict[str, int], available: np.ndarray) -> None:
    """Dimensions, lengths and numbers; none missing but where there is no such action or effect."""
    if values.dims != dims:
        raise InputError(f"{where!r} has the dimensions {values.dims}, not {dims}")
    for dim, size in values.sizes.items():
        if size == 0 or size != sizes.get(str(dim), size):
            raise InputError(f"{where!r} has {size} entries along {dim!r}")
    if values.dtype.kind not in "iuf":
        raise InputError(f"{where!r} has no numbers")
    if is_computed(values):  # from weights, which are in the file
        return
    array = values.values
    if dims[-2:] == ("state", "action"):
        array = array[..., available]
    if str(values.name).endswith(EFFECTS):  # a term that is not in this parameter's formula has no draws at all
        array = array[:, :, ~np.isnan(array).all(axis=(0, 1))]
    wrong = np.isnan(array) if values.name in UNBOUNDED else ~np.isfinite(array)
    if wrong.any():
        raise InputError(f"{where!r} has {wrong.sum():,} values that are nan or infinite")


def _check_choices(posterior: Posterior) -> None:
    """Raise unless the choices are those that were counted; files of version 0.1 may hold the counts only."""
    counts = posterior.data["observed_data"].dataset["counts"].values
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise InputError("its counts of choices are not counts")
    if GROUP not in posterior.data.children:
        return
    found = posterior.demonstrations
    inside = (found.next_state >= -1) & (found.next_state < len(found.states))
    inside &= (found.episode >= 0) & (found.episode < len(found.episodes))
    if not inside.all() or not np.array_equal(found.counts, counts) or found.visits.sum() != len(found.state):
        raise InputError("its choices are not those that were counted")
