"""Bounds, joins and reads that go wrong."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

import headrace.formats as hf
from headrace.errors import ChangedFileError, FieldError, ReadError, TruncatedFileError
from headrace.formats.check import check_bounds
from headrace.formats.segments import make_segments
from headrace.values.layout import Field, File, Layout, Part


def layout_of(counts, offset, *, size, stride=10, nbytes=10):
    segments = make_segments(counts=counts, file=0, offset=offset, stride=stride, nbytes=nbytes)
    field = Field("x", np.dtype("u1"), (10,), (Part(segments),))
    return Layout(segments.n, (field,), (File("/data/a", size, 0),), "", "bin")


def test_bounds_name_the_first_sample_that_is_cut():
    """Exactly at the end is fine; one byte less names the sample, its field and its bytes."""
    check_bounds(layout_of([3, 4], [0, 100], size=140))
    for size, sample in ((139, 6), (130, 6), (129, 5)):
        with pytest.raises(TruncatedFileError, match=f"sample {sample} of"):
            check_bounds(layout_of([3, 4], [0, 100], size=size))
    with pytest.raises(
        TruncatedFileError, match=r"/data/a ends at byte 125 but sample 5 of field 'x' lies at 120–130"
    ) as caught:
        check_bounds(layout_of([3, 4], [0, 100], size=125))
    assert (caught.value.sample, caught.value.offset, caught.value.path) == (5, 120, "/data/a")


def test_joining_a_file_that_changed_in_between_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    before = hf.open(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.zeros(4))
    with pytest.raises(ChangedFileError, match="changed between the two times"):
        before.concat(hf.open(tmp_path / "a.npy"))


def test_datasets_whose_fields_differ_are_not_joined(tmp_path):
    for name, array in (("a", np.zeros(3)), ("b", np.zeros(3, "f4")), ("c", np.zeros((3, 2)))):
        np.save(tmp_path / f"{name}.npy", array)
    a, b, c = (hf.open(tmp_path / f"{n}.npy") for n in "abc")
    for other in (b, c):
        with pytest.raises(FieldError, match=r"field 'data' is .* in dataset 0 but .* in dataset 1"):
            a.concat(other)
    with pytest.raises(FieldError, match="same fields everywhere"):
        a.concat(hf.open(tmp_path / "a.npy", "other"))


def test_ragged_and_fixed_samples_join_as_ragged(tmp_path):
    """A fixed field has a shape per sample too, once it stands beside one that varies."""
    for i, n in enumerate((2, 3, 4, 4)):
        np.save(tmp_path / f"{i}.npy", np.full((n, 2), i))
    ragged, fixed = hf.open(tmp_path / "{0..1}.npy"), hf.open(tmp_path / "{2..3}.npy")
    joined = ragged.concat(fixed)
    assert joined.fields["data"].ragged
    assert [x.shape for x in joined.read(range(4))["data"]] == [(2, 2), (3, 2), (4, 2), (4, 2)]


def test_a_failing_read_names_file_sample_and_cause(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.zeros(3))
    ds = hf.open(tmp_path / "a.npy")

    def broken(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", broken)
    with pytest.raises(ReadError, match=r"sample 1 of field 'data' .* Input/output error") as caught:
        ds.read([1])
    assert (caught.value.sample, caught.value.offset) == (1, 136)


def test_short_reads_are_continued(tmp_path, monkeypatch):
    """The kernel may give less than was asked for; a sample is delivered whole or not at all."""
    np.save(tmp_path / "a.npy", np.arange(20.0).reshape(2, 10))
    ds = hf.open(tmp_path / "a.npy")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: real(fd, min(n, 7), at))
    assert ds.read([1])["data"][0].tolist() == list(range(10, 20))


def test_no_files_stay_open_after_a_read(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    ds = hf.open(tmp_path / "a.npy")
    before = len(os.listdir("/proc/self/fd"))
    ds.read([0, 1])
    os.truncate(tmp_path / "a.npy", 130)
    with pytest.raises(TruncatedFileError):
        ds.read([2])
    assert len(os.listdir("/proc/self/fd")) == before


def test_reading_nothing_gives_empty_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 4), ">f4"))
    got = hf.open(tmp_path / "a.npy").read([])["data"]
    assert got.shape == (0, 4) and got.dtype == np.dtype("f4")


def test_files_that_no_sample_lies_in_are_dropped(tmp_path):
    """A split of a folder of files checks its own files only."""
    for i in range(6):
        np.save(tmp_path / f"{i}.npy", np.array([i]))
    part = hf.open(tmp_path).subset([4, 1])
    assert [os.path.basename(f.path) for f in part.layout.files] == ["1.npy", "4.npy"]
    assert part.read([0, 1])["data"][:, 0].tolist() == [4, 1]


def test_repr_says_what_is_in_it(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 4), ">f4"))
    assert repr(hf.open(tmp_path / "a.npy")) == "Dataset(3 samples, {data: float32[4]}, npy, 1 file)"
