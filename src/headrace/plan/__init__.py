"""Who reads, keeps and sends what, and when? Two verbs: `decide` sets the switches, `expand` works them out."""

from headrace.plan.decide import decide
from headrace.plan.expand import expand
from headrace.plan.explain import explain, explain_dict
from headrace.plan.forecast import forecast
from headrace.plan.persist import plan_from_dict

__all__ = ["decide", "expand", "explain", "explain_dict", "forecast", "plan_from_dict"]
