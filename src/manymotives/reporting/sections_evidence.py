"""Could the model have made these choices, and did the sampler work?"""

from typing import Any

import numpy as np
import xarray as xr
from arviz_stats import ess, rhat

from manymotives.findings import PredictiveCheck
from manymotives.inference.diagnostics import EFFECTIVE, RHAT
from manymotives.reporting.content import About, Content
from manymotives.reporting.html import Markup, element, figure, table
from manymotives.reporting.sections_model import failed
from manymotives.reporting.words import per_cent, records, shortened

DIAGNOSED = 2000  # quantities of a kind, evenly chosen


def could_it_have(content: Content, figures: dict[str, Any]) -> Markup:
    check = content.check
    head = element("h2", "Could the model have produced these choices?")
    if not isinstance(check, PredictiveCheck):
        return element("section", head, failed(check), id="check")
    figures["shares"], outside = _shares(check)
    figures["likely"] = _likely(check)
    worst = check.states.sort_values(["p_distance", "choices"], ascending=[True, False]).head(200)
    said = [
        f"Every choice was simulated again with each of {check.draws} posterior draws, in the states that were "
        "visited. Overall, the replicated choices are at least as far from the model's expectation as the "
        f"observed ones in {per_cent(check.p_value)} of draws (p = {check.p_value:.2f}; a value near 0 means that "
        "the model misses something).",
        f"Of {len(check.shares)} shares of an action in a state, all subjects together, {outside} lie outside "
        f"their 95 % interval; about {0.05 * len(check.shares):.0f} would do so by chance.",
    ]
    if check.repeats is not None:
        repeats = check.repeats
        verdict = (
            "as the model expects"
            if repeats["p"] >= 0.05
            else "which the model, without memory, does not expect; a state that includes the previous step may help"
        )
        said.append(
            f"Subjects repeat their previous action in {repeats['observed']:.1%} of steps; the model would do so "
            f"in {repeats['lower']:.1%} to {repeats['upper']:.1%} (p = {repeats['p']:.2g}), {verdict}.".replace(
                "%", " %"
            )
        )
    if not hasattr(content.posterior, "predictive_policies") or type(content.posterior).__name__.startswith(
        "PolicyOptimality"
    ):
        said.append(
            "In this model policies are inferred independently of rewards, so this checks little more than that "
            "the prior of policies is not too strong."
        )
    return element(
        "section",
        head,
        [element("p", each) for each in said],
        figure(
            "shares",
            title="Choices: expected and observed",
            described="Observed against expected share of every action in every state, with intervals.",
            how="One mark for each action in each state, all subjects together: the share that the model expects "
            "(horizontal) and the observed share (vertical). On the diagonal they agree. The grey line "
            "contains 95 % of replications; marks outside it are open and red. Larger marks represent more "
            "choices.",
        ),
        figure(
            "likely",
            title="How predictable each subject is",
            described="Log-likelihood per choice of each subject, observed and replicated.",
            how="A dot is the log likelihood of a subject's choices under its own fitted model, per choice; the "
            "grey bar contains 95 % of replications. A subject to the left of its bar is more erratic than "
            "the model allows, one to the right is more regular.",
        ),
        table(
            ["subject", "choices", "nats a choice", "less likely replications", "p of distance"],
            [
                [
                    shortened(row.task),
                    int(row.choices),
                    (row.observed, f"{row.observed:.3f}"),
                    (row.p_likelihood, f"{row.p_likelihood:.2f}"),
                    (row.p_distance, f"{row.p_distance:.2f}"),
                ]
                for row in records(check.subjects)
            ],
            caption="By subject: a p-value of the distance near 0 indicates a misfit; one in twenty lies below 0.05 "
            "by chance",
        ),
        table(
            ["state", "choices", "p of distance"],
            [
                [shortened(row.state), int(row.choices), (row.p_distance, f"{row.p_distance:.2f}")]
                for row in records(worst)
            ],
            caption="By state, the worst first"
            + ("" if len(worst) == len(check.states) else f": 200 of {len(check.states)}"),
        ),
        id="check",
    )


def did_it_work(content: About) -> Markup:
    """Convergence: R-hat and effective sizes, the sampler's own records."""
    posterior = content.posterior
    drawn = posterior.data["posterior"].dataset
    mixed = posterior.data.attrs.get("mixing")
    chains = drawn.sizes["chain"]
    said = (
        f"For every quantity: {mixed}."
        if mixed
        else (
            "The warnings at the top say what is wrong, if anything; this method has no chains whose mixing "
            "could be assessed."
        )
        if chains == 1
        else "These chains did not pass every check; the warnings at the top give the details."
    )
    return element(
        "section",
        element("h2", "Did the sampler work?"),
        element("p", said),
        element(
            "p",
            f"R-hat compares chains with each other and should be at most {RHAT}; the number of effective draws "
            f"is the equivalent number of independent draws, and should be at least {EFFECTIVE:.0f} in the bulk "
            "and in the tails. The worst of each kind:",
        ),
        table(
            ["quantity", "how many", "R-hat", "effective draws, bulk", "effective draws, tails"],
            _diagnosed(drawn),
            caption=f"Worst values; for kinds with more than {DIAGNOSED:,} quantities, {DIAGNOSED:,} were checked here",
        ),
        _recorded(posterior.data["sample_stats"].to_dataset()),
        id="convergence",
    )


