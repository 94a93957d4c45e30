"""The page: sections one after the other, the data its figures are drawn from, style and script, all in one file."""

from importlib.resources import files
from typing import Any

from manymotives.posterior.effects import has_effects
from manymotives.reporting.content import About, Content
from manymotives.reporting.html import Markup, data_block, element, text
from manymotives.reporting.motives import MotiveContent
from manymotives.reporting.page_motives import MOTIVE_PLACES, motive_sections
from manymotives.reporting.sections_acts import what_would_be_best
from manymotives.reporting.sections_comparison import does_it_predict
from manymotives.reporting.sections_effects import who_differs_and_why
from manymotives.reporting.sections_environment import what_is_not_known
from manymotives.reporting.sections_evidence import could_it_have, did_it_work
from manymotives.reporting.sections_features import what_features_are_worth
from manymotives.reporting.sections_mixture import how_many_motives
from manymotives.reporting.sections_model import how_to_cite, in_short, page_head, warnings, what_was_fitted
from manymotives.reporting.sections_several import has_several, what_each_environment_shows
from manymotives.reporting.sections_subjects import how_they_act, who_resembles_whom
from manymotives.reporting.sections_tell import what_data_tell
from manymotives.reporting.sections_wants import what_they_want
from manymotives.reporting.sections_whatif import what_would_happen

PLACES = (
    ("short", "In short"),
    ("fitted", "Fitted"),
    ("motives", "How many motives"),
    ("effects", "Who differs, and why"),
    ("features", "Features"),
    ("wants", "What they want"),
    ("tell", "What data can tell"),
    ("several", "Environments"),
    ("temperature", "How they act"),
    ("similarity", "Who resembles whom"),
    ("prediction", "Prediction"),
    ("check", "Check"),
    ("policies", "Best policies"),
    ("whatif", "What if"),
    ("environment", "Environment"),
    ("convergence", "Convergence"),
    ("cite", "Cite"),
)
# nothing may be fetched, and only what is in the file may run
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(content: About) -> str:
    """The whole file."""
    figures: dict[str, Any] = {}
    if isinstance(content, MotiveContent):
        sections: list[Markup | None] = [*motive_sections(content, figures)]
        places: tuple[tuple[str, str], ...] = MOTIVE_PLACES
    else:
        assert isinstance(content, Content)
        sections, places = _sections(content, figures), _places(content)
    data = [data_block(name, figures.pop(name, None)) for name in ("rewards", "policies")]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", content.title),
        element("style", _part("style.css")),
    )
    links = [element("li", element("a", words, href=f"#{position}")) for position, words in places]
    body = element(
        "body",
        page_head(content),
        element("nav", element("ul", links), aria_label="Sections"),
        element(
            "main",
            element(
                "noscript",
                element("p", "Figures and sorting need JavaScript; text and tables do not.", class_="failed"),
            ),
            sections,
        ),
        element("footer", "Made by manymotives. This file is self-contained and loads nothing from the network."),
        element("div", id="tip", role="tooltip", hidden=True),
        data,
        data_block("figures", figures),
        element("script", _part("charts.js"), _part("maps.js"), _part("motives.js"), _part("page.js")),
    )
    return f"<!doctype html>\n{element('html', text(head, body), lang='en')}\n"


def _part(name: str) -> Markup:
    """A file of this package, which is ours and therefore markup."""
    return Markup((files("manymotives.reporting") / name).read_text(encoding="utf-8"))


def _sections(content: Content, figures: dict[str, Any]) -> list[Markup | None]:
    """Of subjects who have one motive each."""
    return [
        warnings(content.posterior),
        in_short(content),
        what_was_fitted(content),
        None if content.motives is None else how_many_motives(content.motives, content, figures),
        who_differs_and_why(content, figures) if has_effects(content.posterior) else None,
        None if content.weights is None else what_features_are_worth(content.weights, content, figures),
        what_they_want(content, figures),
        what_data_tell(content, figures),
        what_each_environment_shows(content),
        how_they_act(content, figures),
        who_resembles_whom(content, figures) if content.motives is None else None,
        does_it_predict(content, figures),
        could_it_have(content, figures),
        what_would_be_best(content, figures),
        what_would_happen(content.counterfactuals, figures),
        what_is_not_known(content),
        did_it_work(content),
        how_to_cite(content),
    ]


def _places(content: Content) -> tuple[tuple[str, str], ...]:
    """The sections to jump to, of those that are there."""
    absent = {"environment"} if content.posterior.belief is None else set()
    absent |= set() if has_several(content) else {"several"}
    absent |= set() if has_effects(content.posterior) else {"effects"}
    absent |= {"motives"} if content.motives is None else {"similarity"}
    absent |= {"features"} if content.weights is None else set()
    absent |= set() if content.counterfactuals else {"whatif"}
    return tuple(each for each in PLACES if each[0] not in absent)
