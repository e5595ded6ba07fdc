"""Datasets to try things on: made at any size, with content that says which sample it is."""

from headrace.workloads.neuron_inverter import (
    PARAMETERS,
    SAMPLE_NBYTES,
    TRACE,
    expected,
    neuron_inverter,
    samples_in,
    unequal_files,
)
from headrace.workloads.registry import WORKLOADS, Workload, find_workload, make_workload
from headrace.workloads.shapes import chunked, large, many_fields, npy_files, small_records

__all__ = [
    "PARAMETERS",
    "SAMPLE_NBYTES",
    "TRACE",
    "WORKLOADS",
    "Workload",
    "chunked",
    "expected",
    "find_workload",
    "large",
    "make_workload",
    "many_fields",
    "neuron_inverter",
    "npy_files",
    "samples_in",
    "small_records",
    "unequal_files",
]
"""The public names; `neuron_inverter` is both the module and its function, and the function is meant."""
