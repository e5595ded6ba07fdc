"""What must hold for every format? A test of a format subclasses `ConformanceSuite` and gives it one golden dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from headrace.errors import ChangedFileError, DataError, FieldError, FormatError, InputError, TruncatedFileError
from headrace.formats import Dataset, concat, inspect
from headrace.formats.check import check_bounds, check_unchanged


@dataclass(frozen=True)
class Golden:
    """A dataset written by the format's own library, and what that library reads back, sample by sample."""

    open: Callable[[], Dataset]
    expected: dict[str, Sequence[np.ndarray]]
    last_file: str

    @property
    def n(self) -> int:
        return len(next(iter(self.expected.values())))


def assert_reads(dataset: Dataset, ids: Sequence[int], expected: dict[str, Sequence[np.ndarray]], rows=None) -> None:
    """`dataset.read(ids)` equals the expected values at `rows` (default: the same ids), bit by bit, in native order."""
    rows = ids if rows is None else rows
    got = dataset.read(ids)
    assert list(got) == list(dataset.fields)
    for name, values in got.items():
        assert len(values) == len(rows)
        for value, row in zip(values, rows, strict=True):
            want = np.asarray(expected[name][row])
            have = np.asarray(value)
            assert have.shape == want.shape, name
            assert have.dtype == want.dtype.newbyteorder("="), name
            assert have.tobytes() == want.astype(want.dtype.newbyteorder("=")).tobytes(), (name, row)


def assert_extents_valid(dataset: Dataset) -> None:
    """Every extent lies in its file, and no two samples of a part overlap."""
    check_bounds(dataset.layout)
    for field in dataset.fields.values():
        for part in field.parts:
            s = part.segments
            assert s.n == dataset.n
            assert s.first[0] == 0 and (np.diff(s.first) > 0).all()
            file, offset, nbytes = s.locate(np.arange(s.n))
            assert (offset >= 0).all()
            order = np.lexsort((offset, file))
            file, offset, nbytes = file[order], offset[order], nbytes[order]
            assert ((file[1:] > file[:-1]) | (offset[1:] >= offset[:-1] + nbytes[:-1])).all()


