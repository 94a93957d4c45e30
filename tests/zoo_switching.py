"""Models at random whose motives switch; every method on each, held against a recomputation and against each other.

    python tests/zoo_switching.py --models 60 --seed 0
    python tests/zoo_switching.py --seed 0 --only 17

World, rewards, choice rule and sharing are those of the zoo (`zoo_specimens.py`); 1 to 4 motives, κ and ν from nothing
to huge, known or not; episodes with gaps, with actions that nobody noted, of one step. Posteriors are the same for
every order of motives: methods are compared by the least and the most over motives of each quantity.
"""

import argparse
import itertools
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from zoo_checks import FALSE_ALARM, LARGEST_Z, TOLERANCE, _most_extreme, _selected, compare
from zoo_library import library_method, library_model
from zoo_oracle import PARAMETERS, Distribution, Draws, log_prior, prior_draws, rewards_of_pairs, variables
from zoo_specimens import Specimen, specimen

METHODS = ("HMC", "Gibbs", "Metropolis")
CHECKED = 12  # draws whose densities are recomputed
EVIDENCE = 100  # prior draws from which the evidence is bounded
MOST_CHOICES = 120  # of all tasks
LONGER = 4  # how many times as long the runs are that decide on a disagreement
STICKINESS = (0.0, 1e-6, 3.0, 1e8, Distribution("Gamma", (1.0, 0.1)), Distribution("LogNormal", (0.0, 1.0)))
CONCENTRATION = (0.02, 3.0, 1e7, Distribution("Gamma", (1.0, 0.1)), Distribution("HalfNormal", (5.0,)))


@dataclass(frozen=True)
class SwitchingSpecimen:
    """A specimen of the zoo with motives that switch, and its choices as a table."""

    base: Specimen
    motives: int
    by: str
    stickiness: Any
    concentration: Any
    table: pd.DataFrame  # task, episode, step, state, action (−1: not noted)

    def __str__(self) -> str:
        return (
            f"{self.motives} motives by {self.by}, κ = {self.stickiness}, ν = {self.concentration}; {self.base}; "
            f"{len(self.table)} rows, {int((self.table.action < 0).sum())} without action"
        )


