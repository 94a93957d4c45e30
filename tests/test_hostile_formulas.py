"""Formulas from anywhere: nothing in them is run, and any text is a formula or an error."""

import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manymotives.errors import InputError
from manymotives.models.designs import design_of
from test_formulas import design

HOSTILE = [
    "__import__('os').system('touch {}')",
    "os.system('touch {}')",
    "eval('open(1)')",
    "exec('open(1)')",
    "open('{}', 'w')",
    "np.load('{}')",
    "np.savetxt('{}', age)",
    "np.ctypeslib.load_library('{}')",
    "pd.read_pickle('{}')",
    "age.to_csv('{}')",
    "age.__class__",
    "I(age.__class__)",
    "log(age.__class__)",
    "I(__builtins__)",
    "{{open('{}', 'w')}}",
    "I(9**9**9**9)",
    "I(age * 9**9**9**9)",
    "I(age * 9**9**9**9 * 0)",
    "secret",
    "I(secret)",
    "log(secret)",
    "center(TABLE)",
    "(1 | secret)",
    "poly(age, 99999999)",
    "(age + weight)**99999999",
    "`__import__('os')`",
    "lambda: 1",
    "age if age else age",
    "C(site, __import__('os'))",
    "C(site, Treatment(open('{}', 'w')))",
    "bs(age, df=4)",
    "offset(age)",
    "p(age, weight)",
    "log(*age)",
    "f'{{age}}'",
]


@pytest.mark.parametrize("formula", HOSTILE)
def test_nothing_in_a_formula_is_run(formula, tmp_path):
    secret = np.arange(8.0)  # in the caller's namespace, where other libraries look
    target = tmp_path / "touched"
    with pytest.raises(InputError):
        design(formula.format(target))
    assert not Path(target).exists()
    assert len(secret) == 8


WORDS = [
    *"abg",
    "1",
    "0",
    "+",
    "*",
    ":",
    "/",
    "-",
    "**",
    "|",
    "(",
    ")",
    "(1|g)",
    "log(",
    "poly(a, 2)",
    "C(g)",
    "I(",
    "{",
]
WORDS += [
    "}",
    "center(",
    ",",
    "=",
    "~",
    "'x'",
    "`a`",
    "[",
    "]",
    ".",
    "np.",
    "_",
    "%",
    "<",
    "True",
    "é",
    "9",
    "\\",
    "\n",
]


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), st.text(string.printable, max_size=12)))
def test_any_text_is_a_formula_or_an_input_error(text):
    table = {"task": range(12), "a": np.sin(np.arange(12)), "b": np.cos(np.arange(12) ** 2), "g": list("xyz") * 4}
    try:
        found = design_of(text, table, range(12))
    except InputError:
        return
    assert np.linalg.matrix_rank(np.column_stack([np.ones(12), found.columns])) == 1 + len(found.names)
