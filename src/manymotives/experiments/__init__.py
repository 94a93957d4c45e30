"""The paper's experiments, on the public API only: panels, claims, figures, at any scale.

`reproduce(["samplers"], out="run")` from Python, `manymotives reproduce samplers --out run` on the command line.
"""

from manymotives.experiments.panel import Cell, Claim, Look, Panel
from manymotives.experiments.reproduce import PANELS, reproduce

__all__ = ["PANELS", "Cell", "Claim", "Look", "Panel", "reproduce"]
