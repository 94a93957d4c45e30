"""Effects of covariates in; one sentence out."""

from typing import Any

import pandas as pd

from manymotives.findings import effect_target
from manymotives.models.components import Factor
from manymotives.models.formulas import column_names
from manymotives.models.rewards import BetaReward, GaussianReward
from manymotives.posterior import Posterior
from manymotives.posterior.effects import designs_of, population_codings
from manymotives.reporting.words import shortened

MOST = 6  # effects in the sentence
SCALES = {"inverse_temperature": "logarithm of the ", "lapse": "logit of the ", "discount": "logit of the "}


def effects_sentence(posterior: Posterior, effects: pd.DataFrame) -> str:
    """Which effects have a certain sign, that is an interval without 0, and how large they are."""
    names = term_names(posterior)
    sure = effects[(effects["lower"] > 0) | (effects["upper"] < 0)]
    if not len(sure):
        every = ", ".join(shortened(names[term]) for term in effects["term"].unique()[:MOST])
        return f"The sign of every effect is uncertain, because all 95 % intervals include 0: {every}."
    shown, clauses = sure[:MOST], []
    for term, rows in shown.groupby("term", sort=False):
        each = [
            f"{_scale(posterior, row)}{shortened(effect_target(row))} {_signed(row['mean'])} (95 % interval "
            f"{_number(row['lower'])} to {_number(row['upper'])})"
            for _, row in rows.iterrows()
        ]
        clauses.append(f"{shortened(names[str(term)])}: {', '.join(each)}")
    more = f"; {len(sure) - MOST} more have a certain sign" if len(sure) > MOST else ""
    open_signs = len(effects) - len(sure)
    left = {0: "", 1: "; the sign of the other effect is uncertain"}.get(
        open_signs, f"; the signs of the other {open_signs:,} effects are uncertain"
    )
    return f"Effect of {'; of '.join(clauses)}{more}{left}.{_beside_interactions(posterior)}"


def term_names(posterior: Any) -> dict[str, str]:
    """What each term compares: "diet (fasted − fed)", "age (one more unit)"; others as in the formula."""
    terms = [name for design in designs_of(posterior.model.sharing, posterior.tasks).values() for name in design.names]
    found = {term: term for term in terms}
    for coding in population_codings(posterior):
        if isinstance(coding, Factor):
            column, (reference, *others) = column_names(coding.component.tree)[0], coding.levels
            plain = {f"{coding.name}[{level}]": f"{column} ({level} − {reference})" for level in others}
        else:
            plain = {coding.names[0]: f"{coding.names[0]} (one more unit)"} if len(coding.names) == 1 else {}
        found |= {term: said for term, said in plain.items() if term in found}
    return found


def _beside_interactions(posterior: Any) -> str:
    designs = designs_of(posterior.model.sharing, posterior.tasks).values()
    if not any(len(term) > 1 for design in designs for term in design.read.terms):
        return ""
    return " Effects of covariates that interact are those at the reference, or the mean, of the other covariate."


def _scale(posterior: Any, row: pd.Series) -> str:
    """What an effect is added to, where that is not the parameter itself."""
    if row["parameter"] == "reward":
        kinds = {GaussianReward: "", BetaReward: "logit of the reward of "}
        return kinds.get(type(posterior.model.reward), "logarithm of the reward of ")
    return SCALES.get(row["parameter"], "")


def _number(value: Any) -> str:
    return f"{float(value):.3g}".replace("-", "−")


def _signed(value: Any) -> str:
    return f"{float(value):+.3g}".replace("-", "−")
