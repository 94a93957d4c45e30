"""Warnings, what was found in short, what was fitted and on what, and how to cite it."""

import platform

import numpy as np

from manymotives.findings import FeatureWeights, PredictiveCheck, SharedMotives, Similarity
from manymotives.findings.feature_weights import POPULATION_MEAN
from manymotives.models.priors import Prior
from manymotives.posterior import Posterior
from manymotives.posterior.mixture import CLEAR
from manymotives.reporting.content import About, Content
from manymotives.reporting.effect_words import effects_sentence
from manymotives.reporting.html import Markup, element, text
from manymotives.reporting.words import (
    listed,
    method_name,
    model_facts,
    model_name,
    motives_clause,
    per_cent,
    plain_name,
    shortened,
)
from manymotives.versions import MANYMOTIVES, version_of

PAPER = (
    "Dimitrakakis, C., & Rothkopf, C. A. (2011). Bayesian multitask inverse reinforcement learning. European Workshop "
    "on Reinforcement Learning (EWRL)."
)


def warnings(posterior: Posterior) -> Markup:
    """On top of everything."""
    found = posterior.warnings
    if not found:
        return element(
            "section",
            element("h2", "No warnings"),
            element("p", "There are no warnings."),
            class_="warnings fine",
            id="warnings",
        )
    heading = f"{len(found)} warning{'s' if len(found) > 1 else ''}: read {'these' if len(found) > 1 else 'this'} first"
    return element(
        "section",
        element("h2", heading),
        element("ul", [element("li", warning) for warning in found]),
        class_="warnings",
        id="warnings",
    )


def in_short(content: Content) -> Markup:
    """A few sentences, each with where to read on."""
    learnt = content.learning
    who = slice(1, None) if learnt.has_population else slice(None)
    moved, pairs = ~learnt.unmoved[who][:, learnt.varies], learnt.settled[who]
    points = [] if content.motives is None else [("motives", motives_sentence(content.motives))]
    if content.effects is not None and len(content.effects[0]):  # a level alone, such as (1 | mouse), has none
        points.append(("effects", effects_sentence(content.posterior, content.effects[0])))
    points += [] if content.weights is None else [("features", weights_sentence(content.weights))]
    what, between = "rewards", "two of them"
    if content.weights is not None:  # rewards are made of these
        moved, what, between = ~content.weights.unmoved, "weights", "two rewards that follow from them"
    points += [
        (
            "wants",
            f"The data changed {int(moved.sum()):,} of {moved.size:,} {what} noticeably"
            + ("." if moved.all() else "; the others are still as under the prior: assumptions, not findings.")
            + (
                f" Of {pairs.size:,} differences between {between}"
                + (" that choices can identify" if len(learnt.prior_alone) else "")
                + f", {per_cent(pairs.mean())} have a settled sign."
                if pairs.size
                else ""
            ),
        )
    ]
    if isinstance(content.similarity, Similarity):
        points.append(("similarity", groups_sentence(content.similarity)))
    points.append(("prediction", prediction_sentence(content)))
    if isinstance(content.check, PredictiveCheck):
        fits = content.check.p_value
        points.append(
            (
                "check",
                "Choices simulated from the fitted model differ from its expectations at least as much as the "
                f"subjects' choices do in {per_cent(fits)} of replications: "
                + (
                    "the model could well have produced these choices."
                    if fits >= 0.05
                    else "the model misses something in these choices."
                ),
            )
        )
    points.append(("convergence", mixing_sentence(content)))
    return points_in_short(points)


def points_in_short(points: list[tuple[str, str]]) -> Markup:
    """Sentences, each with the section to read on."""
    return element(
        "section",
        element("h2", "In short"),
        element(
            "ul", [element("li", said, " ", element("a", "more", href=f"#{position}")) for position, said in points]
        ),
        id="short",
    )


