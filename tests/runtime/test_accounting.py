"""What is read is what the plan names: every operation, every byte, in every mode, over random runs."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from runs import DISK, check

from headrace.errors import InputError, PlanError
from headrace.plan import expand, forecast
from headrace.runtime.failures import Failures, Policy
from headrace.runtime.setup import Arguments, Setup
from headrace.runtime.storage import Reading, StorageSource
from headrace.values.plan import READ_MODES, RESIDENCIES

N = 203

ORDERS = st.sampled_from(
    [
        {"shuffle": "exact"},
        {"shuffle": "echo", "order_options": {"carry": 50}},
        {"shuffle": "group", "order_options": {"size": 40}},
        {"shuffle": "window", "order_options": {"size": 60}},
        {"shuffle": "sequential"},
    ]
)
RUNS = st.fixed_dictionaries(
    {
        "global_batch_size": st.integers(1, 60),
        "epochs": st.integers(1, 3),
        "seed": st.integers(0, 2**40),
        "drop_last": st.booleans(),
        "memory": st.integers(5 << 20, 20 << 20),
    }
)
SWITCHES = st.fixed_dictionaries(
    {"gap": st.sampled_from([None, 0, 40_000, 1 << 20]), "max_read": st.sampled_from([None, 5_000, 100_000])}
)


def carried_out(plan, io, **reading):
    """The ids of all steps, the engine's sums and every operation that it issued."""
    source = StorageSource(
        plan=plan, spans=partial(expand, plan), failures=Failures(Policy("raise", None)),
        reading=Reading(io=io, trace=True, **reading), timeout=20.0, held=0,
    )  # fmt: skip
    source.open()
    try:
        ids = []
        while (batch := source.next()) is not None:
            ids.append(check(batch))
        return ids, source.counters(), source._engine.trace()
    finally:
        source.cancel()
        assert source.join(10.0)


@pytest.mark.parametrize("how", ["threads", "uring", "mapped"])
@pytest.mark.parametrize("residency", RESIDENCIES)
@pytest.mark.parametrize("read", READ_MODES)
@settings(max_examples=8)
@given(run=RUNS, order=ORDERS, switches=SWITCHES)
def test_every_operation_is_one_that_the_plan_names(train, read, residency, how, run, order, switches):
    """Operations, bytes and ranges equal those of `expand` and their sums those of `forecast`, to the byte."""
    switches = {key: value for key, value in switches.items() if value is not None}
    switches["access"] = "mapped" if how == "mapped" else "buffered"
    io = "uring" if how == "uring" else "threads"
    setup = Setup(
        Arguments(train, storage=DISK, switches={"read": read, "residency": residency, **switches}, **run, **order)
    )
    try:
        plan = setup.plan
    except (PlanError, InputError):
        assume(False)  # no such plan in this memory, or no step: other tests hold what is said then
    spans = list(expand(plan))
    ids, counters, trace = carried_out(plan, io, map_from=0, map_after=0)

    assert counters["operations"] == sum(len(span.reads) for span in spans) == len(trace)
    assert counters["bytes"] == sum(span.nbytes for span in spans)
    named = Counter((int(r["file"]), int(r["offset"]), int(r["nbytes"])) for span in spans for r in span.reads)
    issued = Counter((int(r["file"]), int(r["offset"]), int(r["nbytes"])) for r in trace)
    assert issued == named, "an operation that the plan does not name, or a named one that was not issued"
    epochs = forecast(plan, epochs=run["epochs"])
    assert sum(e.operations for e in epochs) == counters["operations"]
    assert sum(e.nbytes for e in epochs) == counters["bytes"]

    steps = plan.run.steps
    for epoch in range(run["epochs"]):
        delivered = np.concatenate(ids[epoch * steps.per_epoch : (epoch + 1) * steps.per_epoch])
        np.testing.assert_array_equal(delivered, plan.run.order.ids(epoch, 0, steps.used))
