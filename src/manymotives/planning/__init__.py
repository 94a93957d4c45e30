"""What is best: Q*, V*, V^π for one reward or a million."""

from manymotives.planning.verbs import Plan, evaluate, loss, plan, reliable_plan

__all__ = ["Plan", "evaluate", "loss", "plan", "reliable_plan"]
