"""The latency model charges what passes it, across processes, and refuses figures of what went around it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from benchmarks.rig import Conditions, Refused, run_under
from benchmarks.rig.data import find_data
from benchmarks.rig.shim import Model, Seen, build_shim, check_seen

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None, reason="no C compiler to build the shim"
)
PAGES = 256
PREAMBLE = "import ctypes, mmap, os, sys; path = sys.argv[1]; fd = os.open(path, os.O_RDONLY);"


@pytest.fixture
def data(tmp_path):
    """A megabyte."""
    (tmp_path / "data.bin").write_bytes(bytes(PAGES * 4096))
    return find_data([tmp_path / "data.bin"])


def run(model, data, code):
    """A Python program that reads the data under the model."""
    command = [sys.executable, "-I", "-c", PREAMBLE + code, data.files[0][0]]
    subprocess.run(command, env=model.env(os.environ), check=True, timeout=60)
    return model.counts()


def test_a_page_is_paid_for_once_while_the_cache_holds_it(data):
    """Also by another process."""
    every_fourth = "[os.pread(fd, 100, page * 4096) for page in range(2, 256, 4)]"
    with Model(data, Conditions()) as model:
        seen = run(model, data, every_fourth)
        assert (seen.operations, seen.nbytes, seen.calls) == (64, 64 * 4096, 64)
        seen = run(model, data, every_fourth)
        assert (seen.operations, seen.calls, seen.processes) == (64, 128, 2)


def test_a_cache_smaller_than_what_is_read_pays_again(data):
    """At least for all that it cannot hold."""
    whole = "os.pread(fd, 1 << 20, 0)"
    with Model(data, Conditions(memory=64 * 4096)) as model:
        assert run(model, data, whole).nbytes == PAGES * 4096
        assert run(model, data, whole).nbytes >= (2 * PAGES - 64) * 4096


def test_reading_on_is_read_ahead(data):
    """Small reads in sequence are operations of 128 KiB, as with the kernel."""
    with Model(data, Conditions()) as model:
        seen = run(model, data, "[os.read(fd, 1000) for _ in range(2000)]")
    assert (seen.operations, seen.nbytes) == (8, PAGES * 4096)


@pytest.mark.parametrize(
    "code",
    [
        "os.read(fd, 4096)",
        "os.readv(fd, [bytearray(2048), bytearray(2048)])",
        "os.preadv(fd, [bytearray(4096)], 0)",
        "open(path, 'rb').readinto(bytearray(4096))",
        "l = ctypes.CDLL(None); l.fopen.restype = ctypes.c_void_p; "
        "f = l.fopen(path.encode(), b'rb'); l.fread(ctypes.create_string_buffer(4096), 1, 4096, ctypes.c_void_p(f))",
    ],
    ids=["read", "readv", "preadv", "file", "fread"],
)
def test_each_way_of_reading_is_seen(code, data):
    """The first read of a file brings 128 KiB at once."""
    with Model(data, Conditions()) as model:
        seen = run(model, data, code)
    assert (seen.operations, seen.nbytes) == (1, 128 << 10)


def test_other_files_are_free(data, tmp_path):
    """Programs and their libraries are not the dataset."""
    (tmp_path / "other").write_bytes(bytes(4096))
    with Model(data, Conditions()) as model:
        seen = run(model, data, "open(os.path.dirname(path) + '/other', 'rb').read()")
    assert (seen.processes, seen.calls, seen.operations) == (1, 0, 0)


def test_what_goes_around_the_shim_has_no_figures(data):
    """Mapped data, programs that do not load it, reads that it does not see."""
    with Model(data, Conditions()) as model:
        seen = run(model, data, "mmap.mmap(fd, 0, prot=mmap.PROT_READ)[5000]")
    assert seen.mapped == 1
    cold = Conditions(cold=True)
    with pytest.raises(Refused, match="mapped data files 1 times"):
        check_seen(seen, cold)
    with pytest.raises(Refused, match="not loaded"):
        check_seen(Seen(0, 0, 0, 0, 0), cold)
    with pytest.raises(Refused, match="read none of the data"):
        check_seen(Seen(0, 0, 0, 1, 0), cold)
    check_seen(Seen(0, 0, 0, 1, 0), Conditions())


def test_without_a_compiler_it_is_refused(tmp_path, monkeypatch):
    """With the name of what to install."""
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    with pytest.raises(Refused, match="install cc"):
        build_shim(tmp_path)


def test_a_command_runs_under_the_model_and_its_state_goes(data):
    """With what was seen of the limit, and the figures of the model."""
    conditions = Conditions(iops=200, memory="25%")
    result = run_under(
        conditions, ["cat", data.files[0][0]], data=data.files[0][0], shim=True, stdout=subprocess.DEVNULL
    )
    assert (result.returncode, result.read_bytes) == (0, PAGES * 4096)
    assert [line.split(":")[0] for line in result.saw] == [
        "memory limit 262,144 bytes (model)",
        "IOPS limit 200",
        "cold",
    ]


def test_the_state_of_a_model_goes_in_any_case(data):
    """Also when the run is interrupted."""
    paths = []

    def interrupted():
        with Model(data, Conditions()) as model:
            paths.append(model.env({})["HEADRACE_RIG_SHIM"])
            assert os.path.exists(paths[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not os.path.exists(paths[0])


def test_every_file_of_many_is_found(tmp_path):
    """Python and C hash alike: a file that Python puts where C does not look would be free."""
    for number in range(100):
        (tmp_path / f"{number}.bin").write_bytes(bytes(4096))
    data = find_data([tmp_path])
    with Model(data, Conditions()) as model:
        code = "[open(entry, 'rb', 0).read(9) for entry in os.scandir(os.path.dirname(path))]"
        assert run(model, data, code).calls == 100


def test_who_announces_random_reads_gets_no_read_ahead(data):
    """As with the kernel."""
    with Model(data, Conditions()) as model:
        code = "os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM); [os.pread(fd, 4096, k << 12) for k in range(9)]"
        seen = run(model, data, code)
    assert (seen.operations, seen.nbytes) == (9, 9 * 4096)
