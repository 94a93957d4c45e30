"""A formula in the words of lme4, brms and bambi in, its terms out; nothing in it is ever run as Python.

`formulae` reads the text and expands operators: `a * b`, `(a + b)**2`, `(a | mouse)`. Function calls stay trees, which
`manymotives.models.components` evaluates; here they are held against a list of those that exist.
"""

from itertools import pairwise
from math import comb, prod
from typing import Any, NamedTuple

from formulae.expr import Binary
from formulae.expr import Grouping as Parentheses
from formulae.parser import ParseError, Parser
from formulae.resolver import Resolver
from formulae.scanner import ScanError, Scanner
from formulae.terms import Call, GroupSpecificTerm, Intercept, Model, Term, Variable
from formulae.terms.call_resolver import LazyCall, LazyOperator, LazyValue, LazyVariable

from manymotives.errors import InputError, listed, quoted

LONGEST_FORMULA = 1_000  # characters
MOST_TERMS = 5_000  # that a formula may expand to
ARITHMETIC = frozenset({"add", "pos", "sub", "neg", "pow", "mul", "truediv"})
ELEMENTWISE = ("log", "log2", "log10", "log1p", "exp", "sqrt", "abs")
STATEFUL = ("center", "scale", "standardize")  # of the tasks of the fit, also where new tasks are predicted
IDENTITY, POLYNOMIAL, FACTORS, TREATMENT = "I", "poly", ("C", "T"), "Treatment"


class Component(NamedTuple):
    """What terms are products of: a column, or a function of columns."""

    name: str  # as it is printed: "age", "log(age)", "C(dose)"
    tree: Any  # LazyVariable or LazyCall of `formulae`


Product = tuple[Component, ...]  # one term, such as condition:age


class Grouping(NamedTuple):
    """`(slopes | factor)`: each member of the factor has an intercept and slopes of its own."""

    factor: Product
    slopes: tuple[Product, ...]  # without the intercept, which is always there


