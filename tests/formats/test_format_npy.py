""".npy files: what is read equals what numpy.load reads, for one array, many samples, many arrays, equal or ragged."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from conformance import ConformanceSuite, Golden, assert_extents_valid, assert_reads
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy_format

import headrace.formats as hf
from headrace.errors import FieldError, FormatError, InputError, TruncatedFileError, UnsupportedError
from headrace.formats import npy_header

RNG = np.random.default_rng(3)


class TestOneArray(ConformanceSuite):
    """One big array: its first axis counts samples."""

    @pytest.fixture
    def golden(self, tmp_path):
        path = str(tmp_path / "big.npy")
        np.save(path, RNG.normal(size=(10, 3, 2)).astype(">f4"))
        return Golden(lambda: hf.open(path), {"data": np.load(path)}, path)


class TestFolderOfEqualArrays(ConformanceSuite):
    """One file, one sample."""

    @pytest.fixture
    def golden(self, tmp_path):
        for i in range(9):
            np.save(tmp_path / f"{i:03}.npy", RNG.integers(0, 255, (4, 5), np.uint8))
        paths = sorted(str(p) for p in tmp_path.iterdir())
        return Golden(lambda: hf.open(tmp_path), {"data": [np.load(p) for p in paths]}, paths[-1])


class TestRaggedFolder(ConformanceSuite):
    """Files of different shapes: a ragged field."""

    @pytest.fixture
    def golden(self, tmp_path):
        for i in range(9):
            np.save(tmp_path / f"{i}.npy", RNG.normal(size=(1 + i % 3, 2 + i)))
        paths = sorted(str(p) for p in tmp_path.iterdir())
        return Golden(lambda: hf.open(f"{tmp_path}/*.npy"), {"data": [np.load(p) for p in paths]}, paths[-1])


class TestSeveralFields(ConformanceSuite):
    """A folder of images beside one array of labels."""

    @pytest.fixture
    def golden(self, tmp_path):
        (tmp_path / "x").mkdir()
        for i in range(8):
            np.save(tmp_path / "x" / f"{i}.npy", RNG.normal(size=(3,)))
        np.save(tmp_path / "y.npy", np.arange(8, dtype=">i2"))
        paths = sorted(str(p) for p in (tmp_path / "x").iterdir())
        expected = {"x": [np.load(p) for p in paths], "y": np.load(tmp_path / "y.npy")}
        return Golden(lambda: hf.open(tmp_path, {"x": "x/*.npy", "y": "y.npy"}), expected, paths[-1])


class TestRowsOfSeveralFiles(ConformanceSuite):
    """Files of many samples each, of unequal length."""

    @pytest.fixture
    def golden(self, tmp_path):
        for i, n in enumerate((4, 1, 5)):
            np.save(tmp_path / f"{i}.npy", RNG.normal(size=(n, 2)))
        paths = sorted(str(p) for p in tmp_path.iterdir())
        expected = {"data": np.concatenate([np.load(p) for p in paths])}
        return Golden(lambda: hf.open(tmp_path, per_file="rows"), expected, paths[-1])


DTYPES = ["u1", ">i2", "<f2", ">f8", "<c8", "?", "S4", ">U3", "V5", "<M8[s]", [("a", ">i4"), ("b", "u1", (3,))]]


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES).map(np.dtype),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    shape=st.lists(st.integers(1, 4), max_size=3).map(tuple),
    version=st.sampled_from([(1, 0), (2, 0), (3, 0)]),
    mode=st.sampled_from(["rows", "sample"]),
)
def test_any_array_reads_like_numpy(tmp_path_factory, dtype, lengths, shape, version, mode):
    """Whatever the dtype, header version, shapes and split into files, samples equal numpy.load's."""
    folder = tmp_path_factory.mktemp("any")
    loaded = []
    for i, n in enumerate(lengths):
        count = n * int(np.prod(shape, dtype=int))
        raw = RNG.integers(0, 2 if dtype.kind == "b" else 100, count * dtype.itemsize, np.uint8)
        if dtype.kind == "U":
            raw.reshape(-1, 4)[:, :3] = 0
        with open(folder / f"{i}.npy", "wb") as f:
            npy_format.write_array(f, np.frombuffer(raw.tobytes(), dtype).reshape(n, *shape), version=version)
        loaded.append(np.load(folder / f"{i}.npy"))
    ds = hf.open(folder, per_file=mode)
    expected = np.concatenate(loaded) if mode == "rows" else loaded
    assert_reads(ds, range(len(expected)), {"data": expected})
    assert_extents_valid(ds)
    assert ds.fields["data"].ragged == (mode == "sample" and len(set(lengths)) > 1)


def test_thousands_of_files_are_opened_with_one_parse_per_header(tmp_path, monkeypatch):
    """3,000 equal arrays: every file is looked at once, one header is parsed."""
    np.save(tmp_path / "0000.npy", np.arange(6.0))
    for i in range(1, 3000):
        shutil.copyfile(tmp_path / "0000.npy", tmp_path / f"{i:04}.npy")
    parsed = []
    real = npy_header.parse_header
    monkeypatch.setattr(npy_header, "parse_header", lambda raw, path: parsed.append(path) or real(raw, path))
    ds = hf.open(tmp_path)
    assert ds.n == 3000 and len(ds.layout.files) == 3000
    assert len(parsed) <= 16  # threads that start together may each parse the first
    assert ds.layout.location is None
    assert_reads(ds, [0, 2999], {"data": [np.arange(6.0)] * 3000})


