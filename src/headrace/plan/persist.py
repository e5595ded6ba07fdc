"""How is a kept plan proved? Some hundred bytes of JSON and a hash name it; `expand` makes everything else again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from headrace.errors import StateError
from headrace.plan.decide import decide
from headrace.values.plan import Plan, Switches
from headrace.values.run import Run


def plan_from_dict(saved: Mapping[str, Any], run: Run) -> Plan:
    """The saved plan for `run`; StateError where the run is not the one that the plan was made for."""
    wanted, found, switches = run.spec(), saved.get("run"), saved.get("switches")
    if not isinstance(found, dict) or not isinstance(switches, dict):
        raise StateError(
            f"no plan: expected an object with 'run' and 'switches', found {', '.join(saved) or 'nothing'}"
        )
    different = [k for k in sorted(set(wanted) | set(found)) if wanted.get(k) != found.get(k)]
    if different:
        listed = "; ".join(f"{k}: the plan has {found.get(k)!r}, this run {wanted.get(k)!r}" for k in different)
        raise StateError(f"the saved plan belongs to another run: {listed}")
    known = {f.name for f in fields(Switches)}
    if set(switches) != known:
        odd = ", ".join(sorted(set(switches) ^ known))
        raise StateError(f"the saved plan has other switches than this version ({odd}): make the plan again")
    forced = {**switches, "ramp_gaps": tuple(switches["ramp_gaps"])}
    plan = decide(run, **forced)
    if plan.hash != saved.get("hash"):
        raise StateError(
            f"the saved plan's hash is {saved.get('hash')}, its content makes {plan.hash}: the file was edited, or "
            "this version decides differently; make the plan again"
        )
    return plan
