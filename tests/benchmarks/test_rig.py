"""The rig limits what it says, sees that it bites, refuses what it cannot do, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.rig import REFUSED, Conditions, Refused, bite, cgroups, run_under
from benchmarks.rig.cgroups import Group, Hierarchy, groups_for, locate, make_group
from benchmarks.rig.conditions import parse_size
from benchmarks.rig.data import cached_pages, find_data, make_cold
from benchmarks.rig.device import device_of, mount_of, parse_mounts, whole_disk
from benchmarks.rig.reader import measure
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
V1 = """30 24 0:26 / {top}/memory rw,relatime shared:9 - cgroup cgroup rw,memory
31 24 0:27 / {top}/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio
"""
V2 = "30 24 0:26 / {top} rw,relatime - cgroup2 cgroup2 rw\n"


@pytest.fixture
def file(tmp_path):
    """A megabyte of bytes that differ from page to page."""
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(1 << 20))
    return path


@pytest.fixture
def fake_v2(tmp_path, monkeypatch):
    """A folder that looks like a v2 hierarchy with both controllers; groups in it can be removed with their files."""
    top = tmp_path / "cgroup"
    top.mkdir()
    (top / "cgroup.controllers").write_text("cpu memory io\n")
    (top / "cgroup.subtree_control").write_text("memory io\n")
    monkeypatch.setattr(cgroups, "locate_here", lambda controller: Hierarchy(controller, 2, top, top))
    remove = os.rmdir

    def remove_with_files(folder):
        for held in Path(folder).iterdir():
            held.unlink()
        remove(folder)

    monkeypatch.setattr(cgroups.os, "rmdir", remove_with_files)
    # A file keeps the numbers of processes that ended; the kernel would not.
    monkeypatch.setattr(cgroups, "DEADLINE", 0.05)
    return top


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("800MiB", 800 << 20),
        ("150MB", 150_000_000),
        ("150MB/s", 150_000_000),
        ("1.5k", 1500),
        (4096, 4096),
        ("2g", 2 * 10**9),
    ],
)
def test_sizes_are_read_as_people_write_them(text, nbytes):
    """With either kind of unit, with or without a second."""
    assert parse_size(text, "memory") == nbytes


@pytest.mark.parametrize("bad", [{"memory": "much"}, {"memory": "0%"}, {"memory": "101%"}, {"memory": 0}, {"iops": 0},
                                 {"iops": 1.5}, {"bandwidth": "-1"}, {"cold": "ice"}])  # fmt: skip
def test_what_cannot_be_meant_is_named_before_anything_runs(bad):
    """The message holds the word and the value."""
    with pytest.raises(ValueError, match=next(iter(bad))):
        Conditions(**bad)


@given(total=st.integers(100, 1 << 50), percent=st.integers(1, 100))
def test_a_share_of_the_data_is_never_more_than_it(total, percent):
    """And at least a byte."""
    limit = Conditions(memory=f"{percent}%").memory_bytes(total)
    assert 1 <= limit <= total
    assert abs(limit - total * percent / 100) <= 1 + total * 1e-12


def test_only_limits_and_cold_drop_pages():
    """A command without conditions meets the cache as it is."""
    assert not Conditions().starts_cold
    assert all(Conditions(**c).starts_cold for c in ({"cold": True}, {"memory": "5%"}, {"iops": 9}, {"bandwidth": 9}))


def test_data_are_the_regular_files_each_once(tmp_path):
    """Also where a path is named twice, inside another, or through a link."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"x" * 5000)
    (tmp_path / "a" / "empty").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a" / "one")
    data = find_data([tmp_path, tmp_path / "a", tmp_path / "link"])
    assert (data.nbytes, data.pages, len(data.files)) == (5000, 2, 1)
    with pytest.raises(Refused, match="no such file"):
        find_data([tmp_path / "missing"])


