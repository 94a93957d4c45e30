"""What a careful statistician would say of a fit: mixing, and what the data left as the prior had it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import special

from manymotives.errors import quoted

RHAT = 1.01  # Vehtari et al. 2021
EFFECTIVE = 400.0  # draws, bulk and tail: what R-hat and intervals need
TASKS_AT_A_TIME = 100
# From so many chains on, R-hat is the nested one of so many superchains. Its limit is the same: √(1 + B/W) ≤ 1.01 says
# that the means of superchains vary by at most 2 % of the posterior's variance, as they do when each superchain is
# worth 50 independent draws or more, however few of them each of its chains has made.
MANY_CHAINS, SUPERCHAINS = 64, 16
UNMOVED = 0.1  # prior sds that a mean may move, and share that an sd may change, for a reward to count as unlearnt
UNIDENTIFIED = 0.9  # of the standard deviation before the data
UPPER = 0.95  # quantile of a spread that is said to be its upper end
NEAR_ZERO = 0.05  # prior probability of what counts as a spread of zero


class Mixing(NamedTuple):
    """How well chains have mixed: the worst of all quantities, and what is to be said of it."""

    warnings: tuple[str, ...]
    rhat: float = float("nan")
    bulk: float = float("nan")  # effective draws
    tail: float = float("nan")

    @property
    def effective(self) -> float:
        """Effective draws, in the bulk and in the tails."""
        return min(self.bulk, self.tail)

    def __str__(self) -> str:
        # estimates of R-hat may lie below 1, which no limit does
        agree = f"R-hat ≤ {max(self.rhat, 1.0):.3f}, " if np.isfinite(self.rhat) else ""
        return f"{agree}effective draws ≥ {self.bulk:.0f} (bulk) and {self.tail:.0f} (tails), for every quantity"


def mixing(posterior: xr.Dataset, remedy: str = "Raise `thin` or `draws`.") -> Mixing:
    """R-hat and effective sample sizes of everything, the worst by name."""
    from arviz_stats import ess, rhat  # takes half a second to import, and no chain waits for it

    # rewards made of features follow from their weights, and are constant where all features are 0
    watched = posterior.drop_vars("reward") if {"weight", "reward"} <= set(posterior.data_vars) else posterior
    if posterior.sizes["draw"] < 4:
        return Mixing(
            (f"{posterior.sizes['draw']} draws per chain are too few to assess whether the chains have mixed.",)
        )
    found = []
    for name in ("weight", "reward"):
        if name in watched and _stands_still(watched[name]):
            found.append(
                f"a chain did not move at all in some {name}s: every proposal was rejected. Use a longer warm-up."
            )
    figures = {"rhat": float("nan")}
    with np.errstate(invalid="ignore", divide="ignore"):  # of what does not vary
        if watched.sizes["chain"] > 1:
            diagnostic = nested_rhat if watched.sizes["chain"] >= MANY_CHAINS else rhat
            worst, quantity, bad, count = _worst(_piecewise(diagnostic, watched), largest=True, limit=RHAT)
            figures["rhat"] = worst
            if not worst <= RHAT:
                found.append(
                    f"the chains disagree: R-hat is {worst:.3f} for {quantity}, and above {RHAT} for {bad} of "
                    f"{count} quantities. Do not rely on these. {remedy}"
                )
        for kind in ("bulk", "tail"):
            worst, quantity, bad, count = _worst(_piecewise(ess, watched, method=kind), largest=False, limit=EFFECTIVE)
            figures[kind] = worst
            if not worst >= EFFECTIVE:
                found.append(
                    f"few independent draws: the {kind} effective sample size is {worst:.0f} for {quantity}, and below "
                    f"{EFFECTIVE:.0f} for {bad} of {count} quantities. {remedy}"
                )
    return Mixing(tuple(found), **figures)


def remedy(method: Any, made: int) -> str:
    """What gives chains of a method more draws, where each has made so many: what ended the run must be raised."""
    if not hasattr(method, "max_rounds"):
        return "Raise `thin` or `draws`."
    if getattr(method, "device", None) is not None or method.draws is None:
        return "Raise `draws`."
    return "Raise `max_rounds`, or `draws`." if made >= method.draws * method.max_rounds else "Let the run continue."


def _stands_still(values: xr.DataArray) -> bool:
    """Whether a chain has one value of something throughout, though it could have others."""
    if not bool((values.max("draw") == values.min("draw")).any()):  # an sd of equal numbers is rarely 0: rounding
        return False
    first = values.isel({dim: 0 for dim in values.dims if dim not in ("state", "action", "feature")})
    is_the_whole_unit = int(first.notnull().sum()) == 1 and float(first.max()) == 1.0  # a share of one among one
    return not is_the_whole_unit


def parts_of(posterior: xr.Dataset, *, shared_first: bool = False) -> list[xr.Dataset]:
    """What all tasks share, then some tasks at a time; or all at once, where tasks are few, unless `shared_first`."""
    if posterior.sizes.get("task", 0) <= TASKS_AT_A_TIME and not shared_first:
        return [posterior]
    shared = posterior[[name for name in posterior.data_vars if "task" not in posterior[name].dims]]
    each = posterior.drop_vars(shared.data_vars)
    begins = range(0, posterior.sizes.get("task", 0), TASKS_AT_A_TIME)
    return [shared, *(each.isel(task=slice(begin, begin + TASKS_AT_A_TIME)) for begin in begins)]


def nested_rhat(draws: xr.Dataset, superchains: int = SUPERCHAINS) -> xr.Dataset:
    """Nested R-hat (Margossian et al. 2022) of each variable: for many chains, too short to be compared one by one.

    Neighbouring chains form superchains, which should have begun each at a point of its own and all of its chains
    there, as those of `HMC(device=...)` do: then superchains that differ have not forgotten where they began. B is the
    variance of their means; W, the mean over superchains of the variance between and within their chains. Of the draws
    themselves, not of their ranks.
    """

    def of(values: np.ndarray) -> np.ndarray:
        """[...] of values [..., chain, draw]."""
        chains = np.array_split(np.arange(values.shape[-2]), superchains)
        means = values.mean(axis=-1)
        spread = values.var(axis=-1, ddof=1)
        within = sum(means[..., k].var(axis=-1, ddof=1) + spread[..., k].mean(axis=-1) for k in chains) / superchains
        between = np.stack([means[..., k].mean(axis=-1) for k in chains]).var(axis=0, ddof=1)
        return np.asarray(np.sqrt(1.0 + between / within))

    return xr.apply_ufunc(of, draws, input_core_dims=[["chain", "draw"]])


def largest_rhat(draws: xr.Dataset) -> float:
    """The largest rank-normalised split R-hat (Vehtari et al. 2021), of all variables at once.

    ArviZ takes a millisecond for each quantity, as long as a chain does for a draw; `fit` looks often.
    """
    from scipy.stats import rankdata

    chains, length = draws.sizes["chain"], draws.sizes["draw"]
    half = length // 2
    if half < 2 or chains >= MANY_CHAINS:
        return float("nan")
    watched = draws.drop_vars("reward") if {"weight", "reward"} <= set(draws.data_vars) else draws
    flat = [values.transpose("chain", "draw", ...).values.reshape(chains, length, -1) for values in watched.values()]
    every = np.concatenate(flat, axis=2).astype(float)
    split = np.concatenate([every[:, :half], every[:, length - half :]])  # [2 chain, draw / 2, quantity]
    folded = np.abs(split - np.median(split, axis=(0, 1)))
    largest = 1.0
    with np.errstate(invalid="ignore", divide="ignore"):  # of what does not vary
        for values in (split, folded):
            ranks = rankdata(values.reshape(-1, values.shape[2]), axis=0).reshape(values.shape)
            z = special.ndtri((ranks - 0.375) / (2 * chains * half + 0.25))
            between, within = half * z.mean(axis=1).var(axis=0, ddof=1), z.var(axis=1, ddof=1).mean(axis=0)
            found = np.sqrt((between / within + half - 1) / half)
            varies = np.isfinite(values).all(axis=(0, 1)) & (values.max(axis=(0, 1)) > values.min(axis=(0, 1)))
            largest = max(largest, *found[varies], 1.0)
    return float(largest)


def visit_warnings(counts: xr.DataArray, lives: np.ndarray, has_features: bool = False) -> tuple[str, ...]:
    """States in which nobody was ever seen to choose, though one can (`lives` [S]), and tasks that never chose."""
    found = []
    never = _never(counts, lives)
    if len(never):
        found.append(
            f"nobody made a choice in {len(never)} of {int(lives.sum())} states ({_listed(never)}): their rewards "
            f"are known only through {'their features' if has_features else 'choices that lead to them'}."
        )
    silent = _silent(counts)
    if len(silent):
        found.append(f"no choices were recorded for {_listed(silent)}: their posterior is the population's.")
    return tuple(found)


def policy_warnings(counts: xr.DataArray, lives: np.ndarray) -> tuple[str, ...]:
    """The same where policies are inferred first: without choices in a state, its policy is the prior's."""
    found = []
    never = _never(counts, lives)
    if len(never):
        found.append(
            f"nobody made a choice in {len(never)} of {int(lives.sum())} states ({_listed(never)}): policies "
            "there are those of the prior, and enter as such into the losses."
        )
    unseen = (counts.sum("action") == 0).values & lives  # [M, S]
    unseen &= ~np.isin(counts["state"].values, never)
    some = np.flatnonzero(unseen.any(axis=1))
    if len(some):
        worst = some[np.argmax(unseen[some].sum(axis=1))]
        states = counts["state"].values[unseen[worst]]
        found.append(
            f"{len(some)} of {len(unseen)} tasks made no choices in states where others did; their policies there "
            f"are those of the prior. This concerns {str(counts['task'].values[worst])!r} most, in "
            f"{_counted(states, 'state')}."
        )
    return tuple(found)


