"""The door to what covariates explain: effects, predictions at covariates, contrasts between them."""

from typing import Any

import pandas as pd

from manymotives.posterior.effects import effects_table
from manymotives.posterior.predictions import contrast_table, predicted_table


class Explained:
    """A posterior whose tasks may have covariates."""

    def effects(self, *, level: float = 0.95, equivalence: float | None = None) -> pd.DataFrame:
        """What covariates add to tasks' parameters: a row for each parameter and term of its formula.

        Columns: parameter, feature or state (and action), term, mean, sd, lower, upper, p_positive, p_direction (the
        probability of the likelier sign) and, where `equivalence` is given, p_equivalent: that the effect is between
        −equivalence and equivalence. Numeric covariates are on their own scale: the effect of one unit. Effects are on
        weights and Gaussian rewards themselves, on logarithms of inverse temperatures and Dirichlet rewards, on logits
        of lapse rates, discounts and Beta rewards. Rows "spread of mouse" are standard deviations between members of a
        level.

        Parameters
        ----------
        level
            Probability of the intervals.
        equivalence
            Half the width of the range of effects that are as good as none. None: no such column.

        Returns
        -------
        DataFrame
            One row for each parameter and term.
        """
        return effects_table(self, level, equivalence)

    def predict_at(self, covariates: Any, *, level: float = 0.95, draws: int = 1000) -> pd.DataFrame:
        """What the population's typical task wants, does and attains at these covariates, one set of rows for each row.

        The typical task lies at the population's location plus the effects of these covariates; members of levels, such
        as mice, are average ones. Covariates that the table leaves out keep each task's own value, and what follows
        is averaged over tasks. Quantities: `weight` of features (else `reward`); where inferred `discount`,
        `inverse_temperature` and `lapse`; `choice`, the probability of each action in each state; and `value`, the
        expected discounted sum of the rewards that it wants, from where episodes began.

        Parameters
        ----------
        covariates
            A data frame or a mapping of columns, such as `{"condition": ["control", "treated"]}`.
        level
            Probability of the intervals.
        draws
            At most so many, evenly spaced.

        Returns
        -------
        DataFrame
            Tidy, with the covariates of each row.
        """
        return predicted_table(self, covariates, level, draws)

    def contrast(self, one: Any, other: Any, *, level: float = 0.95, draws: int = 1000) -> pd.DataFrame:
        """What one value of covariates makes different from another: `one` less `other`, with intervals and signs.

        Of the same quantities as `predict_at`; covariates that are not named keep each task's own value, and
        differences are averaged over tasks. `p_direction` is the probability of the likelier sign.

        Parameters
        ----------
        one, other
            Such as `{"condition": "treated"}` and `{"condition": "control"}`.
        level
            Probability of the intervals.
        draws
            At most so many, evenly spaced.

        Returns
        -------
        DataFrame
            Tidy, one row for each quantity.
        """
        return contrast_table(self, one, other, level, draws)
