"""What the data can and cannot tell: in principle, and how much was learnt about each reward."""

from typing import Any

import numpy as np

from manymotives.findings.learning import by_shown_state
from manymotives.reporting.content import Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.sections_wants import LISTED, heat_map, labels, shown_in_map
from manymotives.reporting.words import per_cent, shortened, weights_unmoved, what_choices_tell


def what_data_tell(content: Content, figures: dict[str, Any]) -> Markup:
    """The identifiability statement: in principle, and measured."""
    learnt = content.learning
    who = slice(1, None) if learnt.has_population else slice(None)
    unmoved = learnt.unmoved[who][:, learnt.varies]
    all_cells, fixed = int(unmoved.all(axis=0).sum()), int((~learnt.varies).sum())
    settled, pairs = learnt.settled[who], len(learnt.pairs)
    measured = [] if content.weights is None else [weights_unmoved(content.weights)]
    measured += [
        f"{int(unmoved.sum()):,} of {unmoved.size:,} rewards are still as under the prior: no statement about "
        f"them changed its probability by more than {per_cent(learnt.limit)}."
        + (f" For {all_cells:,} states or pairs this holds for every subject." if all_cells else ""),
        "The median ratio of posterior to prior standard deviation is "
        f"{np.median(learnt.sd_ratio[who][:, learnt.varies]):.2f}.",
    ]
    if not unmoved.size:
        measured = measured[:-2]
    if fixed:
        measured.append(
            f"{_rewards_of(fixed)} the same under every draw of the prior and therefore not counted: there is "
            "nothing to learn about what the model fixes, such as the cost of the only action in a state."
        )
    if pairs:
        measured.append(
            f"Of the {pairs:,} differences "
            + ("that choices can identify " if len(learnt.prior_alone) else "")
            + "between two "
            + ("actions in the same state" if content.posterior.model.reward.on == "state_action" else "states")
            + (" (of the 40 with most choices)" if len(learnt.cells) > 40 else "")
            + ", the sign is settled (95 % probability, but not under the prior) for "
            f"{_per_subject(settled.sum(axis=1))}. The data leave the others open."
        )
    if len(learnt.prior_alone):
        measured.append(
            f"{len(learnt.prior_alone):,} more differences rest on the prior alone, however certain the posterior "
            "is of them: choices in this environment cannot identify them, so they are neither counted here nor "
            "ranked above."
        )
    parts: list[Any] = [
        element("h2", "What the data can and cannot tell"),
        element("h3", "In principle"),
        element("ul", [element("li", said) for said in what_choices_tell(content.posterior)]),
        element("h3", "In these data"),
        element("ul", [element("li", said) for said in measured]),
    ]
    figures["shifts"] = heat_map(content, learnt.shift, "largest change of a probability", low=0.0, high=1.0)
    parts += [
        figure(
            "shifts",
            title="How much was learnt from the data",
            described="Heat map of how much the posterior of each reward differs from its prior.",
            how="For each reward, the largest change that the data made to the probability of any statement of "
            "the form “this reward is below x”: 0 (dark) means that posterior and prior are equal, so the "
            "value shown above is an assumption; 1 (yellow) means that the two do not overlap. Values below "
            f"{learnt.limit:.2g} count as nothing learnt.{shown_in_map(content)}",
        ),
        _states_table(content),
    ]
    return element("section", parts, id="tell")


def _per_subject(numbers: np.ndarray) -> str:
    if numbers.min() == numbers.max():
        return f"{numbers.min():,} per subject"
    return f"{numbers.min():,} to {numbers.max():,} per subject, {numbers.mean():.1f} on average"


def _rewards_of(fixed: int) -> str:
    return "1 state or pair has a reward that is" if fixed == 1 else f"{fixed:,} states or pairs have rewards that are"


def _states_table(content: Content) -> Markup:
    learnt, names = content.learning, labels(content.learning)
    who = slice(1, None) if learnt.has_population else slice(None)
    counts = content.sample.counts.sum(axis=0)
    on_states = content.posterior.model.reward.on == "state"
    if on_states:
        counts = by_shown_state(content.posterior, counts.T).T
    state, action = learnt.cells["state_index"].to_numpy(), learnt.cells["action_index"].to_numpy()
    seen = counts.sum(axis=1)[state] if on_states else counts[state, action]
    order = np.argsort(-seen, kind="stable")[:LISTED]
    rows = [
        [
            shortened(names[c]),
            int(seen[c]),
            (float(np.median(learnt.sd_ratio[who, c])), f"{np.median(learnt.sd_ratio[who, c]):.2f}"),
            (float(np.median(learnt.shift[who, c])), f"{np.median(learnt.shift[who, c]):.2f}"),
            (float((~learnt.unmoved[who, c]).mean()), per_cent(float((~learnt.unmoved[who, c]).mean()))),
        ]
        if learnt.varies[c]
        else [shortened(names[c]), int(seen[c]), *[(-1.0, "fixed")] * 3]
        for c in order
    ]
    more = f" The {LISTED} of {len(names):,} with most choices." if len(names) > LISTED else ""
    headings = ["reward of", "choices there", "posterior sd / prior sd", "shift", "subjects for whom it was learnt"]
    return table(headings, rows, caption=f"How much was learnt about each reward; medians over subjects.{more}")