def test_pages_of_data_are_dropped_and_counted(file):
    """After a read they are cached, after the drop none is."""
    with contextlib.suppress(Refused):
        device_of(str(file))
        file.read_bytes()
        assert cached_pages([(str(file), 1 << 20)]) == 256
        assert make_cold(find_data([file]), machine=False) == "cold: 0 of 256 pages cached"
        return
    pytest.skip("the folder of the tests lies on no disk, so pages cannot be dropped")


def test_the_disk_of_a_partition_is_limited_as_a_whole(tmp_path):
    """Limits are taken by disks."""
    disk = tmp_path / "devices" / "sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "dev").write_text("8:0\n")
    (disk / "sda1" / "partition").write_text("1\n")
    (tmp_path / "8:1").symlink_to(disk / "sda1")
    (tmp_path / "8:0").symlink_to(disk)
    assert [whole_disk(number, sys=tmp_path) for number in ("8:1", "8:0", "9:9")] == ["8:0", "8:0", None]


def test_a_file_is_followed_through_an_overlay_to_its_layer(tmp_path, file):
    """And refused, with its filesystem named, where no disk is found."""
    upper = tmp_path / "upper"
    upper.mkdir()
    mounts = parse_mounts(f"1 0 0:9 / {tmp_path} rw - overlay overlay rw,lowerdir=/nowhere,upperdir={upper}\n"
                          f"2 0 0:8 / {upper} rw - tmpfs tmpfs rw\n")  # fmt: skip
    with pytest.raises(Refused, match="overlay whose layers cannot be seen"):
        device_of(str(file), mounts=mounts, sys=tmp_path)
    (upper / "data.bin").write_bytes(b"x")
    with pytest.raises(Refused, match=r"upper/data\.bin lies on tmpfs"):
        device_of(str(file), mounts=mounts, sys=tmp_path)


def test_a_mount_is_found_by_whole_folders():
    """/data2 does not lie on /data."""
    mounts = parse_mounts("1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /data rw - xfs /dev/b rw\n"
                          "3 1 8:3 / /with\\040space rw - xfs /dev/c rw\n")  # fmt: skip
    found = [mount_of(path, mounts).source for path in ("/data/x", "/data2/x", "/with space/x")]
    assert found == ["/dev/b", "/dev/a", "/dev/c"]


def test_controllers_are_found_in_both_versions(tmp_path):
    """Each by itself: a machine may have memory in v1 and the disk in v2."""
    own = "4:memory:/job/7\n5:blkio:/\n0::/user.slice\n"
    memory = locate("memory", mountinfo=V1.format(top=tmp_path), own=own)
    assert (memory.version, memory.own) == (1, tmp_path / "memory" / "job" / "7")
    assert memory.places() == [tmp_path / "memory" / "job" / "7", tmp_path / "memory" / "job", tmp_path / "memory"]
    (tmp_path / "cgroup.controllers").write_text("memory io")
    io = locate("io", mountinfo=V2.format(top=tmp_path), own=own)
    assert (io.version, io.own) == (2, tmp_path / "user.slice")
    inside = f"30 24 0:26 /box {tmp_path} rw - cgroup2 cgroup2 rw\n"
    assert locate("io", mountinfo=inside, own="0::/box/a\n").own == tmp_path / "a"
    assert locate("io", mountinfo=inside, own="0::/../x\n").own == tmp_path
    with pytest.raises(Refused, match="no cgroup hierarchy with the io controller"):
        locate("io", mountinfo="", own=own)


