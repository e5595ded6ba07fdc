"""A run that is killed at any moment and resumed trains on the same samples as one that never died."""

from __future__ import annotations

import json
import signal

import pytest
from runs import run, script
from test_resume import COMBINATIONS, make, smallest

import headrace as hr

TRAINING = """
import json, os, sys
from runs import check
from test_resume import make

path, order, read, residency, memory, journal, kills = sys.argv[1:]

def train(die_after):
    steps = [json.loads(line) for line in open(journal)] if os.path.exists(journal) else []
    loader = make(path, order=order, read=read, residency=residency, memory=memory)
    if steps:
        loader.load_state_dict(steps[-1]["state"])
    with open(journal, "a") as log:
        for epoch in range(loader.epoch, 3):
            for batch in loader:
                log.write(json.dumps({"ids": check(batch), "state": loader.state_dict()}) + "\\n")
                log.flush()
                die_after -= 1
                if die_after == 0:
                    os.kill(os.getpid(), 9)

# Every run is a process of its own, made from one that has imported everything and started nothing.
assert make(path, order=order, read=read, residency=residency, memory=memory).plan is not None
from headrace.native import engine

for die_after in json.loads(kills):
    pid = os.fork()
    if pid == 0:
        train(die_after)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
STEPS = 51


def check_kills(path, combination, kills, tmp_path):
    """Let runs die after so many steps each, one after the other, but the last. Compare all that was trained on."""
    order, read, residency = combination
    how = {"order": order, "read": read, "residency": residency}
    how["memory"] = smallest(path, **how)
    journal = tmp_path / "journal"
    process = script(TRAINING, path, *combination, how["memory"], journal, json.dumps([*kills, 0]))
    output, errors = process.communicate(timeout=300)
    assert [int(code) for code in output.split()] == [-signal.SIGKILL] * len(kills) + [0], errors
    got = [json.loads(line)["ids"] for line in journal.read_text().splitlines()]
    with make(path, **how) as loader:
        assert got == run(loader, 3)


SOME = [
    ("exact", "direct", "static"),
    ("exact", "sweep", "static"),
    ("echo", "sweep", "none"),
    ("group", "group", "none"),
    ("given", "window", "next-use"),
]


@pytest.mark.parametrize("combination", SOME)
def test_a_run_that_is_killed_and_resumed_trains_on_the_same_samples(train, tmp_path, combination):
    """SIGKILL after one step, two, three …: nothing of the process may be needed to go on."""
    check_kills(train, combination, [1, 2, 3, 4, 5, 6, 7, 8, 9], tmp_path)


def test_a_run_that_is_killed_at_every_single_step_makes_it_to_its_end(small, tmp_path):
    """Each process trains one step and dies."""
    with make(small, order="exact", read="direct", residency="static", memory="5MiB") as loader:
        steps = 3 * len(loader)
    check_kills(small, SOME[0], [1] * steps, tmp_path)


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_killing_at_every_step_loses_and_repeats_nothing(train, tmp_path, combination):
    """For every order, read mode and residency."""
    order, read, residency = combination
    with make(train, order=order, read=read, residency=residency, memory="9MiB") as loader:
        steps = 3 * len(loader)  # a given order need not name every sample
    check_kills(train, combination, [1] * steps, tmp_path)


def test_two_runs_over_the_same_files_at_the_same_time_do_not_collide(train, tmp_path):
    """Nothing of a run has a name that another could have."""
    journals = [tmp_path / "one", tmp_path / "two"]
    runs = [script(TRAINING, train, *SOME[0], "9MiB", journal, "[0]") for journal in journals]
    assert [process.communicate(timeout=60) for process in runs] == [("0\n", "")] * 2
    assert journals[0].read_text() == journals[1].read_text()
    assert len(journals[0].read_text().splitlines()) == STEPS
    assert hr.Loader(train, global_batch_size=12).state_dict()["dataset"] in journals[0].read_text()
