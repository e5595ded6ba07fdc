"""HDF5 files: what is read equals what h5py reads, and what cannot be read is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys

import h5py
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from conformance import ConformanceSuite, Golden, assert_extents_valid, assert_reads
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.formats as hf
from headrace.errors import (
    FieldError,
    FormatError,
    InputError,
    MissingDependencyError,
    TruncatedFileError,
    UnsupportedError,
)
from headrace.formats import hdf5_file

RNG = np.random.default_rng(7)
PAIR = np.dtype([("x", ">f4"), ("tag", "S3"), ("v", "<i2", (2, 2)), ("ok", "?")])


def read_all(path, names):
    with h5py.File(path) as f:
        return {name: f[name][()] for name in names}


class TestContiguousFiles(ConformanceSuite):
    """Several files of unequal length, big-endian data in a group beside labels."""

    @pytest.fixture
    def golden(self, tmp_path):
        paths = []
        for i, n in enumerate((5, 2, 6)):
            paths.append(str(tmp_path / f"part-{i}.h5"))
            with h5py.File(paths[-1], "w") as f:
                f["label"] = np.arange(n, dtype="i8") + 100 * i
                f["entry/deep/image"] = RNG.normal(size=(n, 3, 4)).astype(">f4")
        names = ("entry/deep/image", "label")
        parts = [read_all(p, names) for p in paths]
        expected = {name: np.concatenate([p[name] for p in parts]) for name in names}
        return Golden(lambda: hf.open(str(tmp_path)), expected, paths[-1])


class TestCutChunks(ConformanceSuite):
    """Chunks that cut rows and both dimensions of a sample, edges included."""

    @pytest.fixture
    def golden(self, tmp_path):
        path = str(tmp_path / "cut.h5")
        with h5py.File(path, "w") as f:
            f.create_dataset("x", data=RNG.integers(0, 1 << 30, (11, 5, 7)), chunks=(4, 2, 3))
            f["padding"] = np.zeros(1)
            f.create_dataset("y", data=RNG.normal(size=11), chunks=(3,))
        return Golden(lambda: hf.open(path, ["x", "y"]), read_all(path, ("x", "y")), path)


class TestUserBlock(ConformanceSuite):
    """A user block shifts every address: contiguous and chunked alike."""

    @pytest.fixture
    def golden(self, tmp_path):
        path = str(tmp_path / "block.h5")
        with h5py.File(path, "w", userblock_size=1024) as f:
            f.create_dataset("k", data=RNG.normal(size=(9, 4)), chunks=(2, 4))
            f["c"] = RNG.normal(size=(9, 3))
        return Golden(lambda: hf.open(path), read_all(path, ("k", "c")), path)


class TestCompound(ConformanceSuite):
    """Structs with mixed byte orders, strings, arrays and booleans."""

    @pytest.fixture
    def golden(self, tmp_path):
        path = str(tmp_path / "struct.hdf5")
        data = np.zeros(8, PAIR)
        data["x"], data["tag"], data["ok"] = np.arange(8), b"ab", np.arange(8) % 2
        data["v"] = RNG.integers(0, 99, (8, 2, 2))
        with h5py.File(path, "w") as f:
            f["pair"] = data
        return Golden(lambda: hf.open(path), read_all(path, ("pair",)), path)


DTYPES = st.sampled_from(["u1", "<i2", ">i4", "<i8", ">u8", "<f2", ">f4", "<f8", "<c8", ">c16", "?", "S5", "V6", PAIR])


@st.composite
def stored_datasets(draw):
    """(file lengths, sample shape, dtype, chunk shape or None, resizable)."""
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    shape = draw(st.lists(st.integers(1, 5), max_size=3).map(tuple))
    dtype = np.dtype(draw(DTYPES))
    chunks = draw(st.none() | st.tuples(*(st.integers(1, d + 2) for d in (5, *shape))))
    return lengths, shape, dtype, chunks


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=stored_datasets(), seed=st.integers(0, 1 << 30), data=st.data())
def test_any_shape_dtype_and_chunking_reads_like_h5py(tmp_path_factory, case, seed, data):
    """Whatever the shapes, dtypes, chunks and file splits, samples equal h5py's, and extents are valid."""
    lengths, shape, dtype, chunks = case
    folder = tmp_path_factory.mktemp("any")
    rng = np.random.default_rng(seed)
    expected = []
    for i, n in enumerate(lengths):
        raw = rng.integers(0, 2 if dtype.kind == "b" else 128, (n, *shape, dtype.itemsize), np.uint8)
        if dtype.names:
            raw[..., dtype.fields["ok"][1]] &= 1
        values = np.frombuffer(raw.tobytes(), dtype).reshape(n, *shape)
        with h5py.File(folder / f"{i}.h5", "w", userblock_size=data.draw(st.sampled_from([0, 512]))) as f:
            grow = None if chunks is None else (None,) * (1 + len(shape))
            f.create_dataset("x", data=values, chunks=chunks, maxshape=grow)
        expected.append(read_all(folder / f"{i}.h5", ("x",))["x"])
    ds = hf.open(str(folder / "*.h5"))
    assert_reads(ds, range(ds.n), {"x": np.concatenate(expected)})
    assert_extents_valid(ds)
    inside = chunks is None or chunks[1:] == shape
    assert ds.fields["x"].plain == inside
    ids = data.draw(hnp.arrays(np.int64, st.integers(1, 6), elements=st.integers(0, ds.n - 1)))
    part = ds.subset(ids)
    assert_reads(part, range(len(part)), {"x": np.concatenate(expected)}, rows=ids)