def _never(counts: xr.DataArray, lives: np.ndarray) -> np.ndarray:
    return counts["state"].values[(counts.sum(("task", "action")) == 0).values & lives]


def _silent(counts: xr.DataArray) -> np.ndarray:
    return counts["task"].values[(counts.sum(("state", "action")) == 0).values]


def learning_warnings(drawn: xr.Dataset, prior: xr.Dataset) -> tuple[str, ...]:
    """Features, or else states, whose weight or reward is, for every task, still distributed as before the data."""
    if "weight" in drawn:
        unmoved = _unmoved(drawn["weight"], prior["weight"])
        features = drawn["feature"].values[unmoved.all([dim for dim in unmoved.dims if dim != "feature"]).values]
        if not len(features):
            return ()
        return (
            f"the data carry almost no information about the weight of {len(features)} of "
            f"{drawn.sizes['feature']} features ({_listed(features)}): the posterior is close to the prior.",
        )
    reward = drawn["reward"]
    unmoved, exists = _unmoved(reward, prior["reward"]), reward.notnull().all(("chain", "draw"))
    others = [dim for dim in unmoved.dims if dim != "state"]
    states = reward["state"].values[(unmoved | ~exists).all(others).values & unmoved.any(others).values]
    if not len(states):
        return ()
    return (
        f"the data carry almost no information about the reward of {len(states)} of {reward.sizes['state']} "
        f"states ({_listed(states)}): the posterior is close to the prior.",
    )


