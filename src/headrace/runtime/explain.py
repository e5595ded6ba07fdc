"""What does `explain` print?

The plan's own text, and what the loader adds: where the figures of the storage come from, why it has this much memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.runtime.setup import Setup


def explain_setup(setup: Setup) -> str:
    """The plan of a storage dataset, or the order and steps of a map dataset."""
    if setup.plan is None:
        return _explain_map(setup)
    from headrace.plan.explain import explain

    return "\n".join(
        [explain(setup.plan), *(f"note: {note}" for note in setup.known.notes), f"note: memory is {setup.memory[1]}"]
    )


def _explain_map(setup: Setup) -> str:
    a, steps = setup.arguments, setup.steps
    epochs = "endless" if steps.epochs is None else f"{steps.epochs} epochs"
    who = f"{a.workers} {a.workers_kind}" if a.workers else "the training loop itself"
    return "\n".join(
        [
            f"dataset: {setup.dataset!r}: it reads its samples itself, so the plan is its order and its steps",
            f"order: {setup.order.name}, seed {a.seed}",
            f"steps: {steps.per_epoch:,} of {steps.global_batch_size:,} samples an epoch"
            f"{', the last one left out if smaller' if steps.drop_last else ''}; {epochs}",
            f"fetched by: {who}, up to {setup.workers.ahead} steps ahead",
        ]
    )
