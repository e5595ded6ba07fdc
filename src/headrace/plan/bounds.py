"""What can no plan beat?"""

from __future__ import annotations

from headrace.values.plan import Bound
from headrace.values.run import Run


def lower_bound(run: Run) -> Bound:
    """Reads of an epoch after the first: every use of a sample is one epoch after the last, so only what is resident
    across the boundary is spared, and that is at most what the memory holds. No storage is faster than its bandwidth.
    """
    layout, used = run.layout, run.steps.used
    mean = max(layout.sample_nbytes, 1e-9)
    resident = min(layout.n, int(run.memory / mean))
    samples = max(0, used - resident) if run.order.unique else 0
    nbytes = int(samples * mean)
    return Bound(samples=samples, nbytes=nbytes, seconds=nbytes / run.cost.storage.bandwidth)
