"""A specimen in; its model and a method in the library's words, and plain arrays of what the library drew."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from zoo_checks import Sampled
from zoo_oracle import PARAMETERS, Distribution, Draws, Model, first_cells, rewards_of_pairs
from zoo_specimens import Specimen

LAPLACE = "Laplace"  # HMC around a Laplace approximation, which large models have


def library_model(model: Model) -> Any:
    """The same model in the library's words."""
    import manymotives as mm

    def prior(value: Any) -> Any:
        if not isinstance(value, Distribution):
            return value
        return getattr(mm, value.kind)(*map(prior, value.parameters))

    first, second = (*model.reward.parameters, None)[:2]
    reward: Any
    if model.smooth is not None:
        reward = _smooth_reward(model.smooth, prior)
    elif model.is_dirichlet:
        reward = mm.DirichletReward(concentration=prior(first), on=model.on)
    elif model.reward.kind == "Beta":
        reward = mm.BetaReward(alpha=prior(first), beta=prior(second), on=model.on)
    else:
        reward = mm.GaussianReward(features=model.features, mean=prior(first), scale=prior(second), on=model.on)
    rule = mm.SoftOptimal if model.foresees_errors else mm.Softmax
    choice = rule(inverse_temperature=prior(model.inverse_temperature), lapse=prior(model.lapse))
    ahead: Any = {"discount": prior(model.discount), "depth": model.depth}
    return mm.RewardPolicyModel(reward, choice, getattr(mm, model.sharing)(), **ahead)


def _smooth_reward(smooth: Any, prior: Any) -> Any:
    import manymotives as mm

    graph = None
    if smooth.is_given:
        graph = sp.csr_array(smooth.weights) if smooth.is_sparse else smooth.weights
    return mm.SmoothReward(prior(smooth.scale), prior(smooth.range), mean=smooth.mean, basis=smooth.basis, graph=graph)


def library_method(name: str, chains: int, draws: int, warmup: int, thin: int) -> Any:
    import manymotives as mm

    size = {"chains": chains, "draws": draws, "warmup": warmup, "thin": thin}
    if name == "JAX":
        return mm.HMC(**size, max_rounds=1, device="cpu")
    return mm.HMC(**size, max_rounds=1) if name in ("HMC", LAPLACE) else getattr(mm, name)(**size)


@contextmanager
def taken_for_large(is_so: bool) -> Iterator[None]:
    """HMC as in large environments, and with many coordinates."""
    from manymotives.inference.mcmc import laplace_chains

    before = laplace_chains.MANY_COORDINATES
    laplace_chains.MANY_COORDINATES = 0 if is_so else before
    try:
        yield
    finally:
        laplace_chains.MANY_COORDINATES = before


def sample(one: Specimen, method: Any, seed: int) -> Sampled:
    """Fit, and take out of the posterior what is checked."""
    import manymotives as mm

    world = one.world
    terminal = np.flatnonzero(world.is_terminal).tolist()
    available = world.available | world.is_terminal[:, None]
    tasks = [task for task, _, _ in one.episodes]
    if world.names is None:
        environment = mm.Environment(world.transitions, discount=world.discount, available=available, terminal=terminal)
        walks = [(states, actions) for _, states, actions in one.episodes]
        demonstrations = mm.Demonstrations.from_lists(walks, environment, tasks=tasks)
    else:
        environment, demonstrations = _in_several(one, available)
    posterior = mm.fit(library_model(one.model), environment, demonstrations, method, seed=seed, progress=False)
    return taken_from(one, posterior)


def _in_several(one: Specimen, available: np.ndarray) -> tuple[Any, Any]:
    """Two environments by name, and the choices in them."""
    import manymotives as mm

    world, names, cut = one.world, one.world.names, one.world.first_of_second
    parts = {}
    for name, here in (("A", slice(0, cut)), ("B", slice(cut, None))):
        called = list(names[here])
        parts[name] = mm.Environment(
            world.transitions[here, :, here],
            discount=world.discount,
            states=called,
            available=available[here],
            terminal=[state for state, ends in zip(called, world.is_terminal[here]) if ends],
        )
    demonstrations = mm.Demonstrations.from_lists(
        [([names[s] for s in states], actions) for _, states, actions in one.episodes],
        parts,
        tasks=[task for task, _, _ in one.episodes],
        environments=["A" if states[0] < cut else "B" for _, states, _ in one.episodes],
    )
    return mm.Environments(parts), demonstrations