def test_limits_are_written_as_each_version_reads_them(tmp_path):
    """The very words, in the very files."""
    for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
        (tmp_path / name).touch()
    for version in (1, 2):
        group = Group(tmp_path, version)
        group.limit_memory(1 << 20)
        group.limit_reads("8:0", iops=1500, bandwidth=150_000_000)
    words = {path.name: path.read_text().strip() for path in tmp_path.iterdir()}
    assert words == {
        "memory.limit_in_bytes": "1048576",
        "memory.memsw.limit_in_bytes": "1048576",
        "blkio.throttle.read_bps_device": "8:0 150000000",
        "blkio.throttle.read_iops_device": "8:0 1500",
        "memory.max": "1048576",
        "memory.swap.max": "0",
        "io.max": "8:0 rbps=150000000 riops=1500",
    }
    Group(tmp_path, 2).limit_reads("8:0", iops=7)
    assert (tmp_path / "io.max").read_text() == "8:0 rbps=max riops=7\n"
    Group(tmp_path, 1).lift("8:0")
    assert (tmp_path / "blkio.throttle.read_iops_device").read_text() == "8:0 0\n"


def test_counters_are_read_from_each_version(tmp_path):
    """Of the one disk, reads only; what is missing is None, not nought."""
    assert Group(tmp_path, 1).reads("8:0") is None
    assert Group(tmp_path, 2).reads("8:0") is None
    assert Group(tmp_path, 2).peak_memory() is None
    (tmp_path / "blkio.throttle.io_service_bytes").write_text("8:0 Read 4096\n8:0 Write 9\n8:16 Read 5\nTotal 4110\n")
    (tmp_path / "blkio.throttle.io_serviced").write_text("8:0 Read 1\n8:0 Write 1\n")
    assert Group(tmp_path, 1).reads("8:0") == (4096, 1)
    (tmp_path / "io.stat").write_text("8:16 rbytes=5 wbytes=0 rios=1\n8:0 rbytes=8192 wbytes=1 rios=2 wios=3\n")
    assert Group(tmp_path, 2).reads("8:0") == (8192, 2)
    assert Group(tmp_path, 2).reads("7:0") == (0, 0)
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert (Group(tmp_path, 2).oom_kills(), Group(tmp_path, 1).oom_kills()) == (1, 3)


def test_a_group_is_made_as_near_as_controllers_are_given(fake_v2):
    """Above a group that has no controllers to give on; nowhere is a refusal that says what to do."""
    own = fake_v2 / "slice" / "scope"
    own.mkdir(parents=True)
    assert make_group([Hierarchy("memory", 2, fake_v2, own)], "t").folder.parent == fake_v2
    (own / "cgroup.controllers").write_text("memory io\n")
    assert make_group([Hierarchy("memory", 2, fake_v2, own)], "t").folder.parent == own
    assert (own / "cgroup.subtree_control").read_text() == "+memory\n"
    for folder in (fake_v2, own):
        (folder / "cgroup.controllers").write_text("cpu\n")
        (folder / "cgroup.subtree_control").unlink()
    with pytest.raises(Refused, match=r"no cgroup for io can be made here .*run as root.*--shim"):
        make_group([Hierarchy("io", 2, fake_v2, own)], "t")


def test_one_v2_group_carries_both_limits_and_goes_in_any_case(fake_v2):
    """A process is in one v2 group only, so two would leave one limit behind."""
    before = set(fake_v2.iterdir())

    def interrupted():
        with groups_for("t", device="8:0", memory=4096, iops=5) as groups:
            assert groups["memory"] is groups["io"]
            assert (groups["io"].folder / "io.max").read_text() == "8:0 rbps=max riops=5\n"
            assert (groups["io"].folder / "memory.max").read_text() == "4096\n"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert set(fake_v2.iterdir()) == before


def test_two_rigs_do_not_meet_and_the_leavings_of_a_dead_one_go(fake_v2):
    """Names carry the process and when it began; an empty group of nobody is removed."""
    dead = fake_v2 / f"{cgroups.PREFIX}-{os.getpid()}-1-0-run-memory"
    dead.mkdir()
    hierarchy = Hierarchy("memory", 2, fake_v2, fake_v2)
    first, second = make_group([hierarchy], "t"), make_group([hierarchy], "t")
    assert first.folder != second.folder
    assert first.folder.exists() and not dead.exists()


