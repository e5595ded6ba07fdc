"""What launchers say is read as they say it; what makes no sense is refused; nothing is guessed."""

import pytest

from headrace.config import Config, Launcher, load
from headrace.errors import InputError


def test_an_empty_environment_is_one_process():
    """Which is the usual case."""
    assert load({}) == Config(Launcher("none", 0, 1, 0, 1), None)


@pytest.mark.parametrize(
    ("environ", "launcher"),
    [
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
            Launcher("torchrun", 5, 8, 1, 4),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            Launcher("Open MPI", 1, 2, 1, 2),
        ),
        (
            {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            Launcher("MPICH", 3, 4, 1, 2),
        ),
        ({"PMI_RANK": "3", "PMI_SIZE": "4"}, Launcher("MPICH", 3, 4, None, None)),
    ],
)
def test_each_launcher_is_read_by_its_own_names(environ, launcher):
    """And what it does not say stays unknown."""
    assert load(environ).launcher == launcher


@pytest.mark.parametrize(("node", "tasks"), [("0", 2), ("2", 2), ("3", 1)])
def test_slurm_says_the_tasks_of_every_node(node, tasks):
    """In a notation of its own."""
    environ = {"SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "7", "SLURM_LOCALID": "0", "SLURM_NODEID": node}
    assert load({**environ, "SLURM_STEP_TASKS_PER_NODE": "2(x3),1"}).launcher.local_size == tasks


def test_a_batch_script_itself_is_one_process():
    """It has a rank and a number of tasks, but nothing was started eight times."""
    assert load({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}).launcher == Launcher()


def test_torchrun_inside_slurm_wins():
    """The innermost launcher started this process."""
    environ = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "RANK": "3", "WORLD_SIZE": "16"}
    assert load(environ).launcher.name == "torchrun"


def test_unknown_neighbours_count_as_all_on_this_node():
    """Too little memory is safer than too much."""
    assert Launcher("MPICH", 3, 4, None, None).ranks_on_node == 4
    assert Launcher("torchrun", 3, 16, 3, 8).ranks_on_node == 8


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"RANK": "8", "WORLD_SIZE": "8"}, "RANK=8 and WORLD_SIZE=8"),
        ({"RANK": "one", "WORLD_SIZE": "8"}, "RANK='one'"),
        (
            {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "two"},
            "SLURM_STEP_TASKS_PER_NODE='two'",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(environ, complaint):
    """With the variable and its value."""
    with pytest.raises(InputError, match=complaint):
        load(environ)


def test_an_empty_memory_variable_counts_as_none():
    """HEADRACE_MEMORY= is how a shell unsets it."""
    assert load({"HEADRACE_MEMORY": ""}).memory is None
    assert load({"HEADRACE_MEMORY": "25%"}).memory == "25%"


@pytest.mark.parametrize(("text", "probe"), [("0", False), ("off", False), ("No", False), ("1", True), ("", True)])
def test_the_environment_may_forbid_to_measure(text, probe):
    """Unset and empty leave the default."""
    assert load({"HEADRACE_PROBE": text}).probe is probe
    assert load({}).probe is True


def test_a_switch_that_makes_no_sense_is_refused():
    """'maybe' is neither."""
    with pytest.raises(InputError, match="HEADRACE_PROBE='maybe'"):
        load({"HEADRACE_PROBE": "maybe"})


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({}, None),
        ({"HOME": "/home/me"}, "/home/me/.cache/headrace"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/var/me"}, "/var/me/headrace"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}, "/home/me/.cache/headrace"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/var/me", "HEADRACE_CACHE": "/scratch/x"}, "/scratch/x"),
    ],
)
def test_measurements_are_kept_in_the_users_cache_folder(environ, cache):
    """Or where they are told to; nowhere, if nobody says where."""
    assert load(environ).cache == cache
