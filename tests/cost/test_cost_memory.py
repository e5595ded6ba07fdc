"""The memory that may be used is the smallest of all limits, on whatever machine the files describe."""

import pytest

from headrace.config import Config, Launcher
from headrace.cost import MemoryLimit, memory_budget, usable_memory
from headrace.errors import InputError

GIB = 1 << 30
NO_LIMIT = -1


class Machine:
    """A folder with the proc and sys files of an invented machine."""

    def __init__(self, root):
        self.root = root
        self.write("proc/meminfo", f"MemTotal: 99 kB\nMemAvailable: {64 * GIB // 1024} kB\n")
        self.write("proc/self/status", f"Name: python\nVmSize: {GIB // 1024} kB\n")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def cgroup2(self, path, limit, current, *, inactive=0, active=0, point="sys/fs/cgroup"):
        self.write(f"{point}/{path}/memory.max", f"{limit}\n")
        self.write(f"{point}/{path}/memory.current", f"{current}\n")
        self.write(f"{point}/{path}/memory.stat", f"anon 5\nactive_file {active}\ninactive_file {inactive}\n")

    def usable(self, **keywords):
        return usable_memory(root=self.root, **{"ranks_on_node": 1, "address_space": NO_LIMIT, **keywords})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def v2(machine):
    machine.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    machine.write("proc/self/cgroup", "0::/user/job\n")
    return machine


def test_without_limits_the_available_memory_of_the_node_counts(machine):
    """MemAvailable, not MemTotal or MemFree."""
    assert machine.usable() == MemoryLimit(64 * GIB, "memory available on this node")


def test_the_tightest_cgroup_above_the_process_counts(v2):
    """A limit of a parent binds as much as the process's own."""
    v2.cgroup2("user/job", "max", 3 * GIB)
    v2.cgroup2("user", 16 * GIB, 6 * GIB)
    assert v2.usable() == MemoryLimit(10 * GIB, "left below the limit of cgroup /user")


def test_page_cache_in_a_cgroup_counts_as_free(v2):
    """A job that has read its dataset once has not used up its memory."""
    v2.cgroup2("user/job", 16 * GIB, 15 * GIB, inactive=8 * GIB, active=4 * GIB)
    assert v2.usable().nbytes == 13 * GIB


def test_a_cgroup_over_its_limit_leaves_nothing_but_no_debt(v2):
    """The limit can be lowered below the use."""
    v2.cgroup2("user/job", GIB, 2 * GIB)
    assert v2.usable().nbytes == 0


def test_a_container_of_version_1_finds_its_part_of_the_hierarchy(machine):
    """The path is that of the host; the mount shows only the container's part of it."""
    machine.write("proc/self/cgroup", "9:cpu:/x\n4:memory:/docker/abc\n0::/\n")
    machine.write("proc/self/mountinfo", "40 23 0:30 /docker/abc /cg/memory rw - cgroup cgroup rw,memory\n")
    machine.write("cg/memory/memory.limit_in_bytes", f"{4 * GIB}\n")
    machine.write("cg/memory/memory.usage_in_bytes", f"{3 * GIB}\n")
    machine.write("cg/memory/memory.stat", f"inactive_file 1\ntotal_inactive_file {GIB}\ntotal_active_file {GIB}\n")
    assert machine.usable() == MemoryLimit(3 * GIB, "left below the limit of cgroup /")


def test_version_1_writes_no_limit_as_a_huge_number(machine):
    """Which must not be taken for one."""
    machine.write("proc/self/cgroup", "4:memory:/\n")
    machine.write("proc/self/mountinfo", "40 23 0:30 / /cg rw - cgroup cgroup rw,memory\n")
    machine.write("cg/memory.limit_in_bytes", "9223372036854771712\n")
    machine.write("cg/memory.usage_in_bytes", "5\n")
    assert machine.usable().nbytes == 64 * GIB


def test_a_process_moved_out_of_its_namespace_is_held_by_the_top(v2):
    """A path with '..' must not lead out of the mount."""
    v2.write("proc/self/cgroup", "0::/../other\n")
    v2.cgroup2("../other", GIB, 0)
    v2.cgroup2(".", 8 * GIB, 0)
    assert v2.usable().nbytes == 8 * GIB


def test_the_ranks_of_a_node_share_what_the_node_has(v2):
    """Eight ranks that each take half of everything would take four times the node."""
    v2.cgroup2("user/job", 16 * GIB, 0)
    limit = v2.usable(ranks_on_node=8)
    assert limit == MemoryLimit(2 * GIB, "left below the limit of cgroup /user/job, shared by 8 ranks of this node")


def test_the_address_space_limit_is_each_process_s_own(machine):
    """It is not shared by ranks, and what is mapped already is used."""
    limit = machine.usable(ranks_on_node=8, address_space=4 * GIB)
    assert limit == MemoryLimit(3 * GIB, "address space limit (ulimit -v)")


def test_a_machine_that_says_nothing_asks_for_a_number(tmp_path):
    """Nothing is guessed."""
    with pytest.raises(InputError, match="give memory= as a size"):
        usable_memory(root=tmp_path, ranks_on_node=1, address_space=NO_LIMIT)


def test_this_machine_has_some_memory():
    """The real files are readable as written here."""
    limit = usable_memory(ranks_on_node=1)
    assert 1 << 20 < limit.nbytes < 1 << 50


@pytest.mark.parametrize(
    ("memory", "nbytes", "why"),
    [
        (None, 4 * GIB, "50% of 8.00 GiB (the node)"),
        ("25%", 2 * GIB, "25% of 8.00 GiB (the node)"),
        ("2.5 %", 8 * GIB // 40, "memory='2.5 %'"),
        ("100GiB", 100 * GIB, "memory='100GiB'"),
        (12345, 12345, "memory=12345"),
    ],
)
def test_a_budget_is_a_share_or_what_was_asked(memory, nbytes, why):
    """And says which."""
    budget, explanation = memory_budget(memory, usable=MemoryLimit(8 * GIB, "the node"), config=Config())
    assert budget == nbytes
    assert why in explanation


def test_the_environment_stands_in_for_no_memory_given_only():
    """HEADRACE_MEMORY is a default, an argument is the last word."""
    config = Config(memory="1GiB")
    assert memory_budget(None, config=config) == (GIB, "1.00 GiB: HEADRACE_MEMORY='1GiB'")
    assert memory_budget("2GiB", config=config)[0] == 2 * GIB


def test_the_launcher_s_ranks_share_the_default():
    """Two ranks of a node take half as much each."""
    one = memory_budget(None, config=Config())[0]
    two = memory_budget(None, config=Config(launcher=Launcher("torchrun", 0, 2, 0, 2)))[0]
    assert two == pytest.approx(one / 2, rel=0.2)


@pytest.mark.parametrize("memory", ["0%", "101%", "x%", "0", "8G", -1])
def test_a_budget_that_cannot_be_is_refused(memory):
    """With the value that was given."""
    with pytest.raises(InputError) as caught:
        memory_budget(memory, usable=MemoryLimit(GIB, "the node"), config=Config())
    assert repr(memory) in str(caught.value)