def test_a_command_enters_its_group_before_it_becomes_itself(fake_v2, file):
    """So that all it does is under the limits, and nothing is left when it fails or is killed."""
    before = set(fake_v2.iterdir())
    code = f"import os, pathlib; print(os.getpid(), *pathlib.Path({str(fake_v2)!r}).glob('*/cgroup.procs'))"
    result = run_under(Conditions(), [sys.executable, "-c", code], data=file)
    pid, procs = result.stdout.decode().split()
    assert procs.startswith(str(fake_v2 / cgroups.PREFIX)) and result.returncode == 0 and int(pid) > 0
    assert run_under(Conditions(), ["sh", "-c", "echo out; exit 3"], data=file).returncode == 3
    assert run_under(Conditions(), ["sh", "-c", "kill -9 $$"], data=file).returncode == -signal.SIGKILL
    assert set(fake_v2.iterdir()) == before


def test_what_a_command_leaves_running_is_ended(file):
    """Its output ends too: nobody waits for a pipe that a child holds."""
    result = run_under(Conditions(), ["sh", "-c", "sleep 600 & echo $!"], data=file)
    assert result.returncode == 0
    assert gone(int(result.stdout))


def test_a_command_out_of_time_is_ended_and_says_so(file):
    """With what it printed until then."""
    result = run_under(Conditions(), ["sh", "-c", "echo $$; sleep 600"], data=file, timeout=1)
    assert result.timed_out and result.returncode == -signal.SIGKILL
    assert not result.stdout or gone(int(result.stdout))


def gone(pid: int) -> bool:
    """Whether a process ended: no such process, or one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def rig(*arguments, **options):
    """The command line, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.rig", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, **options)


