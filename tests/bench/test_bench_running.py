"""The bench runs each contender in a process of its own, in turns, and says what came of it."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from bench_data import make_dataset, spec_of
from typer.testing import CliRunner

from headrace.bench import Bench, Result, Spec, run_bench, run_contender, running
from headrace.bench.chart import bar_chart
from headrace.bench.summary import first_line, table
from headrace.cli.app import app
from headrace.errors import InputError

ANSWER = {
    "epochs": [2.0, 1.0],
    "first": 0.5,
    "bytes": 6_000_000,
    "ids_ok": True,
    "cpu": 0.25,
    "peak_private": 10_000_000,
    "base_private": 1,
    "waits": [1.5, 0.5],
    "cut": False,
    "notes": {"plan": "one"},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A spec and the folder of its dataset."""
    folder = tmp_path_factory.mktemp("bench") / "data"
    return spec_of(*make_dataset("two files", folder))[0], str(folder)


def speaking(**changes):
    """A wrap that has run every contender itself, and heard these answers: by name, changes of `ANSWER`."""

    def wrap(argv):
        name = Spec.from_json(Path(argv[-1]).read_text()).contender.replace("-", "_")
        return "a line before\n" + json.dumps({**ANSWER, **changes.get(name, {})})

    return wrap


def script(spec, code):
    """The spec of a foreign program."""
    return replace(spec, contender="foreign", program=(sys.executable, "-c", code))


def test_a_contender_runs_in_a_process_of_its_own(data):
    """The command is the one that the contract names; its answer is the result."""
    spec, _ = data
    seen = []

    def wrap(argv):
        seen.append(argv)
        return ["env", "RIG=1", *argv]

    result = run_contender(spec.of("headrace"), wrap=wrap)
    assert result.verdict == ""
    assert result.right
    assert result.rate > 0
    assert result.later_rate > 0
    assert result.peak_private is None or result.peak_private > 0
    assert seen[0][:3] == [sys.executable, "-m", "headrace.bench.contender"]
    assert len(seen[0]) == 4
    assert seen[0][3].endswith("SPEC.json")


def test_a_wrap_may_have_run_the_command_itself(data):
    """Then it hands on what was printed."""
    spec, _ = data
    result = run_contender(spec.of("memmap"), wrap=speaking(memmap={"bytes": 9}))
    assert result.nbytes == 9
    assert result.seconds == 3.0


def test_a_foreign_program_takes_part_by_the_same_contract(data):
    """It is given the path of the spec, and prints one line."""
    spec, _ = data
    code = f"import sys; assert sys.argv[1].endswith('.json'); print({json.dumps(ANSWER)!r})"
    result = run_contender(script(spec, code))
    assert (result.right, result.nbytes) == (True, 6_000_000)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("raise SystemExit('no such library')", "failed: it ended with 1: no such library"),
        ("print('nothing')", "failed: it printed no JSON but 'nothing'"),
        ("print('{}')", "failed: its answer is incomplete"),
        ('print(\'{"error": "OSError: gone"}\')', "failed: OSError: gone"),
        (f"print({json.dumps({**ANSWER, 'ids_ok': False})!r})", "WRONG: its own check failed"),
        (f"print({json.dumps({**ANSWER, 'ids_ok': 'two came twice'})!r})", "WRONG: two came twice"),
        (f"print({json.dumps({**ANSWER, 'epochs': []})!r})", "failed: it delivered nothing"),
    ],
)
def test_what_fails_or_is_wrong_says_so_and_has_no_rate(data, code, verdict):
    """Whatever it claims besides."""
    result = run_contender(script(data[0], code))
    assert result.verdict.startswith(verdict)
    assert result.rate is None