def _diagnosed(drawn: xr.Dataset) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for name in sorted(drawn.data_vars, key=lambda name: name != "weight"):  # features first
        array = drawn[name]
        if name == "reward" and "weight" in drawn and array[0, 0].size > DIAGNOSED:
            continue  # sums of weights, which are looked at
        behind = [dim for dim in array.dims if dim not in ("chain", "draw")]
        flat = array.transpose("chain", "draw", ...).values.reshape(
            *array.transpose("chain", "draw", ...).shape[:2], -1
        )
        flat = flat[..., np.isfinite(flat).all(axis=(0, 1)) & (flat.std(axis=(0, 1)) > 0)]
        count = flat.shape[-1]
        if count == 0 or flat.shape[1] < 4 or name == "policy":
            continue
        picked = flat[..., np.unique(np.linspace(0, count - 1, min(count, DIAGNOSED)).astype(int))]
        values = xr.Dataset({"x": (("chain", "draw", "item"), picked)})
        with np.errstate(invalid="ignore", divide="ignore"):
            worst = float(rhat(values)["x"].max()) if flat.shape[0] > 1 else float("nan")
            bulk, tail = (float(ess(values, method=kind)["x"].min()) for kind in ("bulk", "tail"))
        shown = (worst, f"{worst:.3f}") if np.isfinite(worst) else "one chain"
        word = str(name).replace("_", " ") + (
            f" (by {', '.join(map(str, behind)).replace('task', 'subject').replace('_', ' ')})" if behind else ""
        )
        rows.append([word, count, shown, (bulk, f"{bulk:,.0f}"), (tail, f"{tail:,.0f}")])
    return rows


def _recorded(statistics: xr.Dataset) -> Markup | None:
    rows = []
    for name, array in statistics.data_vars.items():
        values = np.asarray(array.values, dtype=float) if array.dtype.kind in "fiub" else np.array([])
        values = values[np.isfinite(values)]
        if values.size == 0 or name == "reward_index":
            continue
        rows.append(
            [
                str(name).replace("_", " "),
                *((float(v), f"{v:.4g}") for v in (values.min(), values.mean(), values.max())),
            ]
        )
    if not rows:
        return None
    return element(
        "details",
        element("summary", "What the sampler recorded"),
        table(["statistic", "smallest", "mean", "largest"], rows, caption="Over draws, chains and subjects"),
    )


def _shares(check: PredictiveCheck) -> tuple[dict[str, Any], int]:
    frame = check.shares
    off = ((frame["observed"] < frame["lower"]) | (frame["observed"] > frame["upper"])).to_numpy()
    largest = max(int(frame["choices"].max()), 1) if len(frame) else 1
    points = [
        {
            "x": round(row.expected, 4),
            "y": round(row.observed, 4),
            "lo": round(row.lower, 4),
            "hi": round(row.upper, 4),
            "r": round(2.2 + 4.0 * float(np.sqrt(row.choices / largest)), 1),
            "off": bool(out),
            "tip": f"{row.action} in {row.state}\nobserved {row.observed:.2f} of {row.choices:,} choices\nexpected "
            f"{row.expected:.2f} (95 %: {row.lower:.2f} to {row.upper:.2f})",
        }
        for row, out in zip(records(frame), off)
    ]
    legend = [["dot", "as expected"], ["off", "outside its interval"]]
    spec = {
        "kind": "agreement",
        "points": points,
        "unit": "expected share of choices",
        "unit_y": "observed share",
        "legend": legend,
    }
    return spec, int(off.sum())


def _likely(check: PredictiveCheck) -> dict[str, Any]:
    rows = [
        {
            "label": row.task,
            "mid": round(row.observed, 4),
            "plo": round(row.lower, 4),
            "phi": round(row.upper, 4),
            "off": bool(row.p_likelihood < 0.025 or row.p_likelihood > 0.975),
            "tip": f"{row.task}\nobserved {row.observed:.3f}\nreplicated {row.lower:.3f} to {row.upper:.3f}\n"
            f"{per_cent(row.p_likelihood)} of replications are less likely",
        }
        for row in records(check.subjects)
    ]
    legend = [["dot", "observed"], ["band", "replicated, 95 %"], ["off", "beyond it"]]
    return {"kind": "intervals", "rows": rows, "unit": "log-likelihood per choice (nats)", "legend": legend}
