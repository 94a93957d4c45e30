"""Held-out prediction: is anything predicted, and is it the motives that predict it?"""

from manymotives.scoring.result import Score
from manymotives.scoring.verb import score

__all__ = ["Score", "score"]
