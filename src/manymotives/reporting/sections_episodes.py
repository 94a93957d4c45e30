"""Motives along episodes: a band for each of some episodes, and one episode step by step."""

from typing import Any

import numpy as np

from manymotives.reporting.html import element, figure
from manymotives.reporting.layout import layout_of
from manymotives.reporting.motives import MotiveContent
from manymotives.reporting.sections_motives import drawn
from manymotives.reporting.words import shortened

EPISODES = 6  # shown of each subject, evenly chosen
BINS = 240  # pieces of a band: longer episodes are averaged
WALK = 400  # steps of the example
LARGEST = 250_000  # numbers in all bands


def _probabilities(content: MotiveContent, rows: np.ndarray) -> np.ndarray:
    columns = [f"motive_{k}" for k in range(content.num_shown)]
    return content.steps[columns].to_numpy()[rows]


def is_long(content: MotiveContent) -> bool:
    return bool(np.bincount(content.posterior.demonstrations.episode).max() > BINS)


def bands_of(content: MotiveContent) -> tuple[dict[str, Any], list[str]]:
    """Episodes of each subject, some of each, as many subjects as there is room for; and the names of these."""
    seen = content.posterior.demonstrations
    begins = np.flatnonzero(np.append(True, np.diff(seen.episode) != 0))
    ends = np.append(begins[1:], len(seen.episode))
    each: list[dict[str, Any]] = []
    names: list[str] = []
    used = 0
    for number in range(seen.num_tasks):
        mine = np.flatnonzero(seen.task[begins] == number)
        if not len(mine):
            continue
        some = mine[np.unique(np.linspace(0, len(mine) - 1, min(EPISODES, len(mine))).astype(int))]
        made = [_band(content, int(begins[e]), int(ends[e])) for e in some]
        used += sum(len(band["at"]) * content.num_shown for band in made)
        if used > LARGEST and each:
            break
        each.append({"rows": made})
        names.append(shortened(seen.tasks[number]))
    spec = {"kind": "chosenOne", "of": "bands", "chooser": "band", "each": each}
    return spec | {"states": [str(state) for state in seen.states], "names": content.motives}, names


def _band(content: MotiveContent, begin: int, end: int) -> dict[str, Any]:
    """One episode: probabilities in per cent by piece, the state in which each begins, where the recording has gaps."""
    seen, length = content.posterior.demonstrations, end - begin
    pieces = min(length, BINS)
    edges = np.linspace(0, length, pieces + 1).astype(int)
    probability = np.add.reduceat(_probabilities(content, np.arange(begin, end)), edges[:-1]) / np.diff(edges)[:, None]
    gaps = np.flatnonzero(~seen.follows[begin + 1 : end]) + 1
    return {
        "label": f"episode {seen.episodes[seen.episode[begin]]}",
        "length": length,
        "at": edges[:-1].tolist(),
        "p": np.round(100 * probability).astype(int).tolist(),
        "state": seen.state[begin + edges[:-1]].tolist(),
        "gaps": gaps.tolist(),
    }


def one_episode(content: MotiveContent, figures: dict[str, Any]) -> list[Any]:
    """One episode to step through: that in which motives change most, by what is expected."""
    seen = content.posterior.demonstrations
    every = _probabilities(content, np.arange(len(seen.state)))
    change = np.abs(np.diff(every, axis=0, prepend=every[:1])).sum(axis=1) * seen.follows
    chosen = int(np.bincount(seen.episode, weights=change).argmax())
    rows = np.flatnonzero(seen.episode == chosen)
    if len(rows) < 2:
        return []
    rows = rows[:WALK]
    environment = content.posterior.environment
    layout = layout_of(environment, np.ones(environment.num_states))
    actions = [str(action) for action in seen.actions]
    figures["motive-walk"] = {
        "kind": "walk",
        "states": [str(state) for state in seen.states],
        "actions": actions,
        "names": content.motives,
        "state": seen.state[rows].tolist(),
        "action": seen.action[rows].tolist(),
        "step": [str(step) for step in seen.step[rows].tolist()],
        "p": np.round(100 * every[rows]).astype(int).tolist(),
        "gaps": (np.flatnonzero(~seen.follows[rows[1:]]) + 1).tolist(),
        "layout": None if layout is None else drawn(layout) | {"owner": layout["owner"]},
    }
    name = f"{shortened(seen.tasks[seen.task[rows[0]]])}, episode {seen.episodes[chosen]}"
    cut = f" Its first {WALK} steps." if len(rows) == WALK else ""
    return [
        element("h3", "One episode, step by step"),
        element(
            "div",
            element("button", "‹ step back", type="button", data_step=-1, data_for="walk"),
            element(
                "label",
                "Step ",
                element(
                    "input",
                    type="range",
                    min=0,
                    max=len(rows) - 1,
                    value=0,
                    data_chooser="walk",
                    id="choose-walk",
                    autocomplete="off",
                ),
            ),
            element("button", "next step ›", type="button", data_step=1, data_for="walk"),
            class_="chooser",
        ),
        figure(
            "motive-walk",
            title=f"{name}: the episode in which motives change most",
            described="One episode step by step: the state, the choice, and the probability of each motive.",
            how="Move the slider, or press the buttons. "
            + ("The ring marks where the subject is, and the line its last steps. " if layout is not None else "")
            + "Bars are the smoothed probabilities of the motives at this step. The band below shows the whole episode."
            + cut,
            chooser=True,
        ),
    ]
