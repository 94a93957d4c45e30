"""Motives that switch, on the command line: options, what was found in a few lines, and as tables."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pandas as pd

from manymotives.commands.ranking import ranked, wanted
from manymotives.errors import InputError, quoted
from manymotives.models.switching import MOST_MOTIVES, StickBreaking, Switching
from manymotives.posterior import SwitchingPosterior

MOST = 250_000  # rows of a table of transition probabilities; beyond, one must choose
AUTO = "auto"  # --switching: their number is inferred
SWITCHES = ("hmc", "gibbs", "metropolis", "empirical-bayes")  # methods that can fit motives that switch
NOT_SWITCHING = ("mpo", "mixture")  # models


class SwitchingBy(StrEnum):
    everywhere = "everywhere"
    state = "state"


def asked_switching(model: str, method: str | None, count: str | None, by: SwitchingBy | None) -> Switching | None:
    """How many motives, and what switching depends on; None where each subject has one motive for good."""
    if count is None:
        if by is not None:
            raise InputError("--switching-by needs a number of motives: add --switching 3, say.")
        return None
    if model in NOT_SWITCHING:
        raise InputError(f"--switching is not available for the model {model}. Choose mrp, rp or separate.")
    if method is not None and method not in SWITCHES:
        raise InputError(
            f"--method {method} cannot fit motives that switch: choose {', '.join(SWITCHES[:-1])} or {SWITCHES[-1]}."
        )
    if count != AUTO and not (count.isdecimal() and 1 <= int(count) <= MOST_MOTIVES):
        raise InputError(
            f'--switching must be a number of motives from 1 to {MOST_MOTIVES}, or "{AUTO}"; found {quoted(count)}.'
        )
    return Switching(StickBreaking() if count == AUTO else int(count), by=(by or SwitchingBy.everywhere).value)


def switching_said(switching: Switching | None) -> str:
    """The same in a sentence."""
    if switching is None:
        return ""
    where = (
        "with a probability that depends on the state"
        if switching.by == "state"
        else "with the same probability everywhere"
    )
    return f", {switching.number_said} motives, switching {where},"


def wanted_most(posterior: SwitchingPosterior) -> list[dict[str, Any]]:
    """Of each motive (of each subject, where motives are its own): what it wants most, its share of steps."""
    reward, share = posterior.weights if posterior.has_features else posterior.rewards, posterior.shares()
    if posterior.model.is_hierarchical:
        reward = reward.mean("task")
    if "task" not in reward.dims:  # of all subjects, each with as many steps as it has
        steps = posterior.switches().set_index("task")["steps"]
        whole = share.assign(mean=share["mean"] * share["task"].map(steps)).groupby("motive")["mean"].sum()
        used: list[Any] = [(None, k, value) for k, value in enumerate(whole / steps.sum())]
    else:
        used = share[["task", "motive", "mean"]].to_numpy().tolist()
    found = []
    for task, motive, value in used:
        here = reward.sel(motive=motive) if task is None else reward.sel(motive=motive, task=task)
        (best, *close), _ = ranked(posterior, here)
        told: dict[str, Any] = {} if task is None else {"subject": str(task)}
        told |= {"motive": int(motive), "wants_most": best, "share": round(float(value), 4)}
        found.append(told | ({"too_close_to_tell": close} if close else {}))
    return found


def lines(posterior: SwitchingPosterior) -> list[str]:
    """The same for people."""
    return [
        f"  {row['subject'] + ', ' if 'subject' in row else ''}motive {row['motive']}: wants most {wanted(row)}; "
        f"{row['share']:.0%} of the steps"
        for row in wanted_most(posterior)
    ]


def tables(
    posterior: SwitchingPosterior,
    level: float,
    tasks: list[Any] | None,
    states: list[Any] | None,
    features: list[Any] | None,
) -> dict[str, Callable[[], pd.DataFrame]]:
    """What is said of motives, by name: what each wants, when it is active, how subjects switch."""
    model = posterior.model
    own: dict[str, Any] = {} if model.is_pooled else {"tasks": tasks}
    wanted: dict[str, Callable[[], pd.DataFrame]] = {}
    if posterior.has_features:
        wanted["motive_weights"] = lambda: posterior.to_frame(of="feature", features=features, level=level, **own)
    wanted |= {
        "motive_rewards": lambda: posterior.to_frame(of="state", states=states, level=level, **own),
        "motive_shares": lambda: _of(posterior.shares(level), tasks),
        "motive_probabilities": lambda: _of(posterior.motives_frame(), tasks).assign(kind="smoothed"),
        "motive_transitions": lambda: _transitions(posterior, level, tasks, states),
        "motive_switches": lambda: _of(posterior.switches(level), tasks),
    }
    assert model.switching is not None
    if model.switching.by == "state":
        wanted["leaving_by_state"] = lambda: _of(_of(posterior.leaving(level), tasks), states, "state")
    wanted["motive_policies"] = lambda: _policies(posterior, tasks, states)
    return wanted


def _transitions(
    posterior: SwitchingPosterior, level: float, tasks: list[Any] | None, states: list[Any] | None
) -> pd.DataFrame:
    rows = posterior.data["posterior"].dataset["motive_transition"].sizes
    count = rows["motive"] ** 2 * rows.get("task", 1) * rows.get("state", 1)
    if count > MOST:
        raise InputError(f"the table would have {count:,} rows; in Python, posterior.transitions() returns it.")
    return _of(_of(posterior.transitions(level), tasks), states, "state")


def _policies(posterior: SwitchingPosterior, tasks: list[Any] | None, states: list[Any] | None) -> pd.DataFrame:
    """What is best for each motive, where it has a choice."""
    best = posterior.policies()
    table = best.to_series().rename("best").reset_index()
    exists = posterior.environment.available.ravel().tolist()
    table = table[exists * (len(table) // len(exists))]
    return _of(_of(table, tasks), states, "state").reset_index(drop=True)


def _of(table: pd.DataFrame, names: list[Any] | None, column: str = "task") -> pd.DataFrame:
    """Only rows of these names, where there are such; all where none are given."""
    if names is None or column not in table:
        return table
    return table[table[column].astype(str).isin([str(name) for name in names])].reset_index(drop=True)