class Formula(NamedTuple):
    """What a formula says."""

    text: str
    terms: tuple[Product, ...]  # without the intercept, which is always there
    groupings: tuple[Grouping, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of covariates that it uses."""
        products = [*self.terms, *(each for group in self.groupings for each in (group.factor, *group.slopes))]
        return tuple(dict.fromkeys(name for each in products for part in each for name in column_names(part.tree)))


def parsed(text: Any, parameter: str | None = None) -> Formula:
    """The terms of a formula. A left-hand side, such as `reward ~ age`, must be the parameter that it is for."""
    if not isinstance(text, str):
        raise InputError(f"a formula is text, such as 'condition + age'; found {quoted(text)}.")
    if not text.strip():
        raise InputError("a formula is empty. Write '1' where nothing is to be explained, or terms such as 'age'.")
    if len(text) > LONGEST_FORMULA:
        raise InputError(f"formula {quoted(text)} is longer than {LONGEST_FORMULA:,} characters.")
    try:
        model = _model(text)
    except RecursionError:
        raise InputError(f"formula {quoted(text)} has too many nested parentheses.") from None
    _check_response(model, text, parameter)
    if model.group_terms and not model.common_terms:
        raise InputError(f"formula {quoted(text)}: write groups in parentheses, such as (1 | mouse).")
    if Intercept() not in model.common_terms:
        raise InputError(
            f"formula {quoted(text)} leaves out the intercept, but a population always has a mean. Leave out the "
            "0 or - 1; effects of a factor are then differences from its first level."
        )
    return Formula(text, _products(model.common_terms, text), _groupings(model, text))


def column_names(tree: Any) -> list[str]:
    """The columns that a tree reads, from left to right."""
    if isinstance(tree, LazyVariable):
        return [tree.name]
    parts = getattr(tree, "args", ())
    return [name for part in parts for name in column_names(part)]


def written(tree: Any, inside: bool = False) -> str:
    """A tree as text, with the parentheses that it needs: different trees have different texts."""
    if isinstance(tree, LazyOperator):
        parts = [written(part, inside=True) for part in tree.args]
        text = f" {tree.symbol} ".join(parts) if len(parts) == 2 else f"{tree.symbol}{parts[0]}"
        return f"({text})" if inside else text
    if isinstance(tree, LazyCall):
        named = [f"{word}={written(part)}" for word, part in tree.kwargs.items()]
        return f"{tree.callee}({', '.join([*map(written, tree.args), *named])})"
    return repr(tree.value) if isinstance(tree, LazyValue) else str(tree.name)


def _model(text: str) -> Model:
    """The terms that `formulae` finds; all of the text must be one formula."""
    scanner = Scanner(text)
    try:
        tokens = scanner.scan()
    except (ScanError, IndexError, ValueError):
        raise _unreadable(text, scanner.start) from None
    _check_size(text, tokens)
    parser = Parser(tokens)
    try:
        tree = parser.parse()
    except (ParseError, AttributeError):
        raise _unreadable(text, _place(text, tokens, parser.current)) from None
    if not parser.at_end():  # the parser itself would ignore the rest
        raise _unreadable(text, _place(text, tokens, parser.current))
    _check_powers(tree, text)
    try:
        found = Resolver(tree).resolve()
        return found if isinstance(found, Model) else Model(found)
    except RecursionError:
        raise
    except Exception:  # of any kind: `formulae` does not check what its operators join
        raise InputError(
            f"formula {quoted(text)} cannot be read, because it combines terms in a way that is not allowed. "
            "Terms are combined by +, :, * or /, groups are written (1 | mouse) or (condition | mouse), and "
            "arithmetic is written I(a + b)."
        ) from None


def _unreadable(text: str, place: int) -> InputError:
    rest = text[place:].strip()
    where = f"at {quoted(rest)}, character {place + 1}" if rest else "at its end, where something is missing"
    return InputError(f"formula {quoted(text)} cannot be read {where}. Write it as 'condition + age' or 'a * b'.")


def _place(text: str, tokens: list[Any], position: int) -> int:
    """Where in the text a token begins; the scanner itself put `1 +` in front, or behind the tilde."""
    place, left = 0, 0
    tilde = next((number for number, token in enumerate(tokens) if token.kind == "TILDE"), -1)
    for number, token in enumerate(tokens[: position + 1]):
        if number in (tilde + 1, tilde + 2) or token.kind == "EOF":
            continue
        left = text.index(token.lexeme, place)
        place = left + len(token.lexeme)
    return left if tokens[position].kind != "EOF" else len(text)


def _check_size(text: str, tokens: list[Any]) -> None:
    """Refuse what would expand to too many terms: each is a product of so many names at most."""
    kinds = [token.kind for token in tokens]
    names = sum(kind in ("IDENTIFIER", "BQNAME") for kind in kinds)
    powers = [after.literal or 1 for token, after in pairwise(tokens) if token.kind == "STAR_STAR"]
    power = prod(value for value in powers if isinstance(value, int | float))
    longest = min(names, (1 + sum(kind in ("STAR", "COLON", "SLASH", "PIPE") for kind in kinds)) * power)
    if power > MOST_TERMS or sum(comb(names, size) for size in range(1, int(longest) + 1)) > MOST_TERMS:
        raise InputError(
            f"formula {quoted(text)} can expand to more than {MOST_TERMS:,} terms. Write out the ones you need."
        )


def _check_powers(tree: Any, text: str) -> None:
    """Refuse powers of one term, which formulas take for the term itself."""
    if isinstance(tree, Parentheses):
        _check_powers(tree.expression, text)
    if not isinstance(tree, Binary):
        return
    base = tree.left
    while isinstance(base, Parentheses):
        base = base.expression
    if tree.operator.kind == "STAR_STAR" and not isinstance(base, Binary):
        raise InputError(f"formula {quoted(text)}: the power of a column is written I(age**2); ** alone crosses terms.")
    for part in (tree.left, tree.right):
        _check_powers(part, text)


def _check_response(model: Model, text: str, parameter: str | None) -> None:
    if model.response is None:
        return
    name = str(model.response.term.name)
    if parameter is None:
        raise InputError(
            f"formula {quoted(text)} has a left-hand side. Write the right-hand side alone, or one formula for each "
            f"parameter: {{{quoted(name)}: {quoted(text.split('~', 1)[1].strip())}}}."
        )
    if name != parameter:
        raise InputError(
            f"formula {quoted(text)} is given for {quoted(parameter)}, but its left-hand side is {quoted(name)}. "
            "Write the right-hand side alone."
        )


def _groupings(model: Model, text: str) -> tuple[Grouping, ...]:
    """Group-specific terms, those of one factor together."""
    factors: dict[frozenset[str], Product] = {}  # lab:mouse is mouse:lab
    found: dict[frozenset[str], list[Any]] = {}
    for term in model.group_terms:
        assert isinstance(term, GroupSpecificTerm)
        factor = _product(term.factor, text)
        for part in factor:
            if isinstance(part.tree, LazyCall) and part.tree.callee not in FACTORS:
                raise InputError(f"formula {quoted(text)}: groups are named by a column, not by {quoted(part.name)}.")
        key = frozenset(part.name for part in factor)
        factors.setdefault(key, factor)
        found.setdefault(key, []).append(term.expr)
    for key, terms in found.items():
        if not any(isinstance(term, Intercept) for term in terms):
            raise InputError(
                f"formula {quoted(text)} leaves out the intercept of {quoted(product_name(factors[key]))}, but each of "
                "its members always has one. Leave out the 0."
            )
    return tuple(Grouping(factors[key], _products(terms, text)) for key, terms in found.items())


def _products(terms: list[Any], text: str) -> tuple[Product, ...]:
    """Terms without the intercept, each once, main effects first, as in R; columns in the order of their appearance.

    `formulae` takes a:b and b:a for different terms, and codes a factor by the terms that come before.
    """
    every = [_product(term, text) for term in terms if not isinstance(term, Intercept)]
    ranks: dict[str, int] = {}
    for part in (part for product in every for part in product):
        ranks.setdefault(part.name, len(ranks))
    ordered = [tuple(sorted(product, key=lambda part: ranks[part.name])) for product in every]
    return tuple(sorted({product_name(product): product for product in ordered}.values(), key=len))


def product_name(product: Product) -> str:
    """As it is printed: condition:age."""
    return ":".join(part.name for part in product)


def _product(term: Any, text: str) -> Product:
    """The components of a term, each of which we can evaluate."""
    if not isinstance(term, Term):
        raise InputError(f"formula {quoted(text)} has a term that is neither a column nor a product of columns.")
    return tuple(_component(part, text) for part in term.components)


def _component(part: Any, text: str) -> Component:
    if isinstance(part, Variable):
        if not isinstance(part.name, str) or part.reference is not None:
            found = part.name if part.reference is None else f"{part.name}[{part.reference}]"
            raise InputError(
                f"formula {quoted(text)}: {quoted(found)} is not a term. Terms are names of columns and "
                "functions of them."
            )
        return Component(part.name, LazyVariable(part.name))
    assert isinstance(part, Call)
    _check_call(part.call, text, outermost=True)
    return Component(written(part.call), part.call)


def function_of(call: LazyCall) -> str:
    """The name of a function; np.log is log."""
    return str(call.callee).removeprefix("np.")


def _check_call(tree: Any, text: str, outermost: bool = False) -> None:
    """Refuse whatever is not on our lists: a formula may come from a file."""
    if isinstance(tree, LazyOperator):
        if tree.op.__name__ not in ARITHMETIC:
            raise InputError(f"formula {quoted(text)}: {quoted(tree.symbol)} is not arithmetic. Use + - * / **.")
        for part in tree.args:
            _check_call(part, text)
        return
    if isinstance(tree, LazyValue):
        if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
            raise InputError(f"formula {quoted(text)}: {quoted(tree.value)} is not a number.")
        return
    if isinstance(tree, LazyVariable):
        return
    name, args, kwargs = function_of(tree), tree.args, tree.kwargs
    if outermost and name in FACTORS:
        _check_factor(tree, text)
        return
    if outermost and name == POLYNOMIAL:
        _check_polynomial(tree, text)
        return
    if name not in (*ELEMENTWISE, *STATEFUL, IDENTITY):
        known = [*ELEMENTWISE, *STATEFUL, IDENTITY, POLYNOMIAL, "C"]
        inside = " inside another function" if name in (*FACTORS, POLYNOMIAL) else ""
        raise InputError(
            f"formula {quoted(text)}: there is no function {quoted(name)}{inside}. The functions are "
            f"{listed(known, 20)}."
        )
    if len(args) != 1 or kwargs:
        raise InputError(f"formula {quoted(text)}: {name} takes one column, or arithmetic of columns.")
    if not column_names(args[0]):
        raise InputError(f"formula {quoted(text)}: {quoted(written(tree))} does not depend on any column.")
    _check_call(args[0], text)


def _check_factor(call: LazyCall, text: str) -> None:
    """C(column), C(column, "reference"), C(column, Treatment("reference")), T(column, "reference")."""
    args = call.args
    if call.kwargs or not 1 <= len(args) <= 2 or not isinstance(args[0], LazyVariable):
        raise InputError(f"formula {quoted(text)}: write {call.callee}(column) or {call.callee}(column, 'reference').")
    if len(args) == 2:
        reference_of(call, text)


def reference_of(call: LazyCall, text: str) -> str | None:
    """The level that the others are compared with, where a call names one."""
    if len(call.args) < 2:
        return None
    given = call.args[1]
    if isinstance(given, LazyCall) and given.callee == TREATMENT and len(given.args) == 1 and not given.kwargs:
        given = given.args[0]
    if not isinstance(given, LazyValue):
        raise InputError(
            f"formula {quoted(text)}: factors have treatment coding, each level against a reference. Write "
            f"{call.callee}(column, 'reference'); found {quoted(written(given))}."
        )
    return str(given.value)


def degree_of(call: LazyCall) -> int | None:
    """The degree of a polynomial; None where it is none."""
    given = [*call.args[1:], *call.kwargs.values()]
    value = given[0].value if len(given) == 1 and isinstance(given[0], LazyValue) else None
    is_whole = isinstance(value, int) and not isinstance(value, bool) and set(call.kwargs) <= {"degree"}
    return int(value) if is_whole and value is not None and 1 <= value <= 9 else None


def _check_polynomial(call: LazyCall, text: str) -> None:
    if not call.args or degree_of(call) is None or not column_names(call.args[0]):
        raise InputError(f"formula {quoted(text)}: write poly(column, 2), with a degree from 1 to 9.")
    _check_call(call.args[0], text)
