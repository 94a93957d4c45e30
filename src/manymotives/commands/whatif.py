"""A run and a change in; what subjects would do, visit and gain after it, as a table and a few sentences, out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from manymotives.commands.common import JsonOption, Speaker
from manymotives.commands.inputs import GYMNASIUM
from manymotives.commands.several import read_environments
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted
from manymotives.fitting.fit import load
from manymotives.io import from_gymnasium, read_environment, read_features
from manymotives.io.columns import environment_columns
from manymotives.io.files import columns_in
from manymotives.io.writing import write_table
from manymotives.posterior.by_name import own_names
from manymotives.reporting import report as write_report

NEW = "Table (CSV or Parquet) of the environment after the change; repeat it for several, named after their files."


def whatif(
    run: Annotated[
        Path, typer.Argument(help="A run saved by `manymotives fit` or `posterior.save`.", show_default=False)
    ],
    environment: Annotated[list[str] | None, typer.Option(help=NEW, show_default=False)] = None,
    reward_added: Annotated[
        list[str] | None,
        typer.Option(
            help="Amount added to a reward, in the units of the model's rewards: `water=1.0` for a state, "
            "`shop:buy=-0.5` for an action in a state, or a feature's name for its weight; may be repeated.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(help="Action to remove, such as `junction:right`; may be repeated.", show_default=False),
    ] = None,
    discount: Annotated[float | None, typer.Option(help="Discount factor of all subjects after the change.")] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="Table of the features after the change, if rewards are made of features."),
    ] = None,
    terminal: Annotated[
        list[str] | None, typer.Option(help="State of the new environment that ends episodes; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for the table, such as whatif.csv.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the report of the run with a section about this question.")
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    draws: Annotated[int, typer.Option(help="Largest number of draws to use, evenly spaced.")] = 1000,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing table.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Predict what subjects would do after a change, and say whether choices can identify the answer.

    The table has the probability of each choice, the share of time in each state, the share of each action in the long
    run, the value, and for soft-optimal choice the welfare: before, after and their difference, with intervals, for
    each subject and for the average of all.
    """
    speaker = Speaker(as_json)
    with speaker.failures(out):
        _check_out(out, force)
        posterior = load(run)
        place = new_environment(environment or [], posterior.environment.discount, terminal or [])
        after = posterior.environment if place is None else place
        found = posterior.counterfactual(
            environment=place,
            rewards=_amounts(reward_added or [], after, posterior) or None,
            available={_pair(text, after): False for text in remove or []} or None,
            discount=discount,
            features=None if features is None else read_features(features, after, **_feature_columns(features)),
            draws=draws,
            level=level,
            progress=not as_json,
        )
        table = found.to_frame()
        if out is not None:
            write_table(table, out)
        if page is not None:
            write_report(posterior, page, counterfactual=found)
    speaker.say(str(found))
    for path, what in ((out, f"{len(table):,} rows"), (page, "the report")):
        if path is not None:
            speaker.say(f"{path}  {what}", style="bold")
    speaker.result(
        {
            "change": list(found.change),
            "identified": found.identified,
            "value_identified": found.value_identified,
            "statements": list(found.statements),
            "unidentified_states": sorted(set(map(str, found.unidentified["state"]))),
            "draws": found.data.attrs["draws"],
            "rows": len(table),
            "out": None if out is None else str(out),
            "page": None if page is None else str(page),
        }
    )


def new_environment(names: Sequence[str], discount: float, terminal: Sequence[str]) -> Environment | None:
    """The environment after the change, with the discount of the fit; None where it stays the same."""
    if not names:
        if terminal:
            raise InputError("--terminal is about a new environment: give its table as well, with --environment.")
        return None

    def read(name: str, ends: Sequence[str]) -> tuple[Environment, Sequence[str]]:
        if name.startswith(GYMNASIUM):
            return from_gymnasium(name.removeprefix(GYMNASIUM), discount=discount), ()
        present, notes = columns_in(Path(name))
        columns: Any = environment_columns(present, None, Path(name).name)
        plain = read_environment(Path(name), discount=discount, **columns)
        known = {str(state): state for state in plain.states}
        lasting = [known[text] for text in ends if text in known]
        return (
            plain if not ends else read_environment(Path(name), discount=discount, terminal=lasting, **columns)
        ), notes

    if len(names) > 1:
        return read_environments(names, read, terminal, None)[0]
    found = read(names[0], terminal)[0]
    unknown = [state for state in terminal if state not in {str(each) for each in found.states}]
    if unknown:
        raise InputError(f"--terminal {unknown[0]}: the new environment has no such state.")
    return found


def _check_out(out: Path | None, force: bool) -> None:
    if out is None:
        return
    if out.suffix.lower() != ".csv":
        raise InputError(f"the table is a CSV file: name it {quoted(out.with_suffix('.csv').name)}, not {out.name!r}.")
    if not out.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(out.parent)!r} to write to. Create it first.")
    if out.exists() and not force:
        raise InputError(f"{out} already exists. Overwrite it with --force, or choose another place.")


def _amounts(texts: Sequence[str], place: Environment, posterior: Any) -> dict[Any, float]:
    """`water=1.0` and `shop:buy=-0.5` as a mapping."""
    found: dict[Any, float] = {}
    for text in texts:
        name, is_given, number = text.rpartition("=")
        try:
            amount = float(number)
        except ValueError:
            is_given = ""
        if not is_given or not name:
            raise InputError(
                f"--reward-added {text}: write a name and an amount, such as --reward-added water=1.0, or "
                "--reward-added shop:buy=-0.5 for an action in a state."
            )
        features = posterior.data["posterior"].dataset["feature"].values.tolist() if posterior.has_features else []
        known = {str(each) for each in (*place.states, *own_names(place), *features)}
        found[name if name in known or ":" not in name else _pair(name, place)] = amount
    return found


def _pair(text: str, place: Environment) -> tuple[Label, str]:
    """`state:action`; either may have a colon of its own."""
    states = {str(name) for name in (*place.states, *own_names(place))}
    parts = text.split(":")
    for number in range(1, len(parts)):
        state, action = ":".join(parts[:number]), ":".join(parts[number:])
        if state in states and action in map(str, place.actions):
            return state, action
    if len(parts) < 2:
        raise InputError(f"{text}: write a state and an action with a colon between them, such as junction:right.")
    state, action = parts[0] if not isinstance(place, Environments) else ":".join(parts[:-1]), parts[-1]
    return state, action  # whoever looks them up says which of them is unknown


def _feature_columns(path: Path) -> dict[str, Any]:
    present, _ = columns_in(path)
    return {"action": "action"} if "action" in present else {}