def weights_sentence(weights: FeatureWeights) -> str:
    """Which features are wanted and which avoided, on average; and whether anybody differs."""
    if weights.average_name is None:
        positive, whose = weights.positive[0], f"Of {shortened(weights.who[0])}"
    else:
        positive = weights.average["p_positive"].to_numpy()
        where = weights.average_name.removeprefix(POPULATION_MEAN)  # with covariates: at their reference
        whose = "On average over subjects" if where == weights.average_name else f"In the population{shortened(where)}"
    names = np.array([f"“{shortened(name)}”" for name in weights.features], dtype=object)
    groups = (("wanted", positive >= 0.95), ("avoided", positive <= 0.05))
    sure = [f"{_named(names[here])} {how}" for how, here in groups if here.any()]
    left = names[(positive > 0.05) & (positive < 0.95)]
    said = (
        f"{' and '.join(sure)}, with a probability of at least 95 % each"
        if sure
        else "no feature is wanted or avoided with certainty"
    )
    said += (
        f"; the sign of {', '.join(left[:8])}{' and others' if len(left) > 8 else ''} is uncertain" if len(left) else ""
    )
    differ = int((weights.differ.sum(axis=(1, 2)) > 0).sum())
    apart = (
        f" Some subjects differ in {differ} of {len(names)} features, with a probability of at least 95 %."
        if differ
        else " No difference between subjects is that certain."
    )
    return f"{whose}, {said}." + (apart if len(weights.who) > 1 else "")


def _named(names: np.ndarray) -> str:
    """Some of these features, and the verb for them."""
    shown = [*names[:8], *([f"{len(names) - 8} more"] if len(names) > 8 else [])]
    before = f"{', '.join(shown[:-1])} and " if len(shown) > 1 else ""
    return f"{before}{shown[-1]} {'is' if len(names) == 1 else 'are'}"


def groups_sentence(alike: Similarity) -> str:
    """Whether subjects fall into groups."""
    groups = alike.clusters
    if np.isnan(groups.p_value):
        return "There are too few subjects, or they are too similar, to determine whether they fall into groups."
    if not groups.is_supported:
        return (
            f"The data support no groups of subjects: they are spread as in a single group (p = {groups.p_value:.2f})."
        )
    sizes = ", ".join(str(size) for size in np.bincount(groups.group))
    return (
        f"Subjects fall into {groups.number} groups (of {sizes}); without groups, subjects would look this "
        f"grouped in {per_cent(groups.p_value)} of cases."
    )


def motives_sentence(motives: SharedMotives) -> str:
    """How many motives there are, and how sure who shares which is."""
    number, found = motives.number["probability"], motives.partition
    best, sizes = int(number.index.to_numpy()[number.argmax()]), ", ".join(str(size) for size in found.table["tasks"])
    prior = motives.number["prior"][best]
    plural = "s" if best > 1 else ""
    said = (
        f"The number of motives is uncertain: the most probable is {best}, with a probability of "
        f"{per_cent(number.max())}."
        if number.max() < CLEAR
        else (
            f"Subjects act on {best} motive{plural}, with a probability of {per_cent(number.max())} (under the "
            f"prior: {per_cent(prior)})."
        )
    )
    groups = f"{found.number} groups (of {sizes})" if found.number > 1 else "one group"
    return (
        f"{said} The partition closest to all draws has {groups}; {per_cent(found.probability)} of draws are exactly "
        "this one."
    )


def mixing_sentence(content: About) -> str:
    mixed = content.posterior.data.attrs.get("mixing")
    if mixed:
        return f"The chains have mixed: {mixed}."
    return "The sampler did not pass every check, or has no chains that could be checked."


def prediction_sentence(content: About) -> str:
    if not content.scores:
        return "Held-out prediction has not been computed."
    table = content.scores[0].table
    best = table.loc[table["log_likelihood"].idxmax()]
    return f"Held-out choices are best predicted by {best['model']}: {best['log_likelihood']:.3f} nats per choice."


def what_was_fitted(content: About) -> Markup:
    posterior = content.posterior
    environment, data = posterior.environment, posterior.data
    counts = data["observed_data"].dataset["counts"].values
    made, visited = counts.sum(axis=(1, 2)), (counts.sum(axis=(0, 2)) > 0).sum()
    drawn = data["posterior"].sizes
    actions = environment.available.sum(axis=1)
    facts = [
        ("Subjects", f"{len(posterior.tasks):,}: {listed(list(posterior.tasks))}"),
        (
            "Choices",
            f"{int(made.sum()):,}; "
            + (
                f"{int(made.min()):,} per subject"
                if made.min() == made.max()
                else f"from {int(made.min()):,} to {int(made.max()):,} per subject, median {np.median(made):,.0f}"
            ),
        ),
        ("Episodes", _episodes(posterior)),
        (
            "States",
            f"{environment.num_states:,}, with choices in {int(visited):,} of them"
            + (f"; {int(environment.is_terminal.sum())} end an episode" if environment.is_terminal.any() else ""),
        ),
        (
            "Actions",
            f"{environment.num_actions}: {listed(list(environment.actions), 8)}"
            + (
                f"; from {int(actions[actions > 0].min())} to {int(actions.max())} of them exist in a state"
                if actions.min() < actions.max()
                else ""
            ),
        ),
        ("Discount", _discount(posterior)),
        (
            "Environment",
            "" if posterior.belief is None else "not known: inferred from the observed transitions (see below)",
        ),
        ("Model", model_name(posterior)),
        *model_facts(posterior),
        ("Method", method_name(posterior)),
        ("Draws", f"{drawn['chain']} × {drawn['draw']:,}"),
        ("Seed", str(data.attrs["seed"])),
        ("Fitted with", f"manymotives {data.attrs['manymotives_version']}"),
        (
            "Report made with",
            f"manymotives {MANYMOTIVES}, Python {platform.python_version()}, "
            + ", ".join(f"{name} {version_of(name)}" for name in ("numpy", "jax", "numba", "xarray", "arviz-stats")),
        ),
    ]
    pairs = [(element("dt", what), element("dd", how)) for what, how in facts if how]
    return element("section", element("h2", "What was fitted, and on what"), element("dl", pairs), id="fitted")