def discount_warnings(drawn: xr.Dataset, prior: xr.Dataset) -> tuple[str, ...]:
    """Whose discount, where it is inferred, is about as uncertain as before the data."""
    if "discount" not in drawn:
        return ()
    own, before = drawn["discount"].std(("chain", "draw")), float(prior["discount"].std())
    wide = np.atleast_1d(own.values > UNIDENTIFIED * before)
    if before == 0.0 or not wide.any():
        return ()
    whose = ""
    if not wide.all():
        whose = f" of {int(wide.sum())} of {len(wide)} tasks ({_listed(drawn['task'].values[wide])})"
    return (
        f"the discount{whose} is not identified: its posterior is about as wide as its prior (standard deviation "
        f"{float(np.median(np.atleast_1d(own.values)[wide])):.2g}, under the prior {before:.2g}). Conclusions "
        "about it rest on the prior; mm.profile shows which discounts explain the choices equally well.",
    )


def spread_notes(drawn: xr.Dataset, prior: xr.Dataset) -> tuple[str, ...]:
    """What choices do not show subjects to differ in: scales of a population that are more probably near zero.

    Near zero is below the prior's quantile of NEAR_ZERO. Where the posterior has more probability there than the prior
    had, the Savage–Dickey ratio of a scale of zero is above 1. That is often no evidence that subjects are alike, so
    the upper end of the scale's posterior is said as well.
    """
    alike: list[str] = []
    largest = 0.0
    for name, what in (("reward_scale", ""), ("inverse_temperature_scale", "the inverse temperature")):
        if name not in drawn or "task" in drawn[name].dims:
            continue
        limit = prior[name].quantile(NEAR_ZERO, ("chain", "draw"), skipna=False)
        near = (drawn[name] < limit).mean(("chain", "draw"))
        stacked = near.where(limit.notnull()).stack(cell=near.dims) if near.dims else near.expand_dims("cell")
        upper = np.atleast_1d(drawn[name].quantile(UPPER, ("chain", "draw"), skipna=False).values).ravel()
        for cell in np.flatnonzero(stacked.values > NEAR_ZERO):
            label = stacked["cell"].values[cell] if near.dims else ()
            named = ", ".join(str(part) for part in (label if isinstance(label, tuple) else (label,)))
            of = "the weight of" if "weight" in drawn else "the reward of"
            alike.append(what or (f"{of} {named!r}" if named else "rewards"))
            largest = max(largest, float(upper[cell]))
    if not alike:
        return ()
    beyond = ", beyond what covariates explain" if "reward_effect" in drawn or "weight_effect" in drawn else ""
    return (
        f"the data do not show whether subjects differ in {', '.join(alike[:8])}{', …' if len(alike) > 8 else ''}"
        f"{beyond}: "
        f"their standard deviation{'s' if len(alike) > 1 else ''} in the population may be nearly zero, or up to "
        f"{largest:.2g} (95 % quantile).",
    )