class ConformanceSuite:
    """Laws of every format; `golden` writes at least 8 samples."""

    @pytest.fixture
    def golden(self, tmp_path) -> Golden:
        raise NotImplementedError

    def test_reads_equal_the_formats_own_library(self, golden):
        """Every sample of every field is what the library that wrote it reads."""
        ds = golden.open()
        assert len(ds) == ds.n == golden.n
        assert set(ds.fields) == set(golden.expected)
        assert_reads(ds, range(ds.n), golden.expected)
        assert_reads(ds, [ds.n - 1, 0, 0], golden.expected)

    def test_extents_lie_in_their_files_and_do_not_overlap(self, golden):
        """No two samples share bytes of a part, and none reaches beyond its file."""
        assert_extents_valid(golden.open())

    def test_subset_reads_what_it_selects(self, golden):
        """A slice, a mask and a row of ids each give the samples that they name, in that order."""
        ds = golden.open()
        everything = np.arange(ds.n)
        mask = everything % 3 == 1
        for chosen in (slice(1, None, 2), slice(None, None, -1), mask, [5, 2, 3, 4, 4], np.array([7])):
            rows = np.flatnonzero(mask) if chosen is mask else everything[chosen]
            part = ds.subset(chosen)
            assert_reads(part, range(len(part)), golden.expected, rows=rows)

    def test_subset_of_subset_is_subset(self, golden):
        """Selecting twice reads what selecting once with the composed ids reads."""
        ds = golden.open()
        part = ds.subset(slice(1, None)).subset([4, 0, 2])
        assert_reads(part, range(3), golden.expected, rows=[5, 1, 3])

    def test_location_is_the_storage_order(self, golden):
        """Following `location` walks through the files from front to back."""
        ds = golden.open().subset([3, 0, 6, 1])
        rank = ds.layout.location
        assert rank is not None
        heaviest = max(ds.layout.parts, key=lambda p: int(p.segments.nbytes.sum()))
        file, offset, _ = heaviest.segments.locate(np.argsort(rank))
        assert (np.diff(file.astype(np.int64) * (1 << 40) + offset) >= 0).all()
        assert sorted(rank.tolist()) == list(range(4))

    def test_split_deals_every_sample_once(self, golden):
        """The parts of a split are disjoint and together hold all samples; the same seed gives the same split."""
        ds = golden.open()
        for shuffle in (False, True):
            parts = ds.split([3, ds.n - 3], seed=5, shuffle=shuffle)
            assert [len(p) for p in parts] == [3, ds.n - 3]
            seen = [e for p in parts for e in extents_of(p)]
            assert sorted(seen) == sorted(extents_of(ds))
            again = ds.split([3, ds.n - 3], seed=5, shuffle=shuffle)
            assert [p.fingerprint for p in parts] == [p.fingerprint for p in again]

    def test_concat_puts_samples_one_after_the_other(self, golden):
        """Joining the pieces of a dataset gives its samples back, with each file listed once."""
        ds = golden.open()
        whole = concat([ds.subset(slice(0, 3)), ds.subset(slice(3, None))])
        assert_reads(whole, range(ds.n), golden.expected)
        assert len(whole.layout.files) == len(ds.layout.files)
        assert_extents_valid(whole)
        twice = ds.concat(ds)
        assert_reads(twice, [0, ds.n], golden.expected, rows=[0, 0])

    def test_select_keeps_the_named_fields(self, golden):
        """A selection of fields reads the same values; an unknown field is refused by name."""
        ds = golden.open()
        name = list(ds.fields)[-1]
        only = ds.select(name)
        assert list(only.fields) == [name]
        assert_reads(only, [1], golden.expected)
        with pytest.raises(FieldError, match="no field 'nonsense'"):
            ds.select("nonsense")

    def test_fingerprint_names_the_content(self, golden):
        """Opening again gives the same fingerprint; a selection, a join or a changed file gives another."""
        ds = golden.open()
        assert golden.open().fingerprint == ds.fingerprint
        assert ds.subset(slice(None)).fingerprint == ds.fingerprint
        others = {ds.fingerprint, ds.subset(slice(1, None)).fingerprint, ds.subset([1, 0]).fingerprint}
        others |= {ds.concat(ds).fingerprint}
        assert len(others) == 4
        assert ds.subset([1, 2, 3]).fingerprint == ds.subset(slice(1, 4)).fingerprint
        touch(golden.last_file)
        assert golden.open().fingerprint != ds.fingerprint

    def test_changed_file_is_named(self, golden):
        """A file that is not the one that was opened is refused, by the check and by a read."""
        ds = golden.open()
        check_unchanged(ds.layout)
        touch(golden.last_file)
        for look in (lambda: check_unchanged(ds.layout), lambda: ds.read([ds.n - 1])):
            with pytest.raises(ChangedFileError, match=os.path.basename(golden.last_file)) as caught:
                look()
            assert caught.value.path == golden.last_file

    def test_removed_file_is_named(self, golden):
        """A file that is gone is refused, by the check and by a read."""
        ds = golden.open()
        os.unlink(golden.last_file)
        for look in (lambda: check_unchanged(ds.layout), lambda: ds.read([ds.n - 1])):
            with pytest.raises(ChangedFileError, match="it is gone"):
                look()

    def test_file_truncated_after_opening_is_named_with_sample_and_offset(self, golden):
        """A read beyond the new end says which file, which sample, and where; it never delivers a short sample."""
        ds = golden.open()
        at = min(int(p.segments.locate(np.array([ds.n - 1]))[1][0]) for p in ds.layout.parts)
        os.truncate(golden.last_file, at + 1)
        with pytest.raises(TruncatedFileError, match=os.path.basename(golden.last_file)) as caught:
            ds.read([ds.n - 1])
        assert caught.value.sample == ds.n - 1
        assert caught.value.offset >= at
        with pytest.raises(ChangedFileError):
            check_unchanged(ds.layout)

    def test_file_truncated_before_opening_is_refused(self, golden):
        """A dataset with a file that lost its last byte cannot be opened."""
        os.truncate(golden.last_file, os.path.getsize(golden.last_file) - 1)
        with pytest.raises((DataError, FormatError), match=os.path.basename(golden.last_file)):
            golden.open()

    def test_ids_outside_the_dataset_are_refused(self, golden):
        """Neither a read nor a selection accepts an id that does not exist, negative ones included."""
        ds = golden.open()
        for ids in ([ds.n], [-1]):
            with pytest.raises(InputError, match="does not exist"):
                ds.read(ids)
            with pytest.raises(InputError, match="does not exist"):
                ds.subset(ids)

    def test_inspect_gives_facts_that_json_can_hold(self, golden):
        """`inspect` of an open dataset survives JSON and counts samples, fields and bytes."""
        import json

        ds = golden.open()
        facts = json.loads(json.dumps(inspect(ds)))
        assert facts["n"] == golden.n
        assert {f["name"] for f in facts["fields"]} == set(golden.expected)
        assert facts["bytes"] == ds.layout.nbytes <= facts["file_bytes"]

    def test_dataset_pickles(self, golden):
        """A dataset sent to another process reads the same there."""
        import pickle

        ds = golden.open()
        assert ds.fields and ds.layout.nbytes
        ds = pickle.loads(pickle.dumps(ds))
        assert_reads(ds, [0, 1], golden.expected)


def extents_of(dataset: Dataset) -> list[tuple[str, int]]:
    """(file, offset) of the first part of every sample: what makes a sample this one and no other."""
    file, offset, _ = dataset.layout.parts[0].segments.locate(np.arange(dataset.n))
    return [(dataset.layout.files[f].path, int(o)) for f, o in zip(file, offset, strict=True)]


def touch(path: str) -> None:
    """Give a file another modification time."""
    facts = os.stat(path)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1_000_000_000))