def how_to_cite(content: About) -> Markup:
    posterior = content.posterior
    motives = motives_clause(posterior)
    motives = f", here{motives}," if motives else ""
    ours = f"The manymotives developers. manymotives, version {posterior.data.attrs['manymotives_version']} [software]."
    drawn = posterior.data["posterior"].sizes
    mixed = posterior.data.attrs.get("mixing")
    methods = (
        f"We fitted {plain_name(posterior)} of Dimitrakakis and Rothkopf (2011){motives} to the choices of "
        f"{len(posterior.tasks):,} subjects with manymotives {posterior.data.attrs['manymotives_version']} "
        f"({method_name(posterior)}, seed {posterior.data.attrs['seed']}; {drawn['chain']} × {drawn['draw']:,} "
        f"draws{'; ' + mixed if mixed else ''}). "
        + " ".join(f"{what}: {how}." for what, how in model_facts(posterior))
        + _weights_cited(content)
        + (
            " Rewards are reported in canonical form (without the component that choices cannot identify, scaled "
            "to unit range)."
        )
    )
    return element(
        "section",
        element("h2", "How to cite"),
        element("p", "The method and the software:"),
        element("ul", element("li", PAPER), element("li", ours)),
        element("p", "A paragraph for a methods section, to start from:"),
        element("pre", methods),
        id="cite",
    )


def _weights_cited(content: About) -> str:
    posterior = content.posterior
    if not posterior.has_features:
        return ""
    product = isinstance(posterior.model.inverse_temperature, Prior)
    count = posterior.data["posterior"].sizes["feature"]
    return f" Weights of {count} features are reported{', multiplied by the inverse temperature' if product else ''}."


def _discount(posterior: Posterior) -> str:
    """How much the next step counts, known or inferred."""
    own, known = posterior.mean_discounts(), posterior.environment.discount
    can_infer = posterior.model.abbreviation != "MPO" and getattr(posterior.model, "switching", None) is None
    if own is None and posterior.model.depth is not None:
        return f"{known:g} per step, within the planning depth"
    if own is None:
        return (
            f"{known:g} per step: a reward ten steps away has weight {known**10:.2f}. It was taken as known, not "
            "estimated: Environment(discount=…) or fit --discount sets it (0.95 if nothing is said)"
            + (", mm.Beta(…) or --discount-prior infers it" if can_infer else "")
        )
    each = (
        f"{own.mean():.2f}" if len(own) == 1 or own.max() - own.min() < 0.005 else f"{own.min():.2f} to {own.max():.2f}"
    )
    return f"inferred for each subject: posterior mean {each} per step"


def _episodes(posterior: Posterior) -> str:
    if "demonstrations" not in posterior.data.children:
        return ""
    seen = posterior.demonstrations
    gaps = int((~seen.follows).sum()) - seen.num_episodes
    return f"{seen.num_episodes:,}" + (f", with {gaps:,} gaps in between" if gaps > 0 else "")


def page_head(content: About) -> Markup:
    posterior = content.posterior
    lead = (
        f"What {len(posterior.tasks):,} subject{'s' if len(posterior.tasks) > 1 else ''} want, inferred from "
        f"{int(posterior.data['observed_data'].dataset['counts'].sum()):,} choices with {model_name(posterior)}."
    )
    return element(
        "header",
        element("div", element("h1", content.title), element("p", lead, class_="lead")),
        element("button", "Light / dark", id="theme", type="button"),
    )


def failed(why: str) -> Markup:
    """A part of the report that could not be made says so."""
    return element("p", text("Not shown: "), why, class_="failed")