def _unmoved(values: xr.DataArray, prior: xr.DataArray) -> xr.DataArray:
    """Whether draws are distributed as those of the prior, judged by mean and sd."""
    over = ("chain", "draw")  # rewards of actions that are not available are NaN throughout
    mean, sd = values.mean(over, skipna=False), values.std(over, skipna=False)
    prior_mean, prior_sd = prior.mean(over, skipna=False), prior.std(over, skipna=False)
    with np.errstate(divide="ignore", invalid="ignore"):  # what does not vary has been learnt, or was known
        return (abs(mean - prior_mean) < UNMOVED * prior_sd) & (abs(np.log(sd / prior_sd)) < UNMOVED)


def _piecewise(diagnostic: Callable[..., xr.Dataset], draws: xr.Dataset, **options: str) -> xr.Dataset:
    """A diagnostic of all variables, some tasks at a time: ArviZ makes several copies of what it is given."""
    shared, *some = parts_of(draws)
    if not some:
        return diagnostic(shared, **options)
    found = xr.concat([diagnostic(part, **options) for part in some], dim="task")
    return xr.merge([found, diagnostic(shared, **options)]) if shared.data_vars else found


def _worst(values: xr.Dataset, *, largest: bool, limit: float) -> tuple[float, str, int, int]:
    """The worst value, where it is, how many lie beyond the limit, of how many; constants do not count."""
    extreme, quantity, bad, count = (-np.inf if largest else np.inf), "nothing", 0, 0
    for name, array in values.data_vars.items():
        flat = array.values.ravel()
        known = ~np.isnan(flat)  # infinite: chains stand still, each elsewhere
        count += int(known.sum())
        if not known.any():
            continue
        bad += int(((flat > limit) if largest else (flat < limit))[known].sum())
        index = int(np.nanargmax(flat) if largest else np.nanargmin(flat))
        if (flat[index] > extreme) if largest else (flat[index] < extreme):
            extreme = float(flat[index])
            where = np.unravel_index(index, array.shape)
            labels = ", ".join(f"{dim} {array[dim].values[i]}" for dim, i in zip(array.dims, where))
            quantity = f"{str(name).replace('_', ' ')} ({labels})" if labels else str(name).replace("_", " ")
    if count == 0:
        extreme = 1.0 if largest else np.inf
    return extreme, quantity, bad, count


def _counted(names: np.ndarray, word: str) -> str:
    return f"{len(names)} {word}{'s' if len(names) > 1 else ''} ({_listed(names)})"


def _listed(names: Iterable[object], most: int = 8) -> str:
    names = list(names)
    return ", ".join(_quoted(names[:most])) + (", …" if len(names) > most else "")


def _quoted(names: Iterable[object]) -> Iterator[str]:
    return (quoted(str(name)) for name in names)
