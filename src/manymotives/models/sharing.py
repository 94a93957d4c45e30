"""How tasks relate: what is drawn once for all of them, and what for each."""

from dataclasses import dataclass

from manymotives.io.records import Recorded


@dataclass(frozen=True)
class Hierarchical(Recorded):
    """Every task has its own reward and temperature, drawn from one population whose parameters are inferred (MRP)."""


@dataclass(frozen=True)
class Separate(Recorded):
    """Every task stands alone: what is learnt about one says nothing about another."""


@dataclass(frozen=True)
class Pooled(Recorded):
    """One reward and one temperature for everybody, as if all choices were made by the same agent (RP)."""