def test_chunks_written_in_order_are_one_segment(tmp_path):
    """Chunks of whole rows that follow each other in the file need no table."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=np.zeros((1000, 64)), chunks=(10, 64))
    segments = hf.open(path).fields["x"].parts[0].segments
    assert len(segments.first) < 10


def test_chunks_written_backwards_have_a_location_table(tmp_path):
    """Where chunks lie in another order than ids, `location` says so and reads are right."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        x = f.create_dataset("x", shape=(12, 2), chunks=(3, 2), dtype="i4")
        for row in (9, 6, 3, 0):
            x[row : row + 3] = np.arange(row * 2, row * 2 + 6).reshape(3, 2)
    ds = hf.open(path)
    assert ds.layout.location is not None
    assert ds.layout.location[0] > ds.layout.location[11]
    assert_reads(ds, range(12), {"x": np.arange(24, dtype="i4").reshape(12, 2)})


def test_old_libraries_need_the_user_block_added(tmp_path, monkeypatch):
    """HDF5 before 1.14.4 gives chunk addresses without the user block; the version decides what is added."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=512) as f:
        f.create_dataset("x", data=np.zeros((4, 2)), chunks=(2, 2))
        f["behind"] = np.zeros(1000)
    now = hf.open(path, "x").fields["x"].parts[0].segments.offset
    monkeypatch.setattr(h5py.version, "hdf5_version_tuple", (1, 12, 2))
    then = hf.open(path, "x").fields["x"].parts[0].segments.offset
    assert (then - now).tolist() == [512] * len(now)


def test_all_datasets_as_long_as_the_largest_are_fields_and_the_rest_is_noted(tmp_path):
    """Without fields=, what is left out is said and why."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["image"], f["label"] = np.zeros((6, 8)), np.arange(6)
        f["mean"], f["version"], f["name"] = np.zeros(8), 3, ["a"] * 6
    ds = hf.open(path)
    assert set(ds.fields) == {"image", "label"}
    notes = " | ".join(ds.layout.notes)
    assert "'mean' has 8 entries where 'image' has 6" in notes
    assert "'version' is a single value" in notes and "'name' has values of variable length" in notes


