"""Every message a bad input can cause, word for word, in error_messages.txt: read it aloud.

Each names the thing, the place, what was found and, where it is not plain, what to do.
"""

from pathlib import Path

import pytest

import manymotives as mm
from error_gallery_comparisons import COMPARISONS
from error_gallery_counterfactual import COUNTERFACTUALS
from error_gallery_data import DATA
from error_gallery_design import DESIGNS
from error_gallery_environments import ENVIRONMENTS
from error_gallery_formulas import FORMULAS
from error_gallery_likelihood import LIKELIHOODS
from error_gallery_mixture import MIXTURES
from error_gallery_models import MODELS
from error_gallery_power import POWER

ROOMS = (DATA, MODELS, COMPARISONS, FORMULAS, ENVIRONMENTS, MIXTURES, POWER, LIKELIHOODS, COUNTERFACTUALS, DESIGNS)
GALLERY = {name: picture for room in ROOMS for name, picture in room.items()}
assert len(GALLERY) == sum(map(len, ROOMS))  # no name in two of them
MESSAGES = Path(__file__).with_name("error_messages.txt")


def expected():
    """From the file: a name on one line, its message, indented, on the next."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()
    return {name: message.strip() for name, message in zip(lines[::2], lines[1::2])}


@pytest.mark.parametrize("name", GALLERY)
def test_bad_input_is_told_what_is_wrong(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mm.errors.InputError) as caught:
        GALLERY[name]()
    assert str(caught.value) == expected()[name]


def test_the_gallery_holds_no_picture_twice_and_none_is_forgotten():
    assert list(expected()) == list(GALLERY)
