"""Fixed records: what is read equals what numpy.fromfile reads."""

from __future__ import annotations

import os

import numpy as np
import pytest
from conformance import ConformanceSuite, Golden, assert_extents_valid, assert_reads
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.formats as hf
from headrace.errors import FieldError, FormatError, InputError, UnsupportedError

RNG = np.random.default_rng(5)
RECORD = np.dtype([("id", ">u4"), ("image", "<f4", (2, 3)), ("tag", "S3")])


def write(path, values, header=b""):
    with open(path, "wb") as f:
        f.write(header)
        values.tofile(f)
    return str(path)


class TestPlainRecords(ConformanceSuite):
    """Arrays behind a header, in two files."""

    @pytest.fixture
    def golden(self, tmp_path):
        paths = [
            write(tmp_path / f"{i}.bin", RNG.normal(size=(n, 2, 2)).astype(">f8"), b"head")
            for i, n in enumerate((5, 6))
        ]
        expected = {"data": np.concatenate([np.fromfile(p, ">f8", offset=4).reshape(-1, 2, 2) for p in paths])}
        return Golden(lambda: hf.open(tmp_path, dtype=">f8", shape=(2, 2), header=4), expected, paths[-1])


class TestStructRecords(ConformanceSuite):
    """Every member of a struct is a field, at its own offset in every record."""

    @pytest.fixture
    def golden(self, tmp_path):
        values = np.zeros(9, RECORD)
        values["id"], values["tag"] = np.arange(9), b"xy"
        values["image"] = RNG.normal(size=(9, 2, 3))
        path = write(tmp_path / "a.bin", values)
        read = np.fromfile(path, RECORD)
        return Golden(lambda: hf.open(path, dtype=RECORD), {name: read[name] for name in RECORD.names}, path)


@settings(max_examples=50, deadline=None)
@given(
    kind=st.sampled_from(["u1", ">i2", "<f8", "?", "S3", RECORD]),
    shape=st.lists(st.integers(1, 4), max_size=2).map(tuple),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    header=st.integers(0, 9),
)
def test_any_record_reads_like_numpy(tmp_path_factory, kind, shape, lengths, header):
    """Whatever the dtype, shape, header and split into files, samples equal numpy.fromfile's."""
    folder, dtype = tmp_path_factory.mktemp("any"), np.dtype(kind)
    read = []
    for i, n in enumerate(lengths):
        raw = RNG.integers(0, 2, n * int(np.prod(shape, dtype=int)) * dtype.itemsize, np.uint8)
        path = write(folder / f"{i}.bin", raw, b"h" * header)
        read.append(np.fromfile(path, dtype, offset=header).reshape(n, *shape))
    values = np.concatenate(read)
    members = dtype.names if dtype.names and not shape else None
    expected = {m: values[m] for m in members} if members else {"data": values}
    ds = hf.open(folder, dtype=kind, shape=shape, header=header)
    assert_reads(ds, range(len(values)), expected)
    assert_extents_valid(ds)


def test_members_can_be_chosen_and_renamed(tmp_path):
    path = write(tmp_path / "a.bin", np.zeros(4, RECORD))
    assert list(hf.open(path, ["tag", "id"], dtype=RECORD).fields) == ["tag", "id"]
    assert list(hf.open(path, {"x": "image"}, dtype=RECORD).fields) == ["x"]
    with pytest.raises(FieldError, match="no field 'imag': did you mean 'image'"):
        hf.open(path, "imag", dtype=RECORD)


def test_a_struct_is_one_segment_per_member_and_file(tmp_path):
    path = write(tmp_path / "a.bin", np.zeros(1000, RECORD))
    for field in hf.open(path, dtype=RECORD).fields.values():
        (segments,) = [p.segments for p in field.parts]
        assert segments.stride.tolist() == [RECORD.itemsize] and segments.n == 1000


def test_leftover_bytes_are_counted(tmp_path):
    path = write(tmp_path / "a.bin", np.zeros(10, "f8"))
    os.truncate(path, 77)
    with pytest.raises(
        FormatError, match=r"a\.bin has 77 bytes: behind header=0, 9 records of 8 bytes leave 5 bytes over"
    ):
        hf.open(path, dtype="f8")


def test_a_header_longer_than_the_file_is_refused(tmp_path):
    path = write(tmp_path / "a.bin", np.zeros(1))
    with pytest.raises(FormatError, match="fewer than header=100"):
        hf.open(path, dtype="f8", header=100)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a.bin").touch()
    with pytest.raises(InputError, match=r"a\.bin holds no samples"):
        hf.open(tmp_path / "a.bin", dtype="f8")


def test_a_dtype_is_needed_and_must_be_fixed(tmp_path):
    path = write(tmp_path / "a.bin", np.zeros(1))
    with pytest.raises(InputError, match="need dtype="):
        hf.open(path)
    with pytest.raises(InputError, match="no NumPy dtype"):
        hf.open(path, dtype="float99")
    for dtype in (object, "S0"):
        with pytest.raises(UnsupportedError, match="no fixed size"):
            hf.open(path, dtype=dtype)


def test_bad_shapes_and_names_are_refused(tmp_path):
    path = write(tmp_path / "a.bin", np.zeros(4))
    with pytest.raises(InputError, match="must not be negative"):
        hf.open(path, dtype="f8", shape=(0,))
    with pytest.raises(FieldError, match="takes one name"):
        hf.open(path, ["a", "b"], dtype="f8")
    with pytest.raises(InputError, match=r"no option dtpe= for format 'bin'; its options: dtype=, shape=, header="):
        hf.open(path, dtpe="f8")
