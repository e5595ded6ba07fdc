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

__all__ = ["PARAMETERS", "SAMPLE_NBYTES", "TRACE", "expected", "neuron_inverter", "samples_in", "unequal_files"]
"""The public names; `neuron_inverter` is both the module and its function, and the function is meant."""
