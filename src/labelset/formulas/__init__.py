"""A loss as an expression: recorded from its function in torch, simplified, differentiated."""

from labelset.formulas.formula import Formula, Step
from labelset.formulas.tracer import NotTraceable, trace

__all__ = ["Formula", "NotTraceable", "Step", "trace"]
