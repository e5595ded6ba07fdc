"""Which files and which format: paths, patterns, suffixes and first bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

import headrace as hr
import headrace.formats as hf
from headrace.errors import FieldError, FormatError, InputError, UnsupportedError
from headrace.formats.paths import expand_braces


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a", ["a"]),
        ("{08..11}", ["08", "09", "10", "11"]),
        ("{8..11}", ["8", "9", "10", "11"]),
        ("{000..002}.h5", ["000.h5", "001.h5", "002.h5"]),
        ("{a,b}-{1..2}", ["a-1", "a-2", "b-1", "b-2"]),
    ],
)
def test_braces_expand_like_a_shells(pattern, names):
    assert expand_braces(pattern) == names


def test_a_range_that_runs_backwards_is_refused():
    with pytest.raises(InputError, match="runs backwards"):
        expand_braces("{5..2}")


def test_first_bytes_tell_the_format_where_the_suffix_does_not(tmp_path):
    """Also behind a user block, and also for a suffix that could be anything."""
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "a.npy").rename(tmp_path / "array")
    assert hf.open(tmp_path / "array").layout.format == "npy"
    for name, block in (("plain", 0), ("block.dat", 2048)):
        with h5py.File(tmp_path / name, "w", userblock_size=block) as f:
            f["x"] = np.zeros(3)
        assert hf.open(tmp_path / name).layout.format == "hdf5"


def test_unknown_files_list_the_known_formats(tmp_path):
    (tmp_path / "a.xyz").write_bytes(b"something")
    with pytest.raises(FormatError, match=r"a\.xyz is of no known format .*hdf5 .*npy .*bin .*map dataset"):
        hf.open(tmp_path / "a.xyz")
    with pytest.raises(FormatError, match="format='parquet' is not known; known formats: hdf5"):
        hf.open(tmp_path / "a.xyz", format="parquet")


def test_a_folder_of_several_formats_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "b.bin").write_bytes(bytes(8))
    with pytest.raises(FormatError, match="several formats"):
        hf.open(tmp_path)
    assert hf.open(tmp_path, format="npy").n == 3
    assert hf.open(tmp_path, format="bin", dtype="u1").n == 8


def test_paths_that_do_not_exist_say_what_is_near(tmp_path):
    np.save(tmp_path / "train.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"does not exist .*did you mean 'train\.npy'"):
        hf.open(tmp_path / "trian.npy")
    with pytest.raises(InputError, match="no file matches"):
        hf.open(f"{tmp_path}/*.h5")
    with pytest.raises(InputError, match="nor does its folder"):
        hf.open("/no/such/folder/a.npy")
    with pytest.raises(InputError, match="no file that ends with"):
        hf.open(tmp_path, format="hdf5")
    with pytest.raises(InputError, match=r"train-1\.npy does not exist"):
        hf.open(f"{tmp_path}/train-{{1..3}}.npy")


def test_what_is_no_path_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(UnsupportedError, match="only local files"):
        hf.open("s3://bucket/a.npy")
    with pytest.raises(InputError, match="the list is empty"):
        hf.open([])
    with pytest.raises(InputError, match="not int"):
        hf.open([str(tmp_path / "a.npy"), 3])
    with pytest.raises(InputError, match="is named twice"):
        hf.open([tmp_path / "a.npy", tmp_path / "a.npy"])


def test_fields_must_be_names(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    with pytest.raises(InputError, match="fields= is empty"):
        hf.open(tmp_path / "a.npy", [])
    with pytest.raises(InputError, match="maps names to names"):
        hf.open(tmp_path, {"x": 3}, format="npy")
    with pytest.raises(FieldError, match="twice"):
        hf.open(tmp_path / "a.npy", ["x", "x"])


def test_a_name_with_pattern_characters_that_exists_is_that_file(tmp_path):
    np.save(tmp_path / "a[1]{2}.npy", np.zeros(3))
    assert hf.open(tmp_path / "a[1]{2}.npy").n == 3


def test_inspect_takes_a_path(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2), ">f4"))
    facts = hf.inspect(tmp_path / "a.npy")
    assert facts["fields"] == [
        {"name": "data", "dtype": "float32", "stored": ">f4", "shape": [2], "ragged": False}
        | {"bytes_per_sample": 8, "parts": 1, "segments": 1}
    ]
    assert (facts["storage_order"], facts["bytes"]) == ("ids", 24)


def test_importing_formats_imports_no_library_of_a_format():
    """Somebody who reads .npy files never loads h5py."""
    code = "import sys, headrace.formats; sys.exit('h5py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


def test_what_is_no_regular_file_is_refused_by_name_and_not_waited_for(tmp_path):
    """Opening a FIFO waits until somebody writes into it."""
    os.mkfifo(tmp_path / "a.h5")
    (tmp_path / "link.h5").symlink_to(tmp_path / "a.h5")
    for name in ("a.h5", "link.h5"):
        with pytest.raises(InputError, match=f"{name} is a FIFO, not a file"):
            hr.open(tmp_path / name)
    with pytest.raises(InputError, match="/dev/null is a device, not a file"):
        hr.open("/dev/null")


def test_an_open_file_and_a_path_of_bytes_are_told_what_to_give(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros((3, 2))
        with pytest.raises(InputError, match=rf"open was given an open file .*File.: give its path, '{path}'"):
            hr.open(file)
    with open(path, "rb") as plain, pytest.raises(InputError, match="open was given an open file"):
        hr.open(plain)
    with pytest.raises(InputError, match=r"open was given bytes .*: a path is a string or a Path"):
        hr.open(bytes(path))
