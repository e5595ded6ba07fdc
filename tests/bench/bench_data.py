"""Small datasets of every kind that the bench reads, and the specs of runs over them."""

from __future__ import annotations

import numpy as np

from headrace.bench.opening import described
from headrace.workloads import chunked, find_workload, many_fields, neuron_inverter, npy_files

RECORD = [["x", "<i8"], ["y", "<f4", [3]], ["z", "u1"]]


def make_dataset(kind, folder):
    """Write a dataset; its paths, and the options that open it."""
    if kind == "two files":
        neuron_inverter(folder, samples=50, files=2)
    elif kind == "chunks":
        chunked(folder, samples=30, sample_nbytes=8192)
    elif kind == "many fields":
        many_fields(folder, samples=60)
    elif kind == "folder of npy":
        npy_files(folder, samples=30, sample_nbytes=4096)
    else:
        folder.mkdir()
    if kind == "one npy":
        np.save(folder / "rows.npy", find_workload("page_records").expected(np.arange(60))["x"])
    if kind == "records":
        records = np.zeros(70, np.dtype([tuple(part) for part in RECORD]))
        records["x"], records["y"], records["z"] = np.arange(70), np.arange(210).reshape(70, 3), np.arange(70)
        (folder / "records.bin").write_bytes(b"head" + records.tobytes())
        return [str(folder / "records.bin")], {"dtype": RECORD, "header": 4}
    if kind == "big-endian":
        np.save(folder / "rows.npy", np.arange(400, dtype=">i4").reshape(40, 10))
    return [str(folder)], {}


KINDS = ("two files", "chunks", "many fields", "folder of npy", "one npy", "records", "big-endian")


def spec_of(paths, options, **asked):
    """The spec of a run, and the dataset's layout."""
    settings = {"batch_size": 16, "epochs": 2, "memory": "8MiB", "seed": 5} | asked
    spec, dataset = described(paths, None, None, options, **settings)
    return spec, dataset.layout
