"""How tasks relate: what is drawn once for all of them, and what for each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hierarchical:
    """Every task has its own reward and temperature, drawn from one population whose parameters are inferred (MRP)."""


@dataclass(frozen=True)
class Separate:
    """Every task stands alone: what is learnt about one says nothing about another."""


@dataclass(frozen=True)
class Pooled:
    """One reward and one temperature for everybody, as if all choices were made by the same agent (RP)."""