def test_fields_can_be_renamed(tmp_path):
    """A mapping delivers a dataset under another name."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["entry/data"] = np.arange(4)
    ds = hf.open(tmp_path / "a.h5", {"image": "/entry/data"})
    assert_reads(ds, [2], {"image": np.arange(4)})


def test_an_array_type_adds_its_shape_to_the_sample(tmp_path):
    """A dataset of fixed arrays delivers the arrays' shape as part of the sample's."""
    kind = np.dtype(("<f4", (3,)))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, chunks in (("c", None), ("k", (2, 3))):
            f.create_dataset(name, shape=(4, 5), dtype=kind, chunks=chunks)[...] = RNG.normal(size=(4, 5, 3))
    ds = hf.open(tmp_path / "a.h5")
    assert ds.fields["c"].shape == (5, 3)
    assert_reads(ds, range(4), read_all(tmp_path / "a.h5", ("c", "k")))


def test_structs_with_gaps_keep_their_offsets(tmp_path):
    """A C compiler's struct: the bytes between its members are not read as data."""
    kind = np.dtype([("flag", "u1"), ("x", ">f8"), ("tag", "S3"), ("n", "<i4")], align=True)
    data = np.zeros(5, kind)
    data["flag"], data["x"], data["tag"], data["n"] = 1, np.arange(5), b"abc", 7
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["s"] = data
    got = hf.open(tmp_path / "a.h5").read(range(5))["s"]
    for name in kind.names:
        assert got[name].tolist() == data[name].tolist()


