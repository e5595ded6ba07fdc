"""Segments are arithmetic: every composition equals the same composition of a table of extents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.formats.segments import join_segments, make_segments, merge_segments, storage_rank, take_segments
from headrace.formats.selection import resolve_selection, split_ids


@st.composite
def segments(draw):
    """Segments of random runs; half of them begin where the one before would have gone on."""
    runs: list[list[int]] = []
    for _ in range(draw(st.integers(1, 6))):
        run = [draw(v) for v in (st.integers(1, 5), st.integers(0, 2), st.integers(0, 99), st.sampled_from([4, 8]))]
        if runs and draw(st.booleans()):
            count, file, offset, stride, _ = runs[-1]
            run[1], run[2] = file, offset + count * stride
        runs.append([*run, draw(st.integers(1, 2))])
    counts, file, offset, stride, nbytes = zip(*runs, strict=True)
    return make_segments(counts=counts, file=file, offset=offset, stride=stride, nbytes=nbytes)


def test_runs_of_no_samples_are_dropped():
    s = make_segments(counts=[0, 2, 0, 1], file=[0, 1, 2, 3], offset=0, stride=1, nbytes=1)
    assert (s.n, s.first.tolist(), s.file.tolist()) == (3, [0, 2], [1, 3])


def table(s):
    return [tuple(int(v) for v in row) for row in zip(*s.locate(np.arange(s.n)), strict=True)]


def assert_well_formed(s):
    assert s.first[0] == 0 and (np.diff(s.first) > 0).all() and s.first[-1] < s.n


@given(segments())
def test_merging_changes_no_extent(s):
    merged = merge_segments(s)
    assert_well_formed(merged)
    assert table(merged) == table(s)
    assert len(merged.first) <= len(s.first)


def test_runs_that_continue_each_other_become_one():
    s = make_segments(counts=[3, 2, 4], file=0, offset=[10, 22, 30], stride=4, nbytes=3)
    assert len(merge_segments(s).first) == 1


@given(segments(), st.data())
def test_a_slice_takes_the_rows_of_the_table(s, data):
    chosen = data.draw(st.slices(s.n).filter(lambda c: len(range(s.n)[c]) > 0))
    ids = resolve_selection(chosen, n=s.n)
    taken = take_segments(s, ids)
    assert_well_formed(taken)
    assert table(taken) == table(s)[chosen]
    if isinstance(ids, range):
        assert len(taken.first) <= len(s.first)


@given(segments(), st.data())
def test_a_row_of_ids_takes_the_rows_of_the_table(s, data):
    ids = data.draw(st.lists(st.integers(0, s.n - 1), min_size=1, max_size=20))
    taken = take_segments(s, resolve_selection(ids, n=s.n))
    assert_well_formed(taken)
    assert table(taken) == [table(s)[i] for i in ids]


@given(st.lists(segments(), min_size=1, max_size=4))
def test_joining_appends_the_tables(pieces):
    maps = [np.array([10 * i, 10 * i + 1, 10 * i + 2], np.int32) for i in range(len(pieces))]
    joined = join_segments(pieces, file_maps=maps)
    assert_well_formed(joined)
    assert table(joined) == [(10 * i + f, o, n) for i, p in enumerate(pieces) for f, o, n in table(p)]


@given(segments())
def test_the_storage_rank_sorts_by_file_and_offset_and_is_left_out_where_ids_do(s):
    rank = storage_rank(s)
    places = [(f, o) for f, o, _ in table(s)]
    if rank is None:
        assert places == sorted(places)
    else:
        assert [places[i] for i in np.argsort(rank)] == sorted(places)
        assert sorted(rank.tolist()) == list(range(s.n))


def test_a_billion_samples_are_cut_without_a_table():
    """A slice costs by the segment, not by the sample."""
    s = make_segments(counts=10**9, file=0, offset=2048, stride=100, nbytes=100)
    taken = take_segments(take_segments(s, range(10, 10**9, 3)), range(5, 10**8))
    assert len(taken.first) == 1
    assert taken.locate(np.array([7]))[1].tolist() == [2048 + (10 + 12 * 3) * 100]
    assert storage_rank(taken) is None


@given(st.integers(1, 300), st.data())
def test_splits_are_disjoint_and_as_large_as_asked(n, data):
    cut = data.draw(st.integers(1, n))
    parts = [cut] if cut == n else [cut, n - cut]
    for shuffle in (False, True):
        ids = [i for part in split_ids(parts, n=n, seed=3, shuffle=shuffle) for i in part]
        assert sorted(ids) == list(range(n))


def test_a_shuffled_split_is_the_same_for_ever():
    """Golden values: a split that moved would leak validation samples into training after an upgrade."""
    first = split_ids([3, 7], n=10, seed=0, shuffle=True)[0]
    second = split_ids([3, 7], n=10, seed=1, shuffle=True)[0]
    assert list(first) == [1, 5, 7]
    assert list(second) == [0, 3, 5]


def test_a_shuffled_split_deals_evenly():
    """Each sample falls into the first half in about half of 400 seeds (6 sigma: 140 to 260)."""
    hits = np.zeros(50, int)
    for seed in range(400):
        hits[np.asarray(list(split_ids([25, 25], n=50, seed=seed, shuffle=True)[0]))] += 1
    assert hits.min() > 140 and hits.max() < 260


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "at least one"),
        ([5, 6], "ask for 11 samples"),
        ([0.5, 0.6], "ask for"),
        ([5, 0.5], "mixture"),
        ([0, 5], "part 0 .* is empty"),
        ([0.001, 0.9], "part 0 .* is empty"),
        ([5, -1], "part 1 .* is empty"),
    ],
)
def test_impossible_splits_are_refused(parts, said):
    with pytest.raises(InputError, match=said):
        split_ids(parts, n=10, seed=0, shuffle=True)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ([], "holds none"),
        (slice(5, 5), "holds none"),
        (np.zeros(10, bool), "holds none"),
        (np.zeros(9, bool), "mask has 9"),
        ([0.5], "integers"),
        ([[1]], "row of ids"),
        (3, "row of ids"),
        ([10], "10 does not exist"),
        (range(5, 12), "11 does not exist"),
    ],
)
def test_impossible_selections_are_refused(chosen, said):
    with pytest.raises(InputError, match=said):
        resolve_selection(chosen, n=10)


def test_equal_selections_are_equal_values():
    """However they are written, so that fingerprints agree."""
    mask = np.zeros(10, bool)
    mask[2:5] = True
    for chosen in ([2, 3, 4], mask, slice(2, 5), range(2, 5), (i for i in (2, 3, 4))):
        assert resolve_selection(chosen, n=10) == range(2, 5)
