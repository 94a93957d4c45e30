"""Files named on the command line in; an environment, demonstrations and what to say about them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import xarray as xr
from scipy.sparse import csgraph

from manymotives.commands.several import environment_column, read_environments
from manymotives.data.belief import DynamicsBelief, EnvironmentOrBelief, known_part
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.estimation import estimate_environment, is_deterministic
from manymotives.data.labels import MISSING, Label
from manymotives.data.tables import Column
from manymotives.errors import InputError, RowError, quoted
from manymotives.io import from_gymnasium, read_demonstrations, read_environment, read_features
from manymotives.io.columns import Columns, choice_columns, environment_columns, feature_columns
from manymotives.io.files import columns_in, read_table, rows_of

GYMNASIUM = "gymnasium:"
SHORT = 5  # choices, below which a subject says little


@dataclass(frozen=True)
class Inputs:
    """What will be fitted, and what a person should know of it."""

    dynamics: EnvironmentOrBelief  # a belief where no environment was given
    demonstrations: Demonstrations
    columns: Columns
    is_guess: bool  # at least one column was guessed
    is_estimated: bool  # the environment was
    notes: tuple[str, ...]
    features: xr.DataArray | None  # (state[, action], feature)

    @property
    def environment(self) -> Environment:
        return known_part(self.dynamics)

    def facts(self) -> dict[str, Any]:
        """What there is, in numbers."""
        demonstrations, environment = self.demonstrations, self.environment
        choices = demonstrations.counts.sum(axis=(1, 2))
        return {
            "columns": self.columns._asdict(),
            "subjects": demonstrations.num_tasks,
            "episodes": demonstrations.num_episodes,
            "rows": len(demonstrations.state),
            "choices": int(choices.sum()),
            "fewest_choices": int(choices.min()),
            "median_choices": float(np.median(choices)),
            "most_choices": int(choices.max()),
            "states": environment.num_states,
            "states_visited": int((demonstrations.visits.sum(axis=0) > 0).sum()),
            "terminal_states": int(environment.is_terminal.sum()),
            "actions": environment.num_actions,
            "discount": environment.discount,
            "environment_estimated": self.is_estimated,
            "environment_uncertain": isinstance(self.dynamics, DynamicsBelief),
            "breaks": int((~demonstrations.follows).sum()) - demonstrations.num_episodes,
            "notes": list(self.notes),
        } | ({"environments": list(environment.names)} if isinstance(environment, Environments) else {})

    def lines(self, discount: str | None = None) -> list[str]:
        """The same for people; `discount`: what to say of it, if more than its value."""
        facts = self.facts()
        discount = discount or f"discount {facts['discount']:g}"
        guess = " (guessed from their names; use --task, --state, … to change this)" if self.is_guess else ""
        ends = f", {facts['terminal_states']} of them terminal" if facts["terminal_states"] else ""
        return [
            f"Columns: {self.columns}{guess}.",
            f"{_some(facts['subjects'], 'subject')}, {_some(facts['episodes'], 'episode')}, "
            f"{_some(facts['choices'], 'choice')}: from {facts['fewest_choices']:,} to {facts['most_choices']:,} "
            f"per subject, median {facts['median_choices']:,.0f}.",
            f"{_some(facts['states'], 'state')}{ends}, {facts['states_visited']:,} of them visited; "
            f"{_some(facts['actions'], 'action')}; {discount}; "
            f"{self._which()}.",
        ]

    def _which(self) -> str:
        """The environment, or the environments."""
        known = self.environment
        if not isinstance(known, Environments):
            return f"the environment is {self._whence()}"
        return f"environments: {', '.join(map(quoted, known.names))}; states with the same name have the same reward"

    def _whence(self) -> str:
        if not self.is_estimated:
            return "given"
        if isinstance(self.dynamics, DynamicsBelief):
            return (
                "NOT GIVEN: it is inferred together with the rewards (--plug-in takes the observed transitions "
                "instead, which is faster)"
            )
        return "ESTIMATED from the data"


def read_inputs(
    choices: Path,
    environment: Sequence[str],
    given: dict[str, str | None],
    *,
    discount: float,
    terminal: Sequence[str],
    coordinates: Path | None,
    history: int,
    plug_in: bool,
    features: Path | None = None,
) -> Inputs:
    """All that `fit` needs, from files."""
    present, notes = columns_in(choices)
    asked = {word: _several(text) for word, text in given.items()}
    columns = choice_columns(present, asked, choices.name)
    said = list(notes)
    if columns.task is None:
        said.append("no column looks like the subject, so all rows are taken to be one subject's. Name it with --task.")
    dynamics: Environment | None = None
    where: str | None = None
    if len(environment) > 1:
        dynamics, more = read_environments(
            environment,
            lambda name, ends: _environment(name, columns, discount, ends, known_only=True),
            terminal,
            coordinates,
        )
        where, coordinates = environment_column(present, dynamics, choices.name), None  # drawn already
        said += more
    elif environment:
        dynamics, of_table = _environment(environment[0], columns, discount, terminal)
        said += of_table
    demonstrations = read_demonstrations(choices, dynamics, **columns._asdict(), environment=where)
    belief = None
    if dynamics is None:
        ends = _known(terminal, demonstrations.states)
        if not (plug_in or history or is_deterministic(demonstrations)):
            belief = DynamicsBelief.from_demonstrations(demonstrations, discount=discount, terminal=ends)
            dynamics = belief.mean
        else:
            dynamics, demonstrations = estimate_environment(demonstrations, discount=discount, terminal=ends)
    elif plug_in:
        raise InputError("--plug-in is for runs without --environment, which was given. Leave one of them out.")
    if coordinates is not None:
        positions = _positions(coordinates, dynamics.states)
        dynamics, belief = dynamics.with_coordinates(positions), belief and belief.with_coordinates(positions)
    is_estimated = not environment
    said += _remarks(dynamics, demonstrations, is_estimated=is_estimated)
    made_of = None
    if features is not None:
        made_of, more = _features(features, dynamics, columns, is_estimated=is_estimated)
        said += more
    if history:
        firsts = np.unique(demonstrations.state[~demonstrations.follows])
        dynamics = dynamics.with_memory([demonstrations.states[s] for s in firsts])
        demonstrations = demonstrations.with_memory(dynamics)
    is_guess = any(column is not None and not asked.get(word) for word, column in columns._asdict().items())
    return Inputs(belief or dynamics, demonstrations, columns, is_guess, is_estimated, tuple(said), made_of)


def _environment(
    name: str, columns: Columns, discount: float, terminal: Sequence[str], *, known_only: bool = False
) -> tuple[Environment, Sequence[str]]:
    """An environment from a table, or by its name in Gymnasium; `known_only`: without terminal states it has not."""
    if name.startswith(GYMNASIUM):
        if terminal:
            raise InputError(
                "--terminal is for environments from tables; Gymnasium's environments say where episodes end."
            )
        return from_gymnasium(name.removeprefix(GYMNASIUM), discount=discount), ()
    path = Path(name)
    present, notes = columns_in(path)
    found: dict[str, Any] = environment_columns(present, columns, path.name)
    ends: Sequence[Label] = ()
    if terminal:  # typed names are text; the table's may be numbers
        group = [each for word in ("state", "next_state") for each in _listed(found[word])]
        table = read_table(path, names=[group])
        known = {value for column in group for value in table[column].dropna().unique()}
        ends = _known(terminal, tuple(known)) if isinstance(found["state"], str) else terminal
        ends = [state for state in ends if not known_only or state in known]
    return read_environment(path, discount=discount, terminal=ends, **found), notes


def _known(typed: Sequence[str], names: Sequence[Label]) -> list[Label]:
    """Names as they are, from what was typed."""
    by_text = {str(name): name for name in names}
    return [by_text.get(text, text) for text in typed]


def _positions(path: Path, states: Sequence[Label]) -> dict[Label, tuple[float, float]]:
    """Where to draw states: a table with the columns state, x, y."""
    table = read_table(path, names=[["state"]], others=["x", "y"])
    for axis in ("x", "y"):
        if table[axis].dtype.kind not in "iuf" or table[axis].isna().any():
            bad = [not isinstance(value, int | float | np.number) or np.isnan(value) for value in table[axis]]
            with rows_of(path, table):
                raise RowError(f"column {quoted(axis)}, ", (int(np.argmax(bad)),), ": this is not a number. Write one.")
    names = _known([str(name) for name in table["state"]], states)
    return {name: (float(x), float(y)) for name, x, y in zip(names, table["x"], table["y"])}


def _features(
    path: Path, environment: Environment, columns: Columns, *, is_estimated: bool
) -> tuple[xr.DataArray, list[str]]:
    """A table of features, and what to know about it. An estimated environment need not have all of its states."""
    present, notes = columns_in(path)
    state, action = feature_columns(present, columns, path.name)
    found = read_features(path, environment, state=state, action=action, known_only=is_estimated)
    said = list(notes)
    if left_out := found.attrs["left_out"]:
        said.append(f"{path.name} has {_some(left_out, 'row')} of states that nobody visited; they are not used.")
    return found, said


def _remarks(environment: Environment, demonstrations: Demonstrations, *, is_estimated: bool) -> list[str]:
    """What is no error, and yet perhaps not what was meant."""
    found = []
    for what, names in (("state", demonstrations.states), ("action", demonstrations.actions)):
        odd = [name for name in names if isinstance(name, str) and name.strip().lower() in MISSING]
        if odd and is_estimated:
            found.append(
                f"{quoted(odd[0])} is read as the name of a {what}. Leave cells empty where nothing was recorded."
            )
    choices = demonstrations.counts.sum(axis=(1, 2))
    few = [demonstrations.tasks[m] for m in np.flatnonzero(choices < SHORT)]
    if few:
        found.append(
            f"{_some(len(few), 'subject')} with fewer than {SHORT} choices, which carry little information: "
            f"{_listing(few)}."
        )
    lost = [] if is_estimated else _unreachable(environment, demonstrations)
    if lost:
        found.append(
            f"{_some(len(lost), 'state')} that cannot be reached from where subjects were observed: {_listing(lost)}."
        )
    return found


def _unreachable(environment: Environment, demonstrations: Demonstrations) -> list[Label]:
    """States that no path leads to from any that was visited."""
    moves, size = environment.matrix.tocoo(), environment.num_states
    visited = np.flatnonzero(demonstrations.visits.sum(axis=0) > 0)
    here = np.concatenate([moves.row // environment.num_actions, np.full(len(visited), size)])
    there = np.concatenate([moves.col, visited])  # one more node leads to all that were visited
    graph = sp.csr_array((np.ones(len(here)), (here, there)), shape=(size + 1, size + 1))
    reached = csgraph.breadth_first_order(graph, size, return_predecessors=False)
    return [environment.states[s] for s in np.setdiff1d(np.arange(size), reached)]


def _listing(names: Sequence[Label]) -> str:
    return ", ".join(map(quoted, names[:5])) + (", …" if len(names) > 5 else "")


def _several(text: str | None) -> Column | None:
    """`a,b` are two columns."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return None if not parts else parts[0] if len(parts) == 1 else parts


def _listed(column: Column) -> list[str]:
    return [column] if isinstance(column, str) else list(column)


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