def test_reading_many_files_does_not_run_out_of_descriptors(tmp_path):
    """The reference reader closes files as it goes."""
    for i in range(700):
        np.save(tmp_path / f"{i:04}.npy", np.array([i]))
    got = hf.open(tmp_path).read(range(700))["data"]
    assert got[:, 0].tolist() == list(range(700))


def test_files_are_sorted_by_name_character_by_character(tmp_path):
    for i in (9, 10, 1):
        np.save(tmp_path / f"{i}.npy", np.array([i]))
    assert hf.open(tmp_path).read([0, 1, 2])["data"][:, 0].tolist() == [1, 10, 9]


def test_a_brace_pattern_names_files_in_its_order(tmp_path):
    for i in range(12):
        np.save(tmp_path / f"s{i:03}.npy", np.array([i]))
    assert hf.open(f"{tmp_path}/s{{003..010}}.npy").read(range(8))["data"][:, 0].tolist() == list(range(3, 11))
    assert hf.open(f"{tmp_path}/s{{007,001}}.npy").read([0, 1])["data"][:, 0].tolist() == [7, 1]


def test_a_list_keeps_its_order(tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.array([i]))
    assert hf.open([tmp_path / "2.npy", tmp_path / "0.npy"]).read([0, 1])["data"][:, 0].tolist() == [2, 0]


def test_one_dimensional_fortran_arrays_are_fine_and_others_refused(tmp_path):
    """Fortran order scatters the bytes of a sample; with one dimension there is nothing to scatter."""
    with open(tmp_path / "v.npy", "wb") as f:
        npy_format.write_array_header_1_0(f, {"descr": "<f8", "fortran_order": True, "shape": (3,)})
        f.write(np.arange(3.0).tobytes())
    assert_reads(hf.open(tmp_path / "v.npy"), range(3), {"data": np.arange(3.0)})
    np.save(tmp_path / "m.npy", np.asfortranarray(np.zeros((3, 4))))
    with pytest.raises(UnsupportedError, match=r"m\.npy is in Fortran order \(shape \(3, 4\)\)"):
        hf.open(tmp_path / "m.npy")


def test_python_objects_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(UnsupportedError, match=r"o\.npy holds Python objects"):
        hf.open(tmp_path / "o.npy")


def test_dtypes_that_differ_name_both_files(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.zeros(3, "f4"))
    with pytest.raises(FieldError, match=r"float64.* in .*a\.npy but .*float32.* in .*b\.npy"):
        hf.open(tmp_path)


def test_ragged_samples_of_unequal_rank_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.zeros((3, 1)))
    with pytest.raises(UnsupportedError, match=r"1 dimensions in .*a\.npy but 2 in .*b\.npy"):
        hf.open(tmp_path)


def test_rows_of_unequal_shape_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    np.save(tmp_path / "b.npy", np.zeros((2, 4)))
    with pytest.raises(FieldError, match=r"b\.npy has shape \(2, 4\), which does not hold samples of shape \(3,\)"):
        hf.open(tmp_path, per_file="rows")


def test_a_single_value_has_no_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.float64(3))
    with pytest.raises(FieldError, match=r"a\.npy has shape \(\)"):
        hf.open(tmp_path / "a.npy")


@pytest.mark.parametrize(("mode", "sample"), [("rows", 4), ("sample", 2)])
def test_truncated_array_names_file_sample_and_offset(tmp_path, mode, sample):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.zeros((2, 10)))
    path = str(tmp_path / "2.npy")
    os.truncate(path, 128 + 79)
    with pytest.raises(
        TruncatedFileError, match=rf"2\.npy ends at byte 207 but sample {sample} of field 'data'"
    ) as caught:
        hf.open(tmp_path, per_file=mode)
    assert (caught.value.path, caught.value.sample, caught.value.offset) == (path, sample, 128)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello world, this is text", "is not a .npy file"),
        (b"", "is not a .npy file"),
        (b"\x93NUMPY\x01\x00\xf6\x00{'descr'", "inside its header of 256 bytes"),
        (b"\x93NUMPY\x01", "inside its header"),
        (b"\x93NUMPY\x09\x00\x04\x00\x00\x00abcdefgh", "version 9.0 is not known"),
        (b"\x93NUMPY\x01\x00\x08\x00{'a': 1}", "cannot be understood"),
        (b"\x93NUMPY\x01\x00\x02\x00[[", "cannot be understood"),
    ],
)
def test_damaged_headers_are_refused_by_name(tmp_path, content, said):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(FormatError, match=said):
        hf.open(tmp_path / "a.npy")


def test_a_header_longer_than_the_probe_is_read_whole(tmp_path):
    dtype = np.dtype([(f"a_rather_long_member_name_{i}", "<f4") for i in range(40)])
    np.save(tmp_path / "a.npy", np.zeros(3, dtype))
    assert hf.open(tmp_path / "a.npy").fields["data"].stored == dtype


def test_an_empty_array_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((0, 3)))
    with pytest.raises(InputError, match="holds no samples"):
        hf.open(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.zeros((3, 0)))
    with pytest.raises(FieldError, match="hold no bytes"):
        hf.open(tmp_path / "a.npy")


def test_fields_of_unequal_length_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    np.save(tmp_path / "y.npy", np.zeros(4))
    with pytest.raises(FieldError, match="'x' has 3, 'y' has 4"):
        hf.open(tmp_path, {"x": "x.npy", "y": "y.npy"})


def test_one_field_can_be_named(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    assert list(hf.open(tmp_path / "x.npy", "image").fields) == ["image"]
    with pytest.raises(InputError, match="have no names inside"):
        hf.open(tmp_path / "x.npy", ["a", "b"])


def test_an_unknown_mode_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(InputError, match="per_file='stack'"):
        hf.open(tmp_path / "x.npy", per_file="stack")
