"""The dataset of the demo says of each sample which one it is."""

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.workloads import SAMPLE_NBYTES, expected, neuron_inverter, samples_in, unequal_files


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Files of 700 samples: more than two blocks in the longest."""
    seen = []
    paths = neuron_inverter(tmp_path_factory.mktemp("data"), samples=1500, files=2, seed=3, progress=seen.append)
    return paths, seen


def test_the_files_hold_what_is_expected_of_each_sample(dataset):
    """Sample ids run through the files in their order."""
    paths, _ = dataset
    traces, parameters = [], []
    for path in paths:
        with h5py.File(path) as file:
            traces.append(file["trace"][()])
            parameters.append(file["parameters"][()])
    assert len(traces[0]) != len(traces[1])
    want = expected(np.arange(1500), seed=3)
    np.testing.assert_array_equal(np.concatenate(traces), want["trace"])
    np.testing.assert_array_equal(np.concatenate(parameters), want["parameters"])


def test_progress_counts_every_sample_once(dataset):
    """In blocks, so that a bar can move."""
    _, seen = dataset
    assert sum(seen) == 1500
    assert len(seen) > 2


def test_the_arrays_are_stored_in_one_piece(dataset):
    """Contiguous storage is the simplest layout there is."""
    with h5py.File(dataset[0][0]) as file:
        assert file["trace"].chunks is None
        assert file["trace"].shape[1:] == (1600, 3)
        assert file["parameters"].shape[1:] == (19,)


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=8, unique=True), st.integers(0, 5))
def test_a_sample_spells_its_id_and_is_like_no_other(ids, seed):
    """Two samples share hardly a value; the id can be read off the parameters."""
    values = expected(ids, seed=seed)
    high, low = values["parameters"][:, 0].astype(np.int64), values["parameters"][:, 1].astype(np.int64)
    np.testing.assert_array_equal((high << 22) + low, ids)
    for a, b in zip(values["trace"], values["trace"][1:], strict=False):
        assert (a == b).mean() < 0.01


def test_another_seed_is_another_dataset():
    """While the ids stay readable."""
    one, two = expected([5], seed=0), expected([5], seed=1)
    assert (one["trace"] == two["trace"]).mean() < 0.01
    np.testing.assert_array_equal(one["parameters"][:, :2], two["parameters"][:, :2])


@given(st.integers(1, 10**9), st.integers(1, 50))
def test_files_are_unequal_and_hold_all_samples(samples, files):
    """None is empty; three or more differ where there are samples to differ by."""
    if files > samples:
        with pytest.raises(InputError, match=f"files={files}"):
            unequal_files(samples, files)
        return
    counts = unequal_files(samples, files)
    assert len(counts) == files
    assert sum(counts) == samples
    assert min(counts) >= 1
    if files >= 2 and samples >= 100 * files:
        assert min(counts) < max(counts) <= 2.5 * min(counts)


def test_a_size_is_turned_into_samples():
    """256 MB are 13,280 samples of 19,276 bytes."""
    assert SAMPLE_NBYTES == 19276
    assert samples_in(256 * 10**6) == 13280
    assert samples_in(1) == 1