def switching_specimen(seed: int, index: int) -> SwitchingSpecimen:
    """Number `index` of the zoo with this seed."""
    base, rng = specimen(seed, index), np.random.default_rng([seed, index, 7])
    base = replace(base, model=replace(base.model, discount=None, depth=None))  # neither where motives switch
    gaps, missing, short = rng.choice([0.0, 0.1]), rng.choice([0.0, 0.0, 0.2]), rng.random() < 0.2
    rows: list[tuple[int, int, int, int, int]] = []
    most = -(-MOST_CHOICES // base.num_tasks)
    made = dict.fromkeys(range(base.num_tasks), 0)
    for episode, (task, states, actions) in enumerate(base.episodes):
        step = 0
        for state, action in zip(states, [*actions, -1][: len(states)]):
            if made[task] >= most or (short and step >= 1):
                break
            step += 1 if rng.random() >= gaps else 3
            first = made[task] == 0  # without which, under Separate, nothing could be said of it
            rows.append((task, episode, step, state, -1 if not first and rng.random() < missing else action))
            made[task] += action >= 0
    pick = lambda options: options[rng.integers(len(options))]  # noqa: E731
    return SwitchingSpecimen(
        base=base,
        motives=int(rng.choice([1, 2, 2, 3, 4])),
        by=str(rng.choice(["everywhere", "state"])),
        stickiness=pick(STICKINESS),
        concentration=pick(CONCENTRATION),
        table=pd.DataFrame(rows, columns=["task", "episode", "step", "state", "action"]),
    )


def fitted(one: SwitchingSpecimen, method: Any, seed: int) -> Any:
    """The library's posterior."""
    import manymotives as mm

    def prior(value: Any) -> Any:
        return getattr(mm, value.kind)(*value.parameters) if isinstance(value, Distribution) else value

    world, plain = one.base.world, library_model(one.base.model)
    environment = mm.Environment(
        world.transitions,
        discount=world.discount,
        available=world.available | world.is_terminal[:, None],
        terminal=np.flatnonzero(world.is_terminal).tolist(),
    )
    frame = one.table.assign(action=[None if a < 0 else a for a in one.table.action])
    frame["action"] = pd.Series(frame["action"], dtype="Int64")
    chosen = mm.Demonstrations.from_frame(frame, environment, episode="episode", step="step")
    switching = mm.Switching(
        one.motives, by=one.by, stickiness=prior(one.stickiness), concentration=prior(one.concentration)
    )
    model = mm.RewardPolicyModel(plain.reward, plain.choice, plain.sharing, switching)
    return mm.fit(model, environment, chosen, method, seed=seed, progress=False)


# ---- recomputation ---------------------------------------------------------------------------------------------


def draws_of(one: SwitchingSpecimen, posterior: Any) -> tuple[list[Draws], np.ndarray, np.ndarray]:
    """Draws of each motive as the oracle has them, and rows A [n, M, S, K, K] and B [n, M, S, K]."""
    world, model = one.base.world, one.base.model
    data = posterior.data["posterior"].dataset.stack(sample=("chain", "draw"))
    size, states = data.sizes["sample"], len(world.available)
    cells = ("state",) if model.on == "state" else ("state", "action")
    place = slice(None) if model.on == "state" else np.flatnonzero(world.available)

    def block(name: str, motive: int, *behind: str) -> np.ndarray:
        """[n, M or 1, ...]"""
        values = data[name].isel(motive=motive)
        values = values if "task" in values.dims else values.expand_dims("task")
        return values.transpose("sample", "task", *behind).values

    found = []
    for k in range(one.motives):
        if model.features is None:
            shown = block("reward", k, *cells)
            coordinates = shown.reshape(*shown.shape[:2], -1)[..., place]
        else:
            coordinates = block("weight", k, "feature")
        rule = [
            block(name, k) if isinstance(value, Distribution) else np.full(coordinates.shape[:2], float(value))
            for name, value in (("inverse_temperature", model.inverse_temperature), ("lapse", model.lapse))
        ]
        hyper = {}
        for name, distribution in (
            ("reward", model.reward),
            ("inverse_temperature", model.inverse_temperature),
            ("lapse", model.lapse),
        ):
            if isinstance(distribution, Distribution):
                words = model.words if name == "reward" else PARAMETERS[distribution.kind]
                for word, parameter in zip(words, distribution.parameters):
                    if isinstance(parameter, Distribution):
                        behind = () if name != "reward" else cells if model.features is None else ("feature",)
                        values = block(f"{name}_{word}", k, *behind)
                        if name == "reward" and model.features is None:
                            values = values.reshape(*values.shape[:2], -1)[..., place]
                        hyper[f"{name}_{word}"] = values
        found.append(Draws(rewards_of_pairs(world, model, coordinates), coordinates, *rule, hyper))

    def rows(name: str, *behind: str) -> np.ndarray:
        values = data[name]
        for dim in ("task", "state"):
            values = values if dim in values.dims else values.expand_dims(dim)
        values = values.transpose("sample", "task", "state", *behind).values
        return np.broadcast_to(values, (size, one.base.num_tasks, states, *values.shape[3:]))

    return found, rows("motive_transition", "motive", "next_motive"), rows("motive_start", "motive")


def log_likelihoods(one: SwitchingSpecimen, draws: list[Draws], moves: np.ndarray, start: np.ndarray) -> np.ndarray:
    """[n, E] with motives summed out, by the forward recursion in logarithms, step by step; gaps begin anew."""
    model, table = one.base.model, one.table
    policies = []
    for each in draws:
        size, tasks = each.inverse_temperatures.shape
        flat = each.rewards.reshape(size * tasks, *each.rewards.shape[2:])
        given = flat, each.inverse_temperatures.ravel(), each.lapses.ravel(), model.foresees_errors
        policies.append(one.base.world.log_policies(*given)[0].reshape(each.rewards.shape))
    log_policy = np.stack(policies, axis=1)  # [n, K, M or 1, S, A]
    episodes = list(dict.fromkeys(table.episode))
    found = np.zeros((len(moves), len(episodes)))
    with np.errstate(divide="ignore"):
        log_moves, log_start = np.log(moves), np.log(start)
    before, last = np.zeros((len(moves), one.motives)), (-1, -9, -1)
    for task, episode, step, state, action in table.itertuples(index=False):
        if last[:2] == (episode, step - 1):
            now = special.logsumexp(before[:, :, None] + log_moves[:, task, last[2]], axis=1)
        else:
            now = log_start[:, task, state]
        if action >= 0:
            now = now + log_policy[:, :, task if log_policy.shape[2] > 1 else 0, state, action]
        total = special.logsumexp(now, axis=1)
        if action >= 0:
            found[:, episodes.index(episode)] += total
        before, last = now - total[:, None], (episode, step, state)
    return found


def log_reach(one: SwitchingSpecimen, rng: np.random.Generator) -> float:
    """As `zoo_checks.log_reach`; rows are drawn around no parent, likelihoods are at most 1."""
    model, base = one.base.model, one.base
    draws = [prior_draws(base.world, model, base.num_tasks, EVIDENCE, rng) for _ in range(one.motives)]
    count, lead = one.motives, (EVIDENCE, base.num_tasks, len(base.world.available))
    uniform = np.full((*lead, count), 1.0 / count)
    likelihood = log_likelihoods(one, draws, np.full((*lead, count, count), 1.0 / count), uniform).sum(axis=1)
    return float(special.logsumexp(likelihood) - np.log(EVIDENCE) + np.log(FALSE_ALARM))


def problems_of(one: SwitchingSpecimen, posterior: Any, reach: float) -> dict[str, str]:
    """What is wrong with a posterior, by kind; empty if nothing is."""
    found: dict[str, str] = {}
    drawn = posterior.data["posterior"].dataset
    for name, values in drawn.data_vars.items():
        ordered = values.transpose(..., *(dim for dim in ("state", "action") if dim in values.dims))
        exists = posterior.environment.available if "action" in values.dims else True
        if not np.isfinite(ordered.values)[np.broadcast_to(exists, ordered.shape)].all():
            found["not finite"] = str(name)
    transition, start = drawn["motive_transition"], drawn["motive_start"]
    for rows, dim in ((transition, "next_motive"), (start, "motive")):
        if not (np.abs(rows.sum(dim) - 1) < 1e-9).all() or not ((rows > 0) & (rows <= 1)).all():
            found["outside the support"] = "rows of motives"
    for word in ("stickiness", "state_concentration", "task_concentration"):
        if word in drawn and not (drawn[word] > 0).all():
            found["outside the support"] = word
    choices = (
        posterior.data["log_likelihood"].dataset["choices"].stack(sample=("chain", "draw")).transpose("sample", ...)
    )
    if not (choices.values <= 0).all():
        found["log likelihood above 0"] = f"up to {float(choices.max()):.3g}"
    if found:
        return found
    draws, moves, begins = draws_of(one, posterior)
    for each in draws:
        extreme, what = _most_extreme(one.base.model, each)
        limit = reach - np.log(one.motives * sum(v.values.size for v in variables(one.base.model, each)))
        if extreme < limit:
            found["run away"] = f"{what}: log prior tail probability {extreme:.4g}, at least {limit:.4g} expected"
    which = np.unique(np.linspace(0, len(choices) - 1, CHECKED).astype(int))
    some = [_selected(each, which) for each in draws]
    expected = log_likelihoods(one, some, moves[which], begins[which])
    given = choices.values[which]
    if not (np.abs(given - expected) <= 10 * TOLERANCE * np.maximum(1.0, np.abs(expected))).all():
        found["log likelihood differs"] = f"by up to {np.abs(given - expected).max():.3g}"
    if not one.base.model.is_dirichlet:
        parts = [log_prior(one.base.model, each)[:2] for each in some]
        density = expected.sum(axis=1) + sum(part[0] for part in parts)
        doubt = sum(part[1] for part in parts) + 10 * TOLERANCE * np.maximum(1.0, np.abs(density))
        lp = posterior.data["sample_stats"].dataset["lp"].stack(sample=("chain", "draw")).values[which]
        checkable = np.isfinite(density) & (doubt < 1e-3 * np.maximum(1.0, np.abs(density)))
        apart, doubt = np.abs(lp - density)[checkable], doubt[checkable]
        if not (apart <= doubt).all():
            found["log density differs"] = f"by up to {apart.max():.3g}"
    return found


# ---- methods against each other --------------------------------------------------------------------------------


def quantities(posterior: Any) -> dict[str, np.ndarray]:
    """[chains, draws, Q] by name: what does not depend on the order of motives."""
    drawn = posterior.data["posterior"].dataset.fillna(0.0)
    made = {}
    stay = drawn["motive_transition"].where(drawn["motive"] == drawn["next_motive"]).max("next_motive")
    motives = {str(name): values for name, values in drawn.data_vars.items() if "motive" in values.dims}
    for name, values in (motives | {"motive_transition": stay}).items():
        made |= {f"{name}, least": values.min("motive"), f"{name}, most": values.max("motive")}
    made |= {str(name): values for name, values in drawn.data_vars.items() if "motive" not in values.dims}
    made |= {str(name): values for name, values in posterior.data["log_likelihood"].data_vars.items()}
    made["lp"] = posterior.data["sample_stats"]["lp"]
    found = {name: values.transpose("chain", "draw", ...).values for name, values in made.items()}
    return {name: values.reshape(*values.shape[:2], -1) for name, values in found.items()}


def examine(seed: int, index: int, size: dict[str, int], methods: tuple[str, ...] = METHODS) -> dict[str, Any]:
    """Problems by method, z by pair of methods, and what is still apart in longer runs."""
    one = switching_specimen(seed, index)
    record: dict[str, Any] = {"index": index, "model": str(one), "problems": {}, "z": {}}
    reach, drawn = log_reach(one, np.random.default_rng([seed, index, 1])), {}
    for number, name in enumerate(methods):
        posterior, record["problems"][name] = _run(one, name, size, reach, 1000 * index + number)
        if not record["problems"][name]:
            drawn[name] = quantities(posterior)
    suspects: dict[tuple[str, str], list[str]] = {}
    for pair in itertools.combinations(drawn, 2):
        found = compare(drawn[pair[0]], drawn[pair[1]])
        record["z"]["–".join(pair)] = found.z
        far = [name for name, z in zip(found.names, found.z) if abs(z) > LARGEST_Z]
        suspects |= {pair: far} if far else {}
    record["apart"] = _again(one, suspects, size, reach)
    return record


def _again(
    one: SwitchingSpecimen, suspects: dict[tuple[str, str], list[str]], size: dict[str, int], reach: float
) -> list[str]:
    """What methods still disagree on in runs that are longer, from other seeds."""
    longer = size | {"thin": LONGER * size["thin"], "warmup": 2 * size["warmup"]}
    drawn, said = {}, []
    for number, name in enumerate(dict.fromkeys(itertools.chain(*suspects))):
        posterior, problems = _run(one, name, longer, reach, 1000 * one.base.index + 500 + number)
        drawn[name] = None if problems else quantities(posterior)
        said += [f"{name}, longer: {problems}"] if problems else []
    for (first, second), far in suspects.items():
        ours, theirs = drawn[first], drawn[second]
        if ours is not None and theirs is not None:
            after = compare(ours, theirs)
            found = dict(zip(after.names, zip(after.z, after.means.tolist())))
            left = [(name, *found[name]) for name in far if not abs(found[name][0]) <= LARGEST_Z]
            said += [f"{first}–{second}: {name}: z = {z:.1f}, means {means}" for name, z, means in left]
    return said


def _run(
    one: SwitchingSpecimen, name: str, size: dict[str, int], reach: float, seed: int
) -> tuple[Any, dict[str, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = fitted(one, library_method(name, **size), seed)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return None, {"error": f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"}
    return posterior, problems_of(one, posterior, reach)


def is_bad(record: dict[str, Any]) -> bool:
    return any(record["problems"].values()) or bool(record["apart"])


def described(record: dict[str, Any]) -> str:
    lines = [f"model {record['index']}: {record['model']}"]
    lines += [
        f"    {name}: {kind}: {what}" for name, found in record["problems"].items() for kind, what in found.items()
    ]
    return "\n".join(lines + [f"    {each}" for each in record["apart"]])


def rms(records: list[dict[str, Any]]) -> tuple[float, int, int]:
    """Root mean square of z between methods, of how many quantities, and how many had not converged."""
    z = np.concatenate([z for record in records for z in record["z"].values()] or [np.zeros(0)])
    counted = z[np.isfinite(z)]
    return float(np.sqrt((counted**2).mean())), len(counted), len(z) - len(counted)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+")
    parser.add_argument("--draws", type=int, default=500)
    arguments = parser.parse_args()
    size = {"chains": 4, "draws": arguments.draws, "warmup": 250, "thin": 2}
    records, begin = [], time.monotonic()
    for index in arguments.only or range(arguments.models):
        records.append(examine(arguments.seed, index, size))
        if is_bad(records[-1]) or arguments.only:
            print(described(records[-1]), flush=True)
        value, count, lost = rms(records)
        print(
            f"{len(records)} models, {time.monotonic() - begin:.0f} s: rms z {value:.2f} of {count}, {lost} not mixed",
            flush=True,
        )
    bad = [record["index"] for record in records if is_bad(record)]
    print(f"{len(bad)} with problems: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