def taken_from(one: Specimen, posterior: Any) -> Sampled:
    """Plain arrays from a posterior's groups."""
    world, model = one.world, one.model
    drawn = posterior.data["posterior"].dataset
    chains = drawn.sizes["chain"]
    size = chains * drawn.sizes["draw"]

    def block(name: str, *behind: str) -> np.ndarray:
        """[n, M, ...]"""
        values = drawn[name] if "task" in drawn[name].dims else drawn[name].expand_dims("task")
        values = values.transpose("chain", "draw", "task", *behind)
        return values.values.reshape(size, *values.shape[2:])

    dims = ("state",) if model.on == "state" else ("state", "action")
    place = first_cells(world, model)
    cells = np.arange(len(world.available)) if model.on == "state" else np.flatnonzero(world.available)
    reward = block("reward", *dims)
    flat = reward.reshape(*reward.shape[:2], -1)[..., place]
    tasks = reward.shape[1]
    if model.features is None:
        coordinates = flat
    else:
        coordinates = block("weight", "feature")
        shown = rewards_of_pairs(world, model, coordinates)
        shown = shown[..., 0] if model.on == "state" else shown.reshape(*shown.shape[:2], -1)[..., cells]
        if not np.allclose(
            shown, reward.reshape(*reward.shape[:2], -1)[..., cells], rtol=1e-10, atol=1e-10 * np.abs(coordinates).max()
        ):
            raise AssertionError("rewards are not the weighted sums of their features")
    if model.on == "state":
        rewards = np.repeat(reward[..., None], world.available.shape[1], axis=-1)
    else:
        rewards = np.where(world.available, reward, 0.0)
    if model.features is None and not np.array_equal(rewards, rewards_of_pairs(world, model, coordinates)):
        raise AssertionError("rewards of one name differ")
    rule = [
        block(name) if isinstance(value, Distribution) else np.full((size, tasks), float(value))
        for name, value in (("inverse_temperature", model.inverse_temperature), ("lapse", model.lapse))
    ]
    hyperparameters = {}
    for name, distribution in (
        ("reward", model.reward),
        ("inverse_temperature", model.inverse_temperature),
        ("lapse", model.lapse),
        ("discount", model.discount),
    ):
        if not isinstance(distribution, Distribution):
            continue
        words = model.words if name == "reward" else PARAMETERS[distribution.kind]
        for word, parameter in zip(words, distribution.parameters):
            if isinstance(parameter, Distribution):
                behind = () if name != "reward" else dims if model.features is None else ("feature",)
                values = block(f"{name}_{word}", *behind)
                if name == "reward" and model.features is None:
                    values = values.reshape(*values.shape[:2], -1)[..., place]
                hyperparameters[f"{name}_{word}"] = values
    if model.smooth is not None:
        for name in ("reward_mean", "reward_scale", "reward_range"):
            if name in drawn:
                hyperparameters[name] = block(name, *(("state",) if name == "reward_mean" else ()))
        fields = [coordinates, *(hyperparameters[name] for name in hyperparameters if name == "reward_mean")]
        if max(map(model.smooth.outside_span, fields)) > 1e-12:
            raise AssertionError("rewards are not sums of the smoothest eigenvectors")
    discounts = None if model.discount is None else block("discount")
    likelihood = posterior.data["log_likelihood"].dataset["choices"].transpose("chain", "draw", "episode")
    return Sampled(
        chains,
        Draws(rewards, coordinates, rule[0], rule[1], hyperparameters, discounts),
        likelihood.values.reshape(size, -1),
        posterior.data["sample_stats"].dataset["lp"].transpose("chain", "draw").values.ravel(),
    )
