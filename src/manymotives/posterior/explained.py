"""The door to what covariates explain: effects, predictions at covariates, contrasts between them."""

from typing import Any

import pandas as pd

from manymotives.posterior.effects import effects_table
from manymotives.posterior.predictions import contrast_table, predicted_table


class Explained:
    """A posterior whose tasks may have covariates."""

    def effects(self, *, level: float = 0.95, equivalence: float | None = None) -> pd.DataFrame:
        """The effects of covariates on tasks' parameters, with one row for each parameter and term of its formula.

        Columns: parameter, feature or state (and action), term, mean, sd, lower, upper, p_positive, p_direction (the
        probability of the more probable sign) and, if `equivalence` is given, p_equivalent, the probability that the
        effect is between −equivalence and equivalence. Effects of numeric covariates are for one unit of the covariate.
        Effects are on weights and Gaussian rewards themselves, on logarithms of inverse temperatures and Dirichlet
        rewards, and on logits of lapse rates, discounts and Beta rewards. Rows such as "spread of mouse" are standard
        deviations between members of a level.

        Parameters
        ----------
        level
            Probability of the intervals.
        equivalence
            Half the width of the range of effects that count as negligible. If None, there is no such column.

        Returns
        -------
        DataFrame
            One row for each parameter and term.
        """
        return effects_table(self, level, equivalence)

    def predict_at(self, covariates: Any, *, level: float = 0.95, draws: int = 4000) -> pd.DataFrame:
        """What the typical task of the population wants, does and attains at the covariates in each row of a table.

        The typical task lies at the mean of the population plus the effects of these covariates; members of levels,
        such as mice, are average ones. Covariates that the table leaves out keep each task's own value, and the results
        are averaged over tasks. Quantities: `weight` of features (otherwise `reward`); if they are inferred,
        `discount`, `inverse_temperature` and `lapse`; `choice`, the probability of each action in each state; and
        `value`, the expected discounted sum of the task's own rewards, from where episodes began, in units of reward.

        Parameters
        ----------
        covariates
            A data frame or a mapping of columns, such as `{"condition": ["control", "treated"]}`.
        level
            Probability of the intervals.
        draws
            The largest number of draws to use, evenly spaced.

        Returns
        -------
        DataFrame
            A tidy table, with the covariates of each row.
        """
        return predicted_table(self, covariates, level, draws)

    def contrast(self, one: Any, other: Any, *, level: float = 0.95, draws: int = 4000) -> pd.DataFrame:
        """The difference that covariates make: `one` minus `other`, with intervals and the probability of the sign.

        The quantities are those of `predict_at`; covariates that are not named keep each task's own value, and
        differences are averaged over tasks. `p_direction` is the probability of the more probable sign.

        Parameters
        ----------
        one, other
            Two values of covariates, such as `{"condition": "treated"}` and `{"condition": "control"}`.
        level
            Probability of the intervals.
        draws
            The largest number of draws to use, evenly spaced.

        Returns
        -------
        DataFrame
            A tidy table, with one row for each quantity.
        """
        return contrast_table(self, one, other, level, draws)