def test_enums_are_delivered_as_their_integers(tmp_path):
    """An enum is its base type; a boolean is an enum that h5py calls bool."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["e"] = np.array([1, 2, 1], h5py.enum_dtype({"A": 1, "B": 2}, ">i2"))
    ds = hf.open(tmp_path / "a.h5")
    assert ds.fields["e"].stored == np.dtype(">i2")
    assert_reads(ds, range(3), {"e": np.array([1, 2, 1], ">i2")})


def make(path, **datasets):
    with h5py.File(path, "w") as f:
        for name, value in datasets.items():
            f[name] = value
    return str(path)


def test_missing_field_is_named_with_close_matches(tmp_path):
    path = make(tmp_path / "a.h5", images=np.zeros((3, 2)))
    with pytest.raises(FieldError, match=r"a\.h5 has no field 'image': did you mean 'images'\?"):
        hf.open(path, "image")


def test_a_group_is_not_a_field(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["g/x"] = np.zeros(3)
    with pytest.raises(FieldError, match="'g' is a group, not a dataset; it holds 'g/x'"):
        hf.open(tmp_path / "a.h5", "g")


def test_links_within_the_file_are_followed_and_those_into_others_refused(tmp_path):
    """An address in another file is not one in this."""
    make(tmp_path / "other.hdf", x=np.zeros(3))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3)
        f["soft"], f["far"] = h5py.SoftLink("/x"), h5py.ExternalLink(str(tmp_path / "other.hdf"), "/x")
        f["gone"] = h5py.SoftLink("/nowhere")
    assert_reads(hf.open(tmp_path / "a.h5", "soft"), range(3), {"soft": np.arange(3)})
    with pytest.raises(UnsupportedError, match=r"'far' is a link into .*other\.hdf"):
        hf.open(tmp_path / "a.h5", "far")
    with pytest.raises(FieldError, match="no field 'gone'"):
        hf.open(tmp_path / "a.h5", "gone")


def test_fields_of_unequal_length_are_refused(tmp_path):
    path = make(tmp_path / "a.h5", x=np.zeros(3), y=np.zeros(4))
    with pytest.raises(FieldError, match="'x' has 3, 'y' has 4"):
        hf.open(path, ["x", "y"])


@pytest.mark.parametrize(("other", "said"), [(np.zeros((2, 4)), r"\(4,\)"), (np.zeros((2, 3), "f4"), "float32")])
def test_files_that_disagree_are_named(tmp_path, other, said):
    make(tmp_path / "a.h5", x=np.zeros((2, 3)))
    make(tmp_path / "b.h5", x=other)
    with pytest.raises(FieldError, match=rf"a\.h5 but .*{said}.* in .*b\.h5"):
        hf.open(tmp_path)


def test_files_cut_along_other_lines_are_refused(tmp_path):
    for name, chunks in (("a", (2, 2)), ("b", (2, 3))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as f:
            f.create_dataset("x", data=np.zeros((4, 4)), chunks=chunks)
    with pytest.raises(UnsupportedError, match="chunks of field 'x' cut its samples differently"):
        hf.open(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compression": "gzip"}, "gzip"),
        ({"compression": "lzf"}, "lzf"),
        ({"shuffle": True, "compression": "gzip"}, "shuffle, gzip"),
        ({"fletcher32": True}, "fletcher32"),
        ({"scaleoffset": 2}, "scaleoffset"),
    ],
)
def test_filters_are_refused_by_name(tmp_path, options, said):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("x", data=np.zeros((4, 2), "i4"), chunks=(2, 2), **options)
    with pytest.raises(UnsupportedError, match=rf"a\.h5: dataset '/x' is stored through filters \({said}\)"):
        hf.open(tmp_path / "a.h5")


def test_compact_storage_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(f.id, b"x", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4,)), plist)
    with pytest.raises(UnsupportedError, match="'/x' has compact storage"):
        hf.open(tmp_path / "a.h5")


def test_external_storage_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("x", shape=(4,), dtype="i4", external=[(str(tmp_path / "x.raw"), 0, 16)])[...] = 1
    with pytest.raises(UnsupportedError, match="external files"):
        hf.open(tmp_path / "a.h5")


def test_virtual_datasets_are_refused(tmp_path):
    make(tmp_path / "a.h5", x=np.zeros(4))
    layout = h5py.VirtualLayout(shape=(4,), dtype="f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "a.h5"), "x", shape=(4,))
    with h5py.File(tmp_path / "v.h5", "w") as f:
        f.create_virtual_dataset("x", layout)
    with pytest.raises(UnsupportedError, match="'/x' is virtual"):
        hf.open(tmp_path / "v.h5")


@pytest.mark.parametrize("userblock", [0, 512])
def test_contiguous_dataset_that_was_never_written_is_refused(tmp_path, userblock):
    """HDF5 reports no address, or one that only looks like one behind a user block: neither is believed."""
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=userblock) as f:
        f.create_dataset("x", shape=(4,), dtype="i4")
    with pytest.raises(UnsupportedError, match="'/x' has no storage"):
        hf.open(tmp_path / "a.h5")


def test_chunks_that_were_never_written_are_refused_with_their_first_sample(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        x = f.create_dataset("x", shape=(12, 2), chunks=(3, 2), dtype="i4")
        x[:6], x[9:] = 1, 1
    with pytest.raises(
        UnsupportedError, match="1 of 4 chunks of dataset '/x' were never written, the first for sample 6"
    ):
        hf.open(tmp_path / "a.h5")


def test_variable_length_values_are_refused_when_named(tmp_path):
    path = make(tmp_path / "a.h5", name=["a", "bb"], x=np.zeros(2))
    with pytest.raises(UnsupportedError, match="'/name' has values of variable length"):
        hf.open(path, "name")


def test_numbers_that_numpy_lacks_are_refused(tmp_path):
    """12 bits of precision in 2 bytes, and strings padded with spaces: their bytes are not their values."""
    odd = h5py.h5t.STD_I16LE.copy()
    odd.set_precision(12)
    text = h5py.h5t.FORTRAN_S1.copy()
    text.set_size(4)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, kind in ((b"odd", odd), (b"text", text)):
            h5py.h5d.create(f.id, name, kind, h5py.h5s.create_simple((3,)))
    with pytest.raises(UnsupportedError, match="numbers of a kind that NumPy lacks"):
        hf.open(tmp_path / "a.h5", "odd")
    with pytest.raises(UnsupportedError, match="padded with spaces"):
        hf.open(tmp_path / "a.h5", "text")


def test_a_file_without_samples_is_noted_and_a_dataset_without_samples_refused(tmp_path):
    make(tmp_path / "a.h5", x=np.zeros((0, 3)))
    with pytest.raises(InputError, match="holds no samples"):
        hf.open(tmp_path)
    make(tmp_path / "b.h5", x=np.ones((2, 3)))
    ds = hf.open(tmp_path)
    assert ds.n == 2 and "a.h5 holds no samples" in ds.layout.notes


def test_truncated_file_is_named_with_field_sample_and_offset(tmp_path):
    """h5py refuses a cut file as a whole; the first lost sample is named all the same, counted over all files."""
    make(tmp_path / "a.h5", x=np.zeros((3, 100)))
    path = make(tmp_path / "b.h5", x=np.zeros((10, 100)))
    with h5py.File(path) as f:
        start = f["x"].id.get_offset()
    os.truncate(path, start + 4 * 800 + 1)
    with pytest.raises(TruncatedFileError, match=r"b\.h5 ends at byte .* sample 7 of field 'x' lies at") as caught:
        hf.open(tmp_path)
    assert (caught.value.sample, caught.value.offset, caught.value.path) == (7, start + 4 * 800, path)


def test_file_cut_within_its_description_is_refused(tmp_path):
    path = make(tmp_path / "a.h5", x=np.zeros((10, 100)))
    os.truncate(path, 200)
    with pytest.raises(TruncatedFileError, match=r"a\.h5 ends at byte 200 but HDF5 wrote"):
        hf.open(path)


def test_other_bytes_are_not_an_hdf5_file(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"not hdf5 at all" * 100)
    with pytest.raises(FormatError, match=r"a\.h5 is not an HDF5 file"):
        hf.open(tmp_path / "a.h5")


def test_damaged_description_is_refused_by_name(tmp_path):
    """Overwritten object headers give an error of ours, not one of HDF5's internals."""
    path = make(tmp_path / "a.h5", x=np.zeros((10, 100)))
    with open(path, "r+b") as f:
        f.seek(96)
        f.write(b"\xff" * 1500)
    with pytest.raises((FormatError, FieldError), match=r"a\.h5"):
        hf.open(path)