def test_the_command_line_ends_as_the_command_did(file):
    """With its output, or all in JSON."""
    done = rig("--data", file, "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "exit 3" in done.stderr
    done = rig("--data", file, "--json", "--", "sh", "-c", "echo out; kill -15 $$")
    assert done.returncode == 128 + 15
    assert json.loads(done.stdout)["stdout"] == "out\n"
    assert rig("--data", file, "--", "/no/such/command").returncode == 127


@pytest.mark.parametrize("condition", ["--iops=5", "--bandwidth=5MB", "--memory=2MiB"])
def test_what_cannot_be_limited_is_refused_with_77_and_a_sentence(condition, file):
    """A file in memory lies on no disk, a megabyte fits in two; the command does not start."""
    shm = Path("/dev/shm")
    if "memory" not in condition and not (shm.is_dir() and mount_is_tmpfs(shm)):
        pytest.skip("/dev/shm is no tmpfs here")
    path = file if "memory" in condition else shm / f"headrace-test-{os.getpid()}"
    try:
        if path != file:
            path.write_bytes(file.read_bytes())
        done = rig("--data", path, condition, "--", "echo", "started")
    finally:
        if path != file:
            path.unlink()
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert done.stderr.startswith("rig: refused: ") and done.stderr.count("\n") == 1


def mount_is_tmpfs(path):
    """Whether a folder lies in memory."""
    return mount_of(str(path), parse_mounts(Path("/proc/self/mountinfo").read_text())).kind == "tmpfs"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_rig_that_is_told_to_end_ends_its_command_first(number, file):
    """The command is gone when the rig is."""
    command = [sys.executable, "-m", "benchmarks.rig", "--data", str(file), "--", "sh", "-c", "echo $$; exec sleep 600"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        pid = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert gone(pid)
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{cgroups.PREFIX}-{process.pid}-*"))


def test_a_limit_that_does_not_bite_is_refused_from_both_sides():
    """Too much came through, or the disk is slower than the limit anyway."""
    seen = bite.Reading(1000, 1000, 1.0)
    bite.judge("IOPS", 1.05, "as asked", seen)
    with pytest.raises(Refused, match="does not bite; the reads"):
        bite.judge("IOPS", 1.5, "too many", seen)
    with pytest.raises(Refused, match="slower than the limit"):
        bite.judge("IOPS", 0.3, "too few", seen)


def test_memory_that_holds_the_data_or_keeps_too_much_is_refused(file, monkeypatch):
    """The limit is compared with what stayed in the cache."""
    data = find_data([file])

    def read(limit, instructions):
        assert json.loads(instructions)["nbytes"] == 2 << 18
        return json.dumps({"reads": 1, "nbytes": 2 << 18, "seconds": 1.0})

    with pytest.raises(Refused, match="fit in the limit"):
        bite.check_memory(read, data, 1 << 20)
    for kept, bites in ((64, True), (65, False)):
        monkeypatch.setattr(bite, "cached_pages", lambda files, kept=kept: kept)
        if bites:
            assert "kept 262,144 cached" in bite.check_memory(read, data, 1 << 18)
        else:
            with pytest.raises(Refused, match="another process reads the data too"):
                bite.check_memory(read, data, 1 << 18)


def test_a_run_that_got_more_than_its_limits_has_no_figures():
    """Whatever let it through, the figures would be wrong."""
    conditions = Conditions(iops=1000, bandwidth=10**9)
    bite.check_held(conditions, 2.0, 10**9, 2000)
    with pytest.raises(Refused, match="reads a second did not hold"):
        bite.check_held(conditions, 2.0, 10**9, 3000)
    with pytest.raises(Refused, match="bytes a second did not hold"):
        bite.check_held(conditions, 2.0, 3 * 10**9, 2000)


@pytest.mark.parametrize("shuffled", [True, False])
def test_the_reader_reads_every_chunk_once(file, tmp_path, shuffled):
    """A second read would come from the cache and look like a limit that does not bite."""
    (tmp_path / "small").write_bytes(b"x" * 5000)
    files = [[str(file), 1 << 20], [str(tmp_path / "small"), 5000]]
    seen = measure(files=files, chunk=4096, threads=3, seconds=60.0, shuffled=shuffled)
    assert (seen["reads"], seen["nbytes"]) == (258, (1 << 20) + 5000)
    seen = measure(files=files, chunk=4096, threads=1, seconds=60.0, nbytes=8192, shuffled=shuffled)
    assert seen["reads"] == 2


@pytest.fixture(scope="module")
def disk_file(tmp_path_factory):
    """64 MB on a disk, or a skip that says why not."""
    path = tmp_path_factory.mktemp("rig") / "data.bin"
    try:
        path.write_bytes(os.urandom(1 << 20) * 64)
        device_of(str(path))
    except Refused as error:
        pytest.skip(str(error))
    return path


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("conditions", "sees"),
    [
        (Conditions(cold=True), ["cold: 0 of"]),
        (Conditions(memory="50%"), ["memory limit", "cold"]),
        (Conditions(iops=500), ["IOPS limit 500", "cold"]),
        (Conditions(bandwidth="30MB"), ["bandwidth limit 30.0 MB/s", "cold"]),
        (Conditions(memory="50%", iops=500, bandwidth="30MB"), ["memory limit", "IOPS", "bandwidth", "cold"]),
    ],
    ids=["cold", "memory", "iops", "bandwidth", "all"],
)
def test_real_limits_bite_and_nothing_is_left(conditions, sees, disk_file):
    """What the kernel counted fits the limits, and no group stays."""
    try:
        result = run_under(conditions, ["dd", f"if={disk_file}", "of=/dev/null", "bs=1M"], data=disk_file, timeout=60)
    except Refused as error:
        pytest.skip(f"this machine does not allow it: {error}")
    assert result.returncode == 0
    assert len(result.saw) == len(sees)
    assert all(line.startswith(start) for line, start in zip(result.saw, sees, strict=True))
    assert result.read_bytes >= 64 << 20
    if conditions.memory and result.peak_memory is not None:
        assert result.peak_memory <= 32 << 20
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{cgroups.PREFIX}-{os.getpid()}-*"))
