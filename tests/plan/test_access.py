"""When are files mapped? Where a read is a copy in memory, and the page tables take little of it."""

import re
from dataclasses import replace

import pytest

from headrace.errors import PlanError
from headrace.order import make_order
from headrace.plan import decide, explain
from headrace.values.cost import Cost, Storage
from headrace.values.run import Run, Steps
from plan.interpreter import fixed_layout

CACHED = Storage(2e6, 8e9, 1e-6, cached=True)


def run(storage, *, memory=4 << 20):
    layout = fixed_layout(300, (50,), files=3, padding=0)
    return Run(layout, make_order("exact", n=300, seed=0), Steps(300, 10, False, 2), memory, Cost(storage))


def test_what_is_in_the_page_cache_is_mapped_and_what_is_not_is_read():
    """The switch follows the storage, and explain says it."""
    assert decide(run(CACHED)).switches.access == "mapped"
    assert "without a system call" in explain(decide(run(CACHED)))
    assert decide(run(replace(CACHED, cached=False))).switches.access == "buffered"


def test_files_whose_page_tables_outgrow_the_memory_are_read():
    """A page table takes a 512th of what it maps; beside an eighth of the memory it counts."""
    small = run(CACHED)
    files = tuple(replace(file, size=40 << 30) for file in small.layout.files)
    large = replace(small, layout=replace(small.layout, files=files))
    assert decide(large).switches.access == "buffered"
    assert decide(replace(large, memory=4 << 30)).switches.access == "mapped"


def test_access_can_be_forced_and_is_part_of_what_the_hash_names():
    """Another way to read is another plan; a way that does not exist is refused."""
    plans = {access: decide(run(CACHED), access=access) for access in ("buffered", "direct", "mapped")}
    assert [plan.switches.access for plan in plans.values()] == list(plans)
    assert len({plan.hash for plan in plans.values()}) == 3
    with pytest.raises(PlanError, match="access='psychic': expected one of buffered, direct, mapped"):
        decide(run(CACHED), access="psychic")


@pytest.mark.parametrize(
    ("forced", "words"),
    [
        ({"read": "sweep", "residency": "none", "slots": 10**6}, "slots=1,000,000"),
        ({"read": "window", "residency": "none", "slots": 2**31}, "slots=2,147,483,648"),
        ({"read": "sweep", "residency": "none", "lead": 10**6}, "lead=1,000,000"),
        ({"read": "sweep", "residency": "none", "round": 2**40}, "round=1099511627776: expected 0 to"),
        ({"resident": 10**7, "memory": 1 << 19}, "no plan for resident=10000000"),
        ({"resident": -1}, "resident=-1: expected a whole number from 0"),
    ],
)
def test_what_is_forced_beyond_the_memory_is_refused(forced, words):
    """Forced switches bind as memory= does: a plan that would break its bound does not exist."""
    layout = fixed_layout(100_000, (50,), files=3, padding=0)
    memory = forced.pop("memory", 4 << 20)
    order = make_order("exact", n=100_000, seed=0)
    with pytest.raises(PlanError, match=re.escape(words)):
        decide(Run(layout, order, Steps(100_000, 10, False, 2), memory, Cost(Storage(1500, 150e6))), **forced)
