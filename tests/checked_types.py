"""What annotations promise, checked as functions are called: by beartype, but not what users give to public functions.

Public functions check what they are given themselves, and answer with a sentence (`InputError`) that the tests read.
Beartype would come first, with an error that no user sees. What these functions return it checks as everywhere.
"""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beartype import beartype

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "manymotives"
LISTS = ("__init__.pyi", "baselines/__init__.py", "findings/__init__.py", "io/__init__.py", "plots/__init__.py")


def names_in(path: Path) -> set[str]:
    """`__all__` of a module that is not imported yet."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{path} has no __all__")


PUBLIC = set().union(*(names_in(PACKAGE / path) for path in LISTS))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Called by jaxtyping's import hook on every function, or rather on copies of its signature."""
    if function.__qualname__ in PUBLIC:  # classes are checked by their methods, whose names have a dot
        kept = {name: kind for name, kind in function.__annotations__.items() if name == "return"}
        function.__annotations__ = kept
    return beartype(function)