def test_what_hangs_is_ended_with_all_that_it_started(data, monkeypatch, tmp_path):
    """After its deadline, and the others go on."""
    import psutil

    monkeypatch.setattr(running, "GRACE", 1.0)
    path = tmp_path / "child"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(path)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    result = run_contender(replace(script(data[0], code), seconds=0.0))
    assert result.verdict == "failed: it gave no answer within 1 s"
    child = int(path.read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_contender_that_raises_says_what(data, tmp_path):
    """In its own process, as JSON: here the file is gone."""
    spec, _ = data
    gone = str(tmp_path / "gone.h5")
    result = run_contender(replace(spec.of("memmap"), paths=(gone,), files=(gone,)))
    assert result.verdict.startswith("failed: InputError: ")
    assert "gone.h5" in result.verdict


def test_a_spec_survives_its_json(data):
    """Both processes see the same value."""
    spec, _ = data
    assert Spec.from_json(spec.to_json()) == spec
    with pytest.raises(InputError, match="no spec"):
        Spec.from_json('{"contender": "headrace"}')


@pytest.fixture(scope="module")
def found(data):
    """Three rounds of made-up answers: one contender is slower, one is wrong, one fails."""
    turns = []
    wrap = speaking(
        sequential={"epochs": [1.0, 0.5]},
        memcpy={"epochs": [0.5, 0.25]},
        memmap={"epochs": [4.0, 2.0]},
        threads={"ids_ok": "epoch 0: 1 of 50 samples did not come, first 7"},
        torch_item_0={"error": "MemoryError: none left"},
    )
    bench = Bench(
        paths=[data[1]],
        rounds=3,
        only=["sequential", "memcpy", "headrace", "memmap", "threads", "torch-item-0"],
        memory="8MiB",
        seconds=60.0,
        condition="made up",
        command="headrace bench …",
    )
    result = run_bench(bench, wrap=wrap, told=lambda name, result: turns.append(name) if result is None else None)
    return result, turns


def test_contenders_take_turns_and_every_second_round_is_reversed(found):
    """What drifts favours nobody."""
    names = ["sequential", "memcpy", "headrace", "memmap", "threads", "torch-item-0"]
    assert found[1] == names + names[::-1] + names


def test_the_summary_has_medians_ratios_and_who_is_first(found):
    """Ratios are to the limits of the same round."""
    rows = {row["contender"]: row for row in found[0]["summary"]["rows"]}
    assert rows["headrace"]["rate"] == 2e6
    assert rows["headrace"]["later_rate"] == 3e6
    assert rows["headrace"]["to_sequential"] == 0.5
    assert rows["headrace"]["to_memcpy"] == 0.25
    assert rows["headrace"]["wait"] == 1.0
    assert rows["headrace"]["cpu_per_gb"] == pytest.approx(0.25 / 0.006)
    assert rows["sequential"]["to_sequential"] == 1.0
    assert rows["sequential"]["first"] is None
    assert found[0]["summary"]["first"] == "headrace"
    assert first_line(found[0]["summary"]) == (
        "First: headrace with 2 MB/s, 0.50 of the sequential read; 2.00 times the second, memmap."
    )


def test_what_was_wrong_has_no_figure_in_the_table(found):
    """Nor in the summary; the reason is there."""
    headings, rows = table(found[0])
    assert headings[:3] == ["contender", "MB/s", "epoch 2 on"]
    cells = {row[0]: row[1:] for row in rows}
    assert set(cells["threads"]) == set(cells["torch-item-0"]) == {"–"}
    assert cells["headrace"][0] == "2"
    summary = {row["contender"]: row for row in found[0]["summary"]["rows"]}
    assert summary["threads"]["rate"] is None
    assert summary["threads"]["verdict"].startswith("WRONG: epoch 0")
    assert summary["torch-item-0"]["verdict"] == "failed: MemoryError: none left"


def test_one_wrong_round_is_enough_to_lose_every_figure(data):
    """A median does not hide it."""
    calls = []

    def wrap(argv):
        calls.append(argv)
        return json.dumps({**ANSWER, "ids_ok": "wrong" if len(calls) == 2 else True})

    rows = run_bench(Bench(paths=[data[1]], only=["memmap"], rounds=3), wrap=wrap)["summary"]["rows"]
    assert rows[0]["rate"] is None
    assert rows[0]["verdict"] == "WRONG: wrong"


def test_nobody_is_first_where_nobody_is_right(data):
    """A line says so."""
    wrap = speaking(memmap={"ids_ok": False})
    found = run_bench(Bench(paths=[data[1]], only=["memmap", "sequential"]), wrap=wrap)
    assert found["summary"]["first"] is None
    assert first_line(found["summary"]).startswith("Nobody is first")
    assert "WRONG" in bar_chart(found)


def test_the_json_has_every_raw_figure_the_machine_and_the_command(found):
    """Enough to compute the table again."""
    document = json.loads(json.dumps(found[0]))
    assert [len(turn) for turn in document["rounds"]] == [6, 6, 6]
    raw = document["rounds"][0][2]
    assert raw["contender"] == "headrace"
    assert raw["epochs"] == [2.0, 1.0]
    assert raw["notes"] == {"plan": "one"}
    assert document["command"] == "headrace bench …"
    assert document["condition"] == "made up"
    assert document["settings"]["memory"] == "8MiB"
    assert document["dataset"]["samples"] == 50
    for fact in ("kernel", "cores", "memory_nbytes", "python", "numpy", "headrace", "torch"):
        assert fact in document["machine"]


def test_the_picture_has_a_bar_for_each_contender_and_the_line_of_the_limit(found):
    """Well-formed SVG; bars are as long as rates are high, and what was wrong has none."""
    root = ElementTree.fromstring(bar_chart(found[0]))
    space = "{http://www.w3.org/2000/svg}"
    texts = [node.text for node in root.iter(space + "text")]
    bars = [float(node.get("width")) for node in root.iter(space + "rect") if node.get("rx")]
    for name in ("headrace", "memmap", "threads", "WRONG", "failed", "sequential read 4"):
        assert name in texts
    assert len(bars) == 2
    assert bars[0] == pytest.approx(2 * bars[1], rel=0.01)
    assert len(list(root.iter(space + "line"))) == 1


def test_a_cut_run_is_marked(data):
    """Its rate is that of what came until then."""
    found = run_bench(Bench(paths=[data[1]], only=["memmap"]), wrap=speaking(memmap={"cut": True}))
    assert table(found)[1][0][1:3] == ["2*", "–"]


def test_waiting_is_a_column_where_the_loop_has_a_step(data):
    """Without one, all of the time is waiting."""
    bench = Bench(paths=[data[1]], only=["memmap"])
    assert "waited an epoch" not in table(run_bench(bench, wrap=speaking()))[0]
    assert "waited an epoch" in table(run_bench(replace(bench, step_seconds=0.01), wrap=speaking()))[0]


def test_guests_stand_in_the_same_table(data):
    """Their command is run like that of any contender, under the same wrap."""
    code = f"import sys; assert sys.argv[1].endswith('.json'); print({json.dumps(ANSWER)!r})"
    seen = []

    def wrap(argv):
        seen.append(argv)
        return argv if argv[0] == sys.executable and argv[1] == "-c" else speaking()(argv)

    guests = {"peer": [sys.executable, "-c", code]}
    found = run_bench(Bench(paths=[data[1]], only=["memmap"], guests=guests), wrap=wrap)
    assert [row["contender"] for row in found["summary"]["rows"]] == ["memmap", "peer"]
    assert found["summary"]["rows"][1]["rate"] == 2e6
    assert [argv[1] for argv in seen] == ["-m", "-c"]


def test_what_does_not_end_when_it_is_asked_is_killed(data, monkeypatch):
    """A program that ignores SIGTERM holds up nobody."""
    monkeypatch.setattr(running, "GRACE", 1.0)
    monkeypatch.setattr(running, "ENDING", 0.2)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    assert "no answer" in run_contender(replace(script(data[0], code), seconds=0.0)).verdict


def test_settings_that_make_no_run_are_refused(data):
    """Before anything runs."""
    with pytest.raises(InputError, match="rounds=0"):
        run_bench(Bench(paths=[data[1]], rounds=0))


def call(*arguments):
    """One call of the command line."""
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def test_the_command_prints_a_table_and_saves_figures_and_picture(data, tmp_path):
    """In one run of real processes."""
    only = ("--only", "headrace", "--only", "sequential")
    result = call(data[1], *only, "--memory", "8MiB", "--save", tmp_path / "b.json", "--plot", tmp_path / "b.svg")
    assert result.exit_code == 0, result.output
    for part in ("page cache warm", "50 samples of 19,276 bytes", "MB/s", "of sequential", "First: headrace"):
        assert part in result.stdout
    saved = json.loads((tmp_path / "b.json").read_text())
    assert saved["summary"]["first"] == "headrace"
    assert saved["command"].startswith("headrace ")
    ElementTree.parse(tmp_path / "b.svg")


def test_the_command_prints_json(data, monkeypatch):
    """And nothing else on standard output."""
    monkeypatch.setattr(running, "run_contender", lambda spec, *, wrap: Result(spec.contender, error="not run"))
    result = call(data[1], "--only", "memcpy", "--json", "--as-found")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["condition"] == "as found"
    assert document["summary"]["rows"][0]["verdict"] == "failed: not run"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("no/such/file.h5",), "does not exist"),
        (("DATA", "--only", "tf"), "--only=tf is no contender"),
        (("DATA", "--plot", "no/such/folder/p.svg"), "is no folder"),
        (("DATA", "--shape", "a,b"), "--shape=a,b"),
    ],
)
def test_what_cannot_run_is_one_line_with_exit_code_2(data, arguments, complaint):
    """Before the first contender starts."""
    result = call(*[data[1] if argument == "DATA" else argument for argument in arguments])
    assert result.exit_code == 2
    assert complaint in result.output
    assert len(result.stderr.strip().split("\n")) == 1