def test_a_file_that_is_being_written_is_refused(tmp_path):
    """The lock of a writer is respected, not circumvented."""
    path = str(tmp_path / "a.h5")
    code = f"import h5py, sys; f = h5py.File({path!r}, 'w'); f['x'] = [1]; f.flush()"
    code += "; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        with pytest.raises(InputError, match="open for writing in another process"):
            hf.open(path)
        writer.communicate()
    assert hf.open(path).n == 1


def test_file_systems_without_locks_are_read_without(tmp_path, monkeypatch):
    """Where locks are refused, the file is opened again without one."""
    path = make(tmp_path / "a.h5", x=np.zeros(3))
    real, asked = h5py.File, []

    def no_locks(name, mode="r", **options):
        asked.append(options)
        if options.get("locking") is not False:
            raise OSError(37, "unable to lock file, errno = 37, error message = 'No locks available'")
        return real(name, mode, **options)

    monkeypatch.setattr(h5py, "File", no_locks)
    assert hf.open(path).n == 3
    assert asked == [{}, {"locking": False}]


def test_missing_h5py_says_how_to_get_it(tmp_path, monkeypatch):
    path = make(tmp_path / "a.h5", x=np.zeros(3))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingDependencyError, match=r"pip install headrace\[hdf5\]"):
        hdf5_file.import_h5py()
    with pytest.raises(MissingDependencyError, match=r"pip install headrace\[hdf5\]"):
        hf.open(path)


def test_samples_without_bytes_are_refused(tmp_path):
    path = make(tmp_path / "a.h5", x=np.zeros((3, 0)))
    with pytest.raises((FieldError, UnsupportedError), match="'/x'"):
        hf.open(path)
