"""Human sizes are read as they are written, and only where they can mean one thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cost import format_bytes, parse_bytes
from headrace.errors import InputError


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("8GiB", 8 << 30),
        ("100gb", 100 * 10**9),
        ("512MB", 512 * 10**6),
        ("1.5 TiB", 3 << 39),
        ("4096", 4096),
        ("12 b", 12),
        ("1_000kB", 10**6),
        (0, 0),
        (123, 123),
    ],
)
def test_a_size_means_what_its_unit_says(text, nbytes):
    """GB is a power of ten, GiB a power of two."""
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("8G", "'8GiB' or '8GB'"),
        ("8 pounds", "unknown unit 'pounds'"),
        ("lots", "not a size"),
        ("-8GiB", "not a size"),
        (-1, "negative"),
        (1.5, "not a size"),
        (True, "not a size"),
        ("", "not a size"),
    ],
)
def test_what_is_no_size_is_refused_with_its_value(text, complaint):
    """The error shows what was given and what to write instead."""
    with pytest.raises(InputError, match=complaint) as caught:
        parse_bytes(text, name="memory")
    assert f"memory={text!r}" in str(caught.value)


@given(st.integers(0, 1 << 50))
def test_a_printed_size_reads_back_within_its_digits(nbytes):
    """Three digits are kept."""
    assert parse_bytes(format_bytes(nbytes)) == pytest.approx(nbytes, rel=0.006, abs=1)
