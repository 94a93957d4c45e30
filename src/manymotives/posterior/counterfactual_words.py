"""A counterfactual in; sentences about whether it is identified, and about what would change most, out."""

from typing import Any

import numpy as np

from manymotives.planning.identifiability_words import named
from manymotives.posterior.changes import Change
from manymotives.posterior.shown_after import ShownAfter

FEW_DRAWS = 200  # fewer make the ends of intervals uncertain
ACTIONS = 2  # whose long-run shares are said: those that change most; of two, one alone would often be the common one


def identification_sentences(known: ShownAfter, change: Change, posterior: Any, visits: np.ndarray) -> tuple[str, ...]:
    """Whether choices could determine the answer, why not, and what else to be careful about."""
    if known.choices is None:
        return (
            f"Whether this question is identified was not computed, because {known.why_not}: parts of the answer may "
            "rest on the prior alone.",
        )
    place, said = change.place, []
    if known.choices:
        said.append(
            "This question is identified: rewards that imply the same choices in the environment of the fit also "
            "imply the same choices after the change."
        )
    else:
        where = [place.states[s] for s in np.flatnonzero(known.states)]
        everywhere = len(where) == int((place.available.sum(axis=1) > 0).sum())
        what = "in every state" if everywhere else f"in {named(where)}"
        said.append(
            f"This question is NOT identified: choices after the change {what} depend in part on the prior, "
            "however many choices are observed."
        )
    if known.visible:
        ways = "There is one way" if known.hidden == 1 else f"There are {known.hidden:,} independent ways"
        of_them = "it changes" if known.hidden == 1 else f"{known.visible:,} of them change"
        said.append(
            f"{ways} of changing rewards that choices in the environment of the fit cannot identify, and "
            f"{of_them} what is chosen after the change."
        )
    if known.scale:
        said.append(
            "The inverse temperature was inferred, so choices do not identify the scale of the rewards: how much "
            "an added amount weighs against them depends on the prior. Fix the inverse temperature to state "
            "amounts in log-odds."
        )
    if known.discount:
        said.append(
            "Choices in the environment of the fit cannot distinguish a change of discount from a change of "
            "rewards, and the two differ after the change."
        )
    if known.choices and not known.values:
        reason = (
            "choices do not identify the scale of rewards if the inverse temperature is inferred"
            if "inverse_temperature" in posterior.data["posterior"].dataset
            else "it depends on rewards that choices cannot identify"
        )
        said.append(f"The change in value depends in part on the prior: {reason}.")
    unseen = _unvisited(change, posterior, visits)
    if unseen:
        said.append(
            f"Nobody was observed in {named(unseen)}, so predictions there follow from choices elsewhere. This is "
            "a lack of data, which shows in wide intervals, and not a lack of identification."
        )
    return tuple(said)


def _unvisited(change: Change, posterior: Any, visits: np.ndarray) -> list[Any]:
    """States of the fit, by name, in which something is chosen after the change and nobody was seen before."""
    fitted, place = posterior.environment, change.place
    seen = {name for name, count in zip(fitted.states, visits) if count > 0}
    known = set(fitted.states)
    lives = place.available.sum(axis=1) > 0
    return [name for name, alive in zip(place.states, lives) if alive and name in known and name not in seen]


def summary_lines(found: Any) -> list[str]:
    """What a person wants to read first."""
    data = found.data
    lines = [f"What if {'; '.join(found.change)}?", *(f"  {said}" for said in found.statements)]
    if data.attrs["draws"] < FEW_DRAWS:
        lines.append(f"  There are only {data.attrs['draws']} draws, so the ends of intervals are rough.")
    if "motive" in data.dims:
        return [*lines, "  Each motive is answered as if it were always active; `data` has what each motive would do."]
    who = "population_"
    count, level = data.sizes["task"], 100 * data.attrs["level"]
    lines.append(
        f"  Averages of {count:,} task{'s' if count > 1 else ''}, with {level:g} % intervals:"
        if count > 1
        else f"  One task, with {level:g} % intervals:"
    )
    lines.insert(-1, f"  {data.attrs['unit']}")
    gone = np.abs(data[f"{who}choice"].sel(time="difference"))
    if bool(gone.notnull().any()):
        where = gone.fillna(-1.0).argmax(...)
        state, action = (gone[dim].values[int(where[dim])] for dim in ("state", "action"))
        lines.append(f"    largest change of choice: “{action}” in “{state}” {_line(data, f'{who}choice', where)}")
    moved = np.abs(data[f"{who}occupancy"].sel(time="difference"))
    if bool(moved.notnull().any()):
        where = moved.fillna(-1.0).argmax(...)
        state = moved["state"].values[int(where["state"])]
        lines.append(f"    largest change of visits: “{state}” {_line(data, f'{who}occupancy', where)}")
    moved = np.abs(data[f"{who}long_run_share"].sel(time="difference")).values
    for number in np.argsort(-moved, kind="stable")[:ACTIONS] if np.isfinite(moved).all() else ():
        line = _line(data, f"{who}long_run_share", {"action": number})
        action = data["action"].values[number]
        lines.append(f"    share of “{action}” in all steps in the long run{after_episodes(found)}: {line}")
    lines.append(
        f"    value: {_line(data, f'{who}value', {})}; P(higher) = {float(data[f'{who}value_p_positive']):.2f}"
    )
    if f"{who}welfare" in data:
        words, positive = "welfare (value and taste shocks)", float(data[f"{who}welfare_p_positive"])
        lines.append(f"    {words}: {_line(data, f'{who}welfare', {})}; P(higher) = {positive:.2f}")
    elif data.attrs.get("has_taste_shocks"):
        lines.append("      (of rewards alone: taste shocks, which choices also gain from, are not counted)")
    name = f"{who}value_by_reward_before"
    if name in data:
        lines.append(f"    value, by the rewards before the change: {_line(data, name, {})}")
    return lines


def after_episodes(found: Any) -> str:
    """What the long run is where episodes end, as a clause."""
    return " (every episode that ends is followed by another)" if found.environment.is_terminal.any() else ""


def _line(data: Any, name: str, where: Any) -> str:
    """Before, after and difference, with intervals."""
    parts = []
    for time, word in (("before", "from"), ("after", "to"), ("difference", "a difference of")):
        mean, low, high = (float(data[f"{name}{end}"].sel(time=time).isel(where)) for end in ("", "_lower", "_upper"))
        parts.append(f"{word} {mean:.3g} [{low:.3g}, {high:.3g}]")
    return f"{parts[0]} {parts[1]}, {parts[2]}"
