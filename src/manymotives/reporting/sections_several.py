"""Several environments: where subjects were seen, what is shared, and what each of them could show of rewards."""

from contextlib import suppress

import numpy as np

from manymotives.data.environments import Environments
from manymotives.errors import InputError
from manymotives.findings import Identification, identification
from manymotives.reporting.content import About
from manymotives.reporting.html import Markup, element, table
from manymotives.reporting.words import listed

PAIRS = 12  # differences that are spelt out
LARGEST = 400  # rewards between which differences are looked at


def has_several(content: About) -> bool:
    """Whether subjects acted in several environments."""
    environment = content.posterior.environment
    return isinstance(environment, Environments) and len(environment.members) > 1


def what_each_environment_shows(content: About) -> Markup | None:
    """Nothing where there is only one."""
    posterior = content.posterior
    environment = posterior.environment
    if not isinstance(environment, Environments) or not has_several(content):
        return None
    counts = posterior.data["observed_data"].dataset["counts"].values
    found: Identification | None = None
    with suppress(InputError):  # sets of rewards; rewards on very many pairs
        found = identification(posterior)
    rows = []
    for m, (name, each) in enumerate(zip(environment.names, environment.members)):
        here = counts[:, environment.member == m]
        row = [str(name), each.num_states, int((here.sum(axis=(1, 2)) > 0).sum()), int(here.sum())]
        rows.append(row if found is None else [*row, int(found.hidden[m])])
    headings = ["environment", "states", "subjects observed there", "choices"]
    headings += [] if found is None else ["directions of the reward that choices in it cannot identify"]
    parts = [
        element("h2", "What each environment can show"),
        element("p", _shared(environment, has_features=posterior.has_features)),
        table(headings, rows, caption="The environments"),
    ]
    if found is not None:
        parts += [element("p", said) for said in sentences(found)]
    return element("section", parts, id="several")


def sentences(found: Identification) -> list[str]:
    """What all environments show together that none shows alone; exactly, whatever the choices were."""
    least, kind = int(found.hidden.min()), "weights" if found.of_features else "rewards"
    said = [
        "A direction of the reward is a change of several rewards at once; a direction that choices cannot "
        "identify rests on the prior alone, however many choices there are. In all environments together "
        f"{_directions(found.hidden_together)} left, compared with {least:,} in the single most informative "
        "environment."
    ]
    if len(found.rewards) > LARGEST:
        return said
    together, count = found.only_together, len(found.rewards) * (len(found.rewards) - 1) // 2
    alone = int(np.triu(found.shown.any(axis=0), k=1).sum())
    if together:
        some = "; ".join(f"{_name(first)} and {_name(second)}" for first, second in together[:PAIRS])
        more = f"; and {len(together) - PAIRS:,} more" if len(together) > PAIRS else ""
        said.append(
            f"Of {count:,} differences between two {kind}, {alone:,} are identified by choices in one environment "
            f"alone, and {len(together):,} only by choices in several together: those between {some}{more}."
        )
    else:
        said.append(
            f"Of {count:,} differences between two {kind}, {alone:,} are identified by choices in one environment "
            "alone, and no others by all of them together."
        )
    return said


def _directions(count: int) -> str:
    return "no such direction is" if count == 0 else "one such direction is" if count == 1 else f"{count:,} are"


def _name(label: object) -> str:
    return f"“{label[1]} in {label[0]}”" if isinstance(label, tuple) and len(label) == 2 else f"“{label}”"


def _shared(environment: Environments, *, has_features: bool) -> str:
    count = len(environment.members)
    if has_features:
        return f"Subjects were observed in {count} environments. Weights of features are the same in all of them."
    times = np.bincount(environment.state_name)
    shared = [environment.state_names[k] for k in np.flatnonzero(times > 1)]
    return (
        f"Subjects were observed in {count} environments. States with the same name have the same reward: "
        f"{len(shared):,} of {len(environment.state_names):,} names are in more than one of them, such as "
        f"{listed([str(name) for name in shared[:4]], 4)}."
    )
