"""Each dataset holds, byte for byte, what its formula says, and says of each sample which one it is."""

import itertools

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import InputError
from headrace.workloads import WORKLOADS, find_workload, make_workload, many_fields, small_records

SIZES = {"large": 8_000_000, "chunked": 2_000_000, "npy_files": 2_000_000}


@pytest.fixture(scope="module", params=sorted(WORKLOADS))
def made(request, tmp_path_factory):
    """A workload, its folder, its number of samples and what `progress` was told."""
    folder = tmp_path_factory.mktemp(request.param) / "data"
    told = []
    make_workload(request.param, folder, size=SIZES.get(request.param, 500_000), seed=3, progress=told.append)
    return WORKLOADS[request.param], folder, told


def test_every_sample_holds_what_is_expected_of_it(made):
    """Read back through `headrace.open`, field by field, dtype and shape included."""
    workload, folder, _ = made
    dataset = hr.open(folder, list(workload.fields))
    want = workload.expected(np.arange(len(dataset)), seed=3)
    values = dataset.read(np.arange(len(dataset)))
    assert set(want) == set(workload.fields)
    for name in workload.fields:
        assert values[name].dtype == want[name].dtype
        np.testing.assert_array_equal(values[name], want[name])


def test_the_size_of_a_sample_is_what_the_workload_says(made):
    """So a size in bytes is turned into the right number of samples."""
    workload, folder, _ = made
    layout = hr.open(folder, list(workload.fields)).layout
    assert layout.nbytes == layout.n * workload.sample_nbytes
    assert layout.n == workload.samples_in(SIZES.get(workload.name, 500_000))


def test_progress_counts_every_sample_once(made):
    """In whole blocks."""
    workload, folder, told = made
    assert sum(told) == len(hr.open(folder, list(workload.fields)))


def test_the_first_eight_bytes_of_x_are_the_id(made):
    """As any loader sees them, whatever it makes of the rest."""
    workload, folder, _ = made
    if "x" not in workload.fields:
        pytest.skip("the neuron inverter spells its ids in the parameters")
    values = hr.open(folder, ["x"]).read([0, 2, 1])["x"]
    rows = np.ascontiguousarray(values).reshape(3, -1).view(np.uint8)[:, :8]
    assert np.ascontiguousarray(rows).view("<i8").ravel().tolist() == [0, 2, 1]


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=6, unique=True), st.integers(0, 3))
def test_a_sample_is_like_no_other(ids, seed):
    """Of any two, and under any two seeds, bytes agree only by chance; what is a float is finite."""
    workload = WORKLOADS["many_fields"]
    values = workload.expected(ids, seed=seed)
    assert all(np.isfinite(v).all() for v in values.values() if v.dtype.kind == "f")
    image, other = values["image"], workload.expected(ids, seed=seed + 1)["image"]
    for a, b in [*itertools.pairwise(image), *zip(image, other, strict=True)]:
        assert (a == b).mean() < 0.1


def test_chunks_hold_one_sample_and_no_filter(tmp_path):
    """Storage that has to be found chunk by chunk."""
    (path,) = find_workload("chunked").make(tmp_path, samples=5)
    with h5py.File(path) as file:
        assert file["x"].chunks == (1, 65_536)
        assert file["x"].compression is None
    assert len(hr.open(path).layout.parts[0].segments.first) >= 1


def test_records_come_in_the_size_that_was_asked_for(tmp_path):
    """100 bytes and 4 KiB are the same maker."""
    for nbytes in (8, 100, 4096):
        (path,) = small_records(tmp_path / str(nbytes), samples=7, sample_nbytes=nbytes)
        assert hr.open(path).layout.nbytes == 7 * nbytes


def test_many_fields_are_twelve(tmp_path):
    """The smallest is 2 bytes a sample."""
    dataset = hr.open(many_fields(tmp_path, samples=3))
    assert len(dataset.fields) == 12
    assert min(field.nbytes for field in dataset.fields.values()) == 2


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda folder: small_records(folder, samples=0), "samples=0"),
        (lambda folder: small_records(folder, samples=1, sample_nbytes=7), "sample_nbytes=7"),
        (lambda folder: make_workload("nothing", folder, size=1), "workload 'nothing'"),
        (lambda folder: make_workload("large", folder, size="2M"), "2M"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path, call, complaint):
    """With the value that is wrong."""
    with pytest.raises(InputError, match=complaint):
        call(tmp_path)
