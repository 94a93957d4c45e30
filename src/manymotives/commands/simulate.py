"""A simulated experiment as tables, with the truth beside them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from manymotives.commands.common import JsonOption, Speaker
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.io.writing import write_table
from manymotives.models.choice import Softmax
from manymotives.worlds import Chain, GridWorld, Labyrinth, RandomMDP
from manymotives.worlds import simulate as simulated

NAMES = ("choices", "environment", "truth", "coordinates")


class World(StrEnum):
    chain = "chain"
    grid = "grid"
    random = "random"
    labyrinth = "labyrinth"


def simulate(
    world: Annotated[World, typer.Argument(help="The world to simulate.")],
    out: Annotated[Path, typer.Option(help="Folder for the tables.")],
    subjects: Annotated[int, typer.Option(help="Number of subjects.", min=1, max=100_000)] = 10,
    steps: Annotated[int, typer.Option(help="Number of choices per episode.", min=1, max=1_000_000)] = 60,
    episodes: Annotated[int, typer.Option(help="Number of episodes per subject.", min=1, max=100_000)] = 1,
    inverse_temperature: Annotated[
        float, typer.Option(help="Inverse temperature: how consistently subjects act on what they want.", min=0.0)
    ] = 5.0,
    concentration: Annotated[
        float,
        typer.Option(
            help="Concentration of the Dirichlet distribution of rewards; below 1, each subject wants few states."
        ),
    ] = 0.3,
    size: Annotated[
        int | None,
        typer.Option(
            help="Number of states of a chain (5) or random world (8), side of a grid (3), levels of a labyrinth (3).",
            min=1,
        ),
    ] = None,
    slip: Annotated[
        float, typer.Option(help="Probability that a move goes wrong (chain, grid).", min=0.0, max=1.0)
    ] = 0.1,
    discount: Annotated[float, typer.Option(help="Discount factor: the weight of the next step.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing tables.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Simulate subjects with different motives; write choices.csv, environment.csv, coordinates.csv and truth.csv."""
    speaker = Speaker(as_json)
    with speaker.failures(out):
        there = [name for name in NAMES if (out / f"{name}.csv").exists()]
        if there and not force:
            raise InputError(
                f"{out} already holds {there[0]}.csv. Overwrite it with --force, or choose another folder."
            )
        if concentration <= 0:
            raise InputError(f"--concentration must be positive; found {concentration}.")
        environment = _world(world, size, slip, discount, seed)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7,)))  # not what simulates the choices
        rewards = rng.dirichlet(np.full(environment.num_states, concentration), size=subjects)
        names = [f"subject {number + 1}" for number in range(subjects)]
        rule = Softmax(inverse_temperature=inverse_temperature)
        chosen = simulated(environment, rewards, rule, steps=steps, episodes=episodes, seed=seed, tasks=names)
        truth = pd.DataFrame(
            {
                "subject": np.repeat(names, environment.num_states),
                "state": np.tile(np.array(environment.states, dtype=object), subjects),
                "reward": rewards.ravel(),
                "inverse_temperature": inverse_temperature,
            }
        )
        tables = {
            "choices": chosen.to_frame().rename(columns={"task": "subject"}),
            "environment": environment.to_frame(),
            "truth": truth,
        }
        if environment.coordinates is not None:
            x, y = environment.coordinates.T
            tables["coordinates"] = pd.DataFrame({"state": list(environment.states), "x": x, "y": y})
        out.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            write_table(table, out / f"{name}.csv")
        speaker.say(
            f"{subjects} subjects, {chosen.num_steps:,} choices, {environment.num_states} states; written to {out}:"
        )
        for name, table in tables.items():
            speaker.say(f"  {name}.csv  {len(table):,} rows")
        drawn = " --coordinates " + str(out / "coordinates.csv") if "coordinates" in tables else ""
        speaker.say(
            f"Next: manymotives fit {out / 'choices.csv'} --environment {out / 'environment.csv'}{drawn} "
            f"--discount {discount:g} --out run.nc"
        )
        speaker.result(
            {
                "out": str(out),
                "files": [f"{name}.csv" for name in tables],
                "subjects": subjects,
                "choices": chosen.num_steps,
                "states": environment.num_states,
            }
        )


def _world(world: World, size: int | None, slip: float, discount: float, seed: int) -> Environment:
    if world is World.chain:
        return Chain(states=size or 5, slip=slip, discount=discount)
    if world is World.grid:
        return GridWorld((size or 3, size or 3), slip=slip, discount=discount)
    if world is World.random:
        return RandomMDP(states=size or 8, seed=seed, discount=discount)
    return Labyrinth(levels=size or 3, discount=discount)
