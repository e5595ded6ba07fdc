"""Does the engine deliver what the obvious machine delivers, whatever the spans, the way of reading and the budget?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from engine_spans import BOXES, UNDEFINED, Files, Model, Random, Span, drain, make_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.native.engine import Engine

OPTIONS = st.fixed_dictionaries(
    {
        "threads": st.integers(1, 4),
        "depth": st.sampled_from([1, 3, 16]),
        "access": st.sampled_from(["buffered", "direct", "mapped"]),
        "map_from": st.sampled_from([0, 1 << 20]),
        "map_after": st.sampled_from([0, 1000, 64 << 20]),
        "batch_bytes": st.sampled_from([0, 100, 600, 100_000]),
        "max_spans": st.integers(1, 5),
        "advice": st.sampled_from(["random", "normal"]),
        "drop": st.booleans(),
        "bounce": st.sampled_from([4096, 1 << 20]),
        "bounce_below": st.sampled_from([0, 50, 1 << 30]),
    }
)
SEEDS = st.integers(0, 2**32)
fast = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
both = pytest.mark.parametrize("io", ["threads", "uring"])


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    return make_files(tmp_path_factory.mktemp("data"), [20_000, 4_096, 131_072 + 17])


def compare(*, files: Files, spans: list[Span], arena: int, bad: list, fault: list[dict], options: dict) -> None:
    """Runs the spans on the engine and on the model: steps, bytes and failures must agree.

    How much of a bad piece came before its error depends on where operations end, so only whole files say `got`.
    """
    model = Model(files, np.zeros(arena, np.int16), bad)
    expected = [step for span in spans for step in model.run(span)]
    engine = Engine(paths=files.paths, arena=arena, boxes=BOXES, fault=fault, **options)
    compared = 6 if bad else 7
    try:
        for (number, batch, failures), (step, want, failed) in zip(drain(engine, spans), expected, strict=True):
            assert number == step
            assert [f[:compared] for f in failures] == [f[:compared] for f in failed]
            defined = want != UNDEFINED
            np.testing.assert_array_equal(batch[defined], want[defined])
    finally:
        assert engine.close(10.0)


@both
@fast
@given(seed=SEEDS, count=st.integers(1, 12), slots=st.integers(1, 40), options=OPTIONS)
def test_random_spans_deliver_the_bytes_that_the_model_delivers(files, io, seed, count, slots, options):
    """Any reads, gaps, copies, boxes and reuse of the arena give the model's bytes, at any budget, however it reads."""
    source = Random(np.random.default_rng(seed), files.sizes, slots)
    spans = [source.span(k) for k in range(count)]
    compare(files=files, spans=spans, arena=slots * source.slot, bad=[], fault=[], options={"io": io, **options})


@both
@fast
@given(seed=SEEDS, count=st.integers(1, 8), options=OPTIONS, short=st.sampled_from([1, 7, 1000]))
def test_reads_that_come_short_are_continued(files, io, seed, count, options, short):
    """Reads that return a few bytes at a time deliver the same bytes."""
    source = Random(np.random.default_rng(seed), [4096, 4096, 20_000], 30)
    spans = [source.span(k) for k in range(count)]
    options = {"io": io, **options}
    compare(files=files, spans=spans, arena=30 * source.slot, bad=[], fault=[{"short": short}], options=options)


@both
@fast
@given(seed=SEEDS, count=st.integers(1, 8), options=OPTIONS)
def test_exactly_the_pieces_that_touch_a_bad_range_fail(files, io, seed, count, options):
    """A failing range fails the pieces that overlap it and no other, however they were coalesced."""
    rng = np.random.default_rng(seed)
    bad = [(int(rng.integers(3)), int(rng.integers(0, 20_000)), int(rng.integers(1, 500)), 5) for _ in range(4)]
    fault = [{"file": f, "offset": o, "nbytes": n, "errno": e} for f, o, n, e in bad]
    source = Random(rng, [4096, 4096, 20_000], 30)
    spans = [source.span(k) for k in range(count)]
    options = {"io": io, **options}
    compare(files=files, spans=spans, arena=30 * source.slot, bad=bad, fault=fault, options=options)


@both
@fast
@given(seed=SEEDS, count=st.integers(1, 8), options=OPTIONS)
def test_pieces_beyond_the_end_of_a_file_fail_with_what_was_there(io, seed, count, options):
    """Where a file is cut, whole pieces before the cut arrive; each other piece says how much was there."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        cut = make_files(Path(folder), [int(rng.integers(0, 6000)) for _ in range(3)])
        source = Random(rng, cut.sizes, 30, beyond=3000)
        spans = [source.span(k) for k in range(count)]
        options = {"io": io, **options}
        compare(files=cut, spans=spans, arena=30 * source.slot, bad=[], fault=[], options=options)
