"""A ranking of candidates in; sentences out: which tells most, which cannot be told apart, what none can tell."""

from typing import Any

import numpy as np

from manymotives.errors import quoted

NEAR = 1.0  # nats below the largest number that so many draws can show


def in_sentences(design: Any) -> str:
    """What a ranking says, one sentence a line."""
    table = design.table
    first = table.iloc[0]
    about = "the whole motive" if design.contrast is None else design.contrast
    lines = []
    if design.can_tell:
        lines.append(
            f"{_called(first)} is the most informative about {about}: {first['information']:.3f} ± "
            f"{first['error']:.3f} nats are expected from at most {design.choices} choices (bounds "
            f"{first['lower']:.3f} and {first['upper']:.3f})."
        )
        close = design.close
        if len(table) == 1:
            pass
        elif len(close) == 1:
            second = table.iloc[1]
            lines.append(
                f"It is the best of {len(table)} candidates with probability {first['probability_best']:.2f}; "
                f"{_called(second)} is next, {second['behind']:.3f} ± {second['behind_error']:.3f} nats behind."
            )
        else:
            others = ", ".join(_called(row) for _, row in close.iloc[1:6].iterrows())
            more = f" and {len(close) - 6} more" if len(close) > 6 else ""
            lines.append(
                f"With {design.draws} draws it cannot be distinguished from {others}{more}: the differences are "
                "less than two standard errors. More draws may separate them."
            )
    else:
        lines.append(
            f"No candidate is informative: with {design.draws} draws, the information about {about} expected from "
            f"at most {design.choices} choices cannot be distinguished from 0 in any of them."
        )
    lines += _about_identification(design)
    limit = np.log(design.draws) if design.contrast is None else np.log(10)
    if first["lower"] > limit - NEAR:
        cure = "Raise draws." if design.contrast is None else "Candidates near it differ less than they seem to."
        lines.append(f"Estimates are close to {limit:.1f} nats, the largest value that this method can show. {cure}")
    elif first["upper"] - first["lower"] > max(0.1, 0.25 * first["information"]):
        lines.append(f"The bounds are {first['upper'] - first['lower']:.2f} nats apart; more draws would narrow them.")
    if len(design.sequence) > 1:
        steps = "; ".join(f"{_called(row)} (+{row['gain']:.3f})" for _, row in design.sequence.iterrows())
        lines.append(
            f"Chosen one after the other, before any is run: {steps}. Together they give {_last(design)} nats."
        )
    return "\n".join(lines)


def _about_identification(design: Any) -> list[str]:
    """Which candidates could settle the contrast, whatever the number of choices."""
    if "identified" not in design.table:
        return []
    shows = [bool(each) for each in design.table["identified"] if each is not None]
    if not shows or all(shows):
        return []
    if design.identified is False:
        return [
            f"No number of choices can settle {design.contrast}, even in all candidates together: part of it "
            "rests on the prior alone, and what is learnt about it comes through its prior dependence on the "
            "rest."
        ]
    if not any(shows):
        return [
            f"No candidate alone can settle {design.contrast}, whatever the number of choices"
            + ("; together they can." if design.identified else ".")
        ]
    some = [_called(row) for _, row in design.table.iterrows() if row["identified"] is False]
    return [
        f"Choices in {', '.join(some[:5])}{f' and {len(some) - 5} more' if len(some) > 5 else ''} alone cannot settle "
        f"{design.contrast}, however many there are."
    ]


def _called(row: Any) -> str:
    return quoted(row["candidate"]) + (f" from {quoted(row['start'])}" if row.get("start") is not None else "")


def _last(design: Any) -> str:
    last = design.sequence.iloc[-1]
    return f"{last['information']:.3f} ± {last['error']:.3f}"
