"""A probe finds the figures of a storage, within its seconds and its bytes, and says what it could not see."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost.modelled import ModelledDevice
from headrace.cost.estimate import Burst, figure_of, rate, storage_of
from headrace.cost.probe import SMALL, measure, phases
from headrace.errors import DataError, InputError
from headrace.values.measured import Figure, measured_from_dict

WHEN = 1_700_000_000.0


def probe(device, **options):
    return measure(device, **({"path": "/data", "name": "a model", "when": WHEN} | options))


@given(
    iops=st.floats(100, 300_000),
    bandwidth=st.floats(50e6, 8e9),
    latency=st.floats(1e-5, 1e-2),
    size=st.sampled_from([100, 4096, 19_200, 131_072, 2 << 20]),
)
def test_a_probe_finds_the_figures_of_a_model(iops, bandwidth, latency, size):
    """Operations, bytes and seconds of one read, where 32 reads in flight can show them."""
    device = ModelledDevice(iops=iops, bandwidth=bandwidth, latency=latency)
    found = probe(device, size=size).storage
    block = min(-(-size // SMALL) * SMALL, 1 << 20)
    shown = min(8 / latency, iops, bandwidth / (1 << 20)) * (1 << 20)  # large reads go 8 at a time
    widest = min(iops, 32 / latency, bandwidth / block)
    assert found.bandwidth == pytest.approx(max(shown, widest * block), rel=0.2)
    alone = max(latency, 1 / iops, block / bandwidth)
    assert found.latency == pytest.approx(alone, rel=0.01)
    if widest * block < 0.5 * shown:
        assert found.iops == pytest.approx(widest, rel=0.2)
    else:
        assert found.iops >= 0.8 * widest


@given(
    iops=st.floats(10, 500_000),
    bandwidth=st.floats(1e6, 8e9),
    latency=st.floats(1e-6, 5e-2),
    seconds=st.floats(0.2, 10),
    nbytes=st.integers(8 << 20, 1 << 30),
)
def test_a_probe_keeps_to_its_seconds_and_bytes(iops, bandwidth, latency, seconds, nbytes):
    """Reads that are under way at the end are waited for, and nothing is started after it."""
    device = ModelledDevice(iops=iops, bandwidth=bandwidth, latency=latency)
    try:
        found = probe(device, seconds=seconds, nbytes=nbytes)
    except DataError:
        pass  # too slow a model for so short a time
    else:
        assert found.nbytes <= nbytes
    assert sum(total for _, _, total, _ in device.bursts) <= nbytes
    slowest = max(latency * 32, 32 / iops, 32 * (1 << 20) / bandwidth)
    assert device.now <= seconds + len(device.bursts) * slowest


@given(depth=st.integers(1, 64), latency=st.floats(1e-6, 1.0), rounds=st.integers(2, 50))
def test_the_rate_of_a_full_queue_is_littles_law(depth, latency, rounds):
    """Filling the queue does not count."""
    ended = np.repeat(np.arange(1, rounds + 1) * latency, depth)
    assert rate(ended, depth=depth) == pytest.approx(depth / latency)


def test_a_burst_of_few_reads_still_has_a_rate():
    """A slow disk makes fewer reads than there are threads."""
    burst = Burst(np.array([0.0, 0.0]), np.array([0.5, 1.0]), 8192)
    found = figure_of(burst, pattern="random", how="direct", depth=32)
    assert (found.rate, found.nbytes, found.operations, found.latency) == (2.0, 4096, 2, 0.75)


def figure(pattern, how, rate, nbytes, depth=32):
    return Figure(pattern, how, depth, nbytes, 100, 1.0, rate, 1e-3)


def test_reads_through_the_page_cache_count_where_they_were_measured():
    """For that is how the engine reads."""
    direct = [figure("random", "direct", 5000, 16384), figure("sequential", "direct", 200, 1 << 20)]
    both = [*direct, figure("random", "buffered", 4000, 16384), figure("sequential", "buffered", 150, 1 << 20)]
    assert storage_of(direct, name="x", source="y").iops == 5000
    assert storage_of(both, name="x", source="y").iops == 4000
    assert storage_of(both, name="x", source="y").bandwidth == 150 << 20
    half = both[:3]
    assert storage_of(half, name="x", source="y").iops == 5000


def test_large_reads_do_not_pass_for_a_limit_of_operations():
    """150 reads of 1 MiB a second at 150 MiB/s are bytes that take time: small reads show the operations."""
    device = ModelledDevice(iops=1500, bandwidth=150 << 20, latency=1e-3)
    assert probe(device, size=1 << 20).storage.iops == pytest.approx(1500, rel=0.1)


def test_what_a_probe_says_beside_the_storage():
    """Break-even, the price of random reads, the date."""
    found = probe(ModelledDevice(iops=1500, bandwidth=150e6, latency=1e-4))
    assert found.break_even == pytest.approx(100_000, rel=0.15)
    assert found.random_costs == pytest.approx(150e6 / 1500 / 16384, rel=0.15)
    assert found.storage.source == f"measured {found.date}" == "measured 2023-11-14"
    assert not found.storage.cached and found.notes == ()
    assert {(f.how, f.pattern) for f in found.figures} == {
        (how, pattern) for how in ("direct", "buffered") for pattern in ("random", "sequential")
    }
    assert [f.depth for f in found.figures if f.nbytes == 16384 and f.how == "direct"] == [1, 4, 16, 32]


def test_a_measurement_survives_json():
    """To the last digit."""
    found = probe(ModelledDevice(iops=1500, bandwidth=150e6, latency=1e-4))
    assert measured_from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_files_in_the_page_cache_are_read_around_it_only():
    """A buffered read of them would measure memory; a direct one does not."""
    device = ModelledDevice(iops=1500, bandwidth=150e6, latency=1e-4, cached=1.0)
    found = probe(device)
    assert {f.how for f in found.figures} == {"direct"}
    assert any("outside the page cache" in note for note in found.notes)
    assert all(direct for _, direct, *_ in device.bursts)


def test_where_the_kernel_does_not_tell_what_is_cached_only_direct_reads_count():
    """And the measurement says so."""
    found = probe(ModelledDevice(iops=1500, bandwidth=150e6, latency=1e-4, tells=False))
    assert {f.how for f in found.figures} == {"direct"}
    assert "does not tell" in found.notes[0]


@pytest.mark.parametrize("tells", [True, False])
def test_a_filesystem_without_direct_reads_is_measured_through_the_cache(tells):
    """With a doubt that is written down, where nobody knows what was cached."""
    found = probe(ModelledDevice(iops=1500, bandwidth=150e6, latency=1e-4, direct=False, tells=tells))
    assert {f.how for f in found.figures} == {"buffered"}
    assert found.storage.iops == pytest.approx(1500, rel=0.1)
    assert any("may be of the page cache" in note for note in found.notes) == (not tells)


def test_a_rate_that_may_be_the_probes_own_is_called_at_least():
    """Python's threads end before a fast drive does."""
    device = ModelledDevice(iops=90_000, bandwidth=8e9, latency=1e-5, limit=100_000)
    assert any(note.startswith("at least") for note in probe(device).notes)


def test_a_probe_that_sees_nothing_is_an_error_that_says_what_to_do():
    """Not a figure made of nothing."""
    with pytest.raises(DataError, match=r"saw no random reads.*Storage"):
        probe(ModelledDevice(iops=1, bandwidth=1e9, latency=1, size=1000))
    with pytest.raises(InputError, match="sees nothing"):
        probe(ModelledDevice(iops=1, bandwidth=1e9, latency=1), nbytes=1000)


@pytest.mark.parametrize("size", [1, SMALL, SMALL + 1, 1 << 20])
def test_the_shares_of_the_phases_do_not_pass_one(size):
    """Else the budget would not hold."""
    assert sum(p.of_seconds for p in phases(size)) <= 1.0001
    assert sum(p.of_bytes for p in phases(size)) <= 1.0001


def test_whoever_watches_is_told_of_every_phase():
    """So that seconds of silence have a name."""
    told = []
    probe(ModelledDevice(iops=1500, bandwidth=150e6, latency=1e-4), watch=told.append)
    assert told == [p.label for p in phases(16384)]
