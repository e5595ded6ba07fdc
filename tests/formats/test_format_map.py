"""Map datasets: any object with a length and items."""

from __future__ import annotations

import numpy as np
import pytest

import headrace.formats as hf
from headrace.errors import InputError


class Squares:
    def __init__(self, n=10):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i * i


class Batched(Squares):
    def __init__(self, n=10):
        super().__init__(n)
        self.calls = []

    def __getitems__(self, ids):
        self.calls.append(list(ids))
        return [self[i] for i in ids]


def test_items_are_fetched_in_the_order_of_ids():
    ds = hf.open(Squares())
    assert isinstance(ds, hf.MapDataset)
    assert (len(ds), ds.n, ds.layout.n, ds.layout.format) == (10, 10, 10, "map")
    assert ds.layout.fields == () and ds.layout.files == () and dict(ds.fields) == {}
    assert ds.fetch([3, 0, 3]) == [9, 0, 9]


def test_a_batch_is_one_call_where_the_object_has_it():
    source = Batched()
    assert hf.open(source).subset(slice(5, None)).fetch([0, 2]) == [25, 49]
    assert source.calls == [[5, 7]]


def test_getitems_must_give_one_sample_per_id():
    source = Batched()
    source.__class__ = type("Short", (Batched,), {"__getitems__": lambda self, ids: [1]})
    with pytest.raises(InputError, match="gave 1 samples for 2 ids"):
        hf.open(source).fetch([0, 1])


def test_subset_split_and_concat_are_index_maps():
    ds = hf.open(Squares())
    assert ds.subset([4, 2]).subset([1]).fetch([0]) == [4]
    parts = ds.split([0.3, 0.7], seed=1)
    assert sorted(x for p in parts for x in p.fetch(range(len(p)))) == [i * i for i in range(10)]
    joined = hf.concat([ds.subset([9, 8]), hf.open(Batched(3))])
    assert joined.fetch([0, 3, 1, 4]) == [81, 1, 64, 4]
    assert joined.subset([4]).fetch([0]) == [4]
    assert joined.dataset[1] == 64 and len(joined.dataset) == 5


def test_fingerprints_tell_selections_and_given_identities_apart():
    ds = hf.open(Squares())
    assert ds.fingerprint == hf.open(Squares()).fingerprint == ds.subset(slice(None)).fingerprint
    others = [
        ds,
        hf.open(Squares(9)),
        hf.open(Batched()),
        hf.open(Squares(), identity="v2"),
        ds.subset([1]),
        ds.concat(ds),
    ]
    assert len({d.fingerprint for d in others}) == len(others)


def test_lists_of_samples_and_arrays_are_map_datasets():
    assert hf.open([1.5, 2.5]).fetch([1]) == [2.5]
    assert hf.open(np.arange(6).reshape(3, 2)).fetch([2])[0].tolist() == [4, 5]


def test_what_cannot_be_is_refused(tmp_path):
    ds = hf.open(Squares())
    np.save(tmp_path / "a.npy", np.zeros(3))
    files = hf.open(tmp_path / "a.npy")
    with pytest.raises(InputError, match="holds no samples"):
        hf.open(Squares(0))
    with pytest.raises(InputError, match="do not all lie in 0 to 9"):
        ds.fetch([10])
    with pytest.raises(InputError, match="has no fields"):
        hf.open(Squares(), fields="x")
    with pytest.raises(InputError, match="no option dtype= for format 'map'"):
        hf.open(Squares(), dtype="f4")
    with pytest.raises(InputError, match="not with Dataset"):
        hf.concat([ds, files])
    with pytest.raises(InputError, match="not with MapDataset"):
        files.concat([ds])
    with pytest.raises(InputError, match="a mapping: give the folder"):
        hf.open({"x": "x.npy"})
    with pytest.raises(InputError, match="not int"):
        hf.open(3)
    with pytest.raises(InputError, match="open already"):
        hf.open(ds)


def test_inspect_counts_a_map_dataset():
    facts = hf.inspect(hf.open(Squares()))
    assert (facts["format"], facts["n"], facts["fields"], facts["file_count"]) == ("map", 10, [], 0)
