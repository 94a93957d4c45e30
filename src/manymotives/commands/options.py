"""What the library says in the terms of Python, in those of the command line: options in place of arguments."""

import re

METHODS = {
    "HMC": "hmc",
    "Gibbs": "gibbs",
    "Metropolis": "metropolis",
    "NestedMonteCarlo": "nested",
    "MonteCarlo": "monte-carlo",
    "EmpiricalBayes": "empirical-bayes",
    "MaximumLikelihood": "maximum-likelihood",
}
MODELS = {"Hierarchical": "mrp", "Pooled": "rp", "Separate": "separate", "Mixture": "mixture"}
ALONE = r"(?<![\w.])"  # not in code, such as sharing=mm.Mixture()
TERMS = (
    (r'method="psis"', "--method none"),
    (r'hold_out=\("tasks", (\d+)\)', r"--hold-out subjects --first \1"),
    (r'hold_out=\("tasks", "own past"\)', "--hold-out subjects --own-past"),
    (r'on="state_action"', "--on pairs"),
    (r'on="state"', "--on states"),
    *((rf"`{name}`", f"--{name.replace('_', '-')}") for name in ("max_rounds", "draws", "thin", "warmup", "chains")),
    *((rf"{ALONE}{name}\(\)", f"--method {option}") for name, option in METHODS.items()),
    *((rf"{ALONE}{name}\(\)", f"--model {option}") for name, option in MODELS.items()),
)


def in_options(text: str) -> str:
    """A message or a warning of the library with the options that stand for what it names in Python."""
    for pattern, option in TERMS:
        text = re.sub(pattern, option, text)
    return text
