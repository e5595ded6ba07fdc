"""The command line does what it says, prints JSON when asked, and fails in one line."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.workloads import neuron_inverter

SMALL = ("--size", "4MB", "--batch-size", "16", "--memory", "4MiB", "--step-ms", "0")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of two small files."""
    folder = tmp_path_factory.mktemp("cli") / "data"
    neuron_inverter(folder, samples=300, files=2)
    return str(folder)


def call(*arguments):
    """The result of one command."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


def answer(*arguments):
    """The JSON document that a command prints."""
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_demo_delivers_every_sample_and_measures_what_it_predicted(monkeypatch, tmp_path):
    """Operations and bytes are equal, not about equal; the folder of the data is gone afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = answer("demo", *SMALL)
    assert found["samples"] == 207
    assert [epoch["samples_compared"] for epoch in found["epochs"]] == [13, 13, 13]
    measured = found["report"]["measured"]
    assert measured["operations"] == found["predicted"]["operations"] > 0
    assert measured["bytes"] == found["predicted"]["nbytes"] >= found["bound"]["nbytes"] > 0
    assert found["one_sample_per_read"]["samples_read"] == 207
    assert list(tmp_path.iterdir()) == []


def test_demo_prints_plan_epochs_and_comparison():
    """A newcomer reads it from top to bottom."""
    result = call("demo", *SMALL, "--warm")
    assert result.exit_code == 0, result.output
    for part in ("1. A dataset", "chosen:", "rejected", "epoch 2:", "predicted", "measured", "one sample per read"):
        assert part in result.stdout
    assert "\x1b" not in result.stdout, "no colours in a pipe"


def test_demo_keeps_its_data_only_where_it_was_told_to(tmp_path):
    """And never over something else."""
    folder = tmp_path / "kept"
    assert call("demo", *SMALL, "--keep", folder).exit_code == 0
    assert len(headrace.open(folder)) == 207
    again = call("demo", *SMALL, "--keep", folder)
    assert again.exit_code == 2
    assert "is not empty" in again.output


def test_demo_finds_a_sample_that_is_not_what_was_written(monkeypatch):
    """The check that the demonstration makes can fail."""
    from headrace.cli import demonstrating

    true = demonstrating.expected
    monkeypatch.setattr(demonstrating, "expected", lambda ids, seed: true([ids[0] + 1], seed=seed))
    result = call("demo", *SMALL)
    assert result.exit_code == 2
    assert "is not what was written" in result.output


def test_inspect_says_what_is_there(data):
    """Samples, fields, files, storage, identity."""
    found = answer("inspect", data)
    assert found["n"] == 300
    assert {field["name"]: field["shape"] for field in found["fields"]} == {"trace": [1600, 3], "parameters": [19]}
    assert found["file_count"] == 2
    assert found["storage"]["iops"] > 0
    assert found["fingerprint"] == headrace.open(data).fingerprint
    text = call("inspect", data)
    assert text.exit_code == 0
    for part in ("300 samples", "trace", "1600 × 3", "part-001.h5", found["fingerprint"]):
        assert part in text.stdout


def test_inspect_reads_chosen_fields_of_named_files(data):
    """Several paths are one dataset."""
    files = sorted(Path(data).iterdir())
    found = answer("inspect", *files, "--field", "trace")
    assert [field["name"] for field in found["fields"]] == ["trace"]
    assert found["n"] == 300


def test_explain_prints_the_plan_that_a_loader_would_make(data):
    """The same text, from the same planner."""
    options = {"global_batch_size": 32, "epochs": 2, "seed": 3, "memory": "8MiB"}
    storage = headrace.Storage(1500, 150e6)
    loader = headrace.Loader(headrace.open(data), storage=storage, **options)
    arguments = ("explain", data, "--batch-size", 32, "--epochs", 2, "--seed", 3, "--memory", "8MiB")
    described = (*arguments, "--iops", 1500, "--bandwidth", "150MB")
    assert call(*described).stdout.rstrip("\n") == loader.explain()
    assert answer(*described)["hash"] == loader.plan.hash


def test_explain_needs_both_halves_of_a_storage(data):
    """Half a description would be filled up with a guess."""
    result = call("explain", data, "--iops", 1500)
    assert result.exit_code == 2
    assert "--bandwidth=None" in result.output


def test_report_prints_what_a_loader_saved(data, tmp_path):
    """As text or as the JSON that it is."""
    with headrace.Loader(headrace.open(data), global_batch_size=32, epochs=1, memory="8MiB") as loader:
        for _ in loader:
            pass
        report = loader.report()
    report.save(tmp_path / "run.json")
    assert call("report", tmp_path / "run.json").stdout.rstrip("\n") == str(report)
    assert answer("report", tmp_path / "run.json") == report.to_dict()


def test_what_is_no_report_is_refused(tmp_path):
    """Missing, not JSON, or another JSON."""
    (tmp_path / "text").write_text("no")
    (tmp_path / "other").write_text("{}")
    for name, complaint in (("missing", "cannot be read"), ("text", "is not JSON"), ("other", "is not a report")):
        result = call("report", tmp_path / name)
        assert result.exit_code == 2
        assert complaint in result.output


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("inspect", "no/such/file.h5"), "InputError"),
        (("explain", "no/such/file.h5"), "InputError"),
        (("demo", "--size", "8G"), "InputError"),
        (("demo", "--size", "1MB"), "InputError"),
        (("report", "no/such/run.json"), "InputError"),
    ],
)
def test_an_error_is_one_line_with_exit_code_2(arguments, kind):
    """On standard error as text, as a document with --json; never a traceback."""
    text = call(*arguments)
    assert text.exit_code == 2
    assert text.stdout == ""
    assert len(text.stderr.strip().split("\n")) == 1
    document = call(*arguments, "--json")
    assert document.exit_code == 2
    assert json.loads(document.stdout)["error"]["message"] in text.stderr
    assert json.loads(document.stdout)["error"]["type"] in text.stderr
    assert kind in text.stderr or "Error" in text.stderr


def test_a_plan_that_cannot_be_is_an_error_of_the_user_too(data):
    """A memory that is too small is no defect of the program."""
    result = call("explain", data, "--memory", "1kB")
    assert result.exit_code == 2
    assert "PlanError" in result.stderr


def test_help_comes_without_loading_what_commands_need():
    """It answers at once: neither NumPy nor h5py is loaded for it."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from headrace.cli.app import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print(sorted({'numpy', 'h5py', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_module_is_the_command():
    """`python -m headrace.cli` needs no entry on the PATH."""
    done = subprocess.run([sys.executable, "-m", "headrace.cli", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "inspect" in done.stdout


@pytest.fixture
def remembered(tmp_path, monkeypatch):
    """A cache folder of this test alone."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "storage.json"


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    """A folder with a file of 16 MiB."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "block.bin").write_bytes(bytes(16 << 20))
    return folder


def test_probe_measures_remembers_and_forgets(block, remembered):
    """In the file that it names, for the next loader."""
    found = answer("probe", block, "--seconds", "0.3", "--bytes", "16MiB")
    assert found["remembered"] == str(remembered) and remembered.exists()
    assert found["measured"]["storage"]["iops"] > 0
    assert found["measured"]["nbytes"] <= 16 << 20
    assert {"random", "sequential"} == {figure["pattern"] for figure in found["measured"]["figures"]}
    assert answer("probe", block, "--forget") == {"forgotten": True, "of": found["measured"]["date"]}
    assert answer("probe", block, "--forget") == {"forgotten": False, "of": None}


def test_probe_prints_a_table_and_what_follows(block, remembered):
    """For people."""
    result = call("probe", block, "--seconds", "0.3", "--bytes", "16MiB")
    assert result.exit_code == 0, result.output
    for part in ("reads/s", "random", "sequential", "operations/s", "costs as much as an operation", "remembered in"):
        assert part in result.stdout
    assert call("probe", block, "--forget").stdout.startswith("forgotten: the measurement of")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "does not exist"),
        (["."], "holds no file"),
        (["a.bin", "--bytes", "10"], "sees nothing"),
        (["a.bin", "--size", "many"], "is not a size"),
    ],
)
def test_probe_says_in_one_line_what_it_cannot_do(tmp_path, monkeypatch, remembered, arguments, message):
    """And exits with 2."""
    monkeypatch.chdir(tmp_path)
    if arguments[0] != ".":
        (tmp_path / "a.bin").write_bytes(bytes(8192))
    result = call("probe", *arguments)
    assert result.exit_code == 2 and message in result.output and len(result.output.splitlines()) == 1
    assert not remembered.exists()


def test_a_report_whose_content_is_none_is_one_line(tmp_path):
    """JSON that only begins like a report is no traceback, as text or as JSON."""
    for damage in ({"epochs": "x"}, {"epochs": [3]}, {"epochs": [], "dataset": 1}):
        path = tmp_path / "run.json"
        path.write_text(json.dumps({"format": 1} | damage))
        for options in ((), ("--json",)):
            result = call("report", path, *options)
            assert result.exit_code == 2 and "not as a loader wrote it" in result.output, result.output


def test_a_folder_that_demo_cannot_keep_its_data_in_is_named_before_anything_is_written(tmp_path):
    """A file, a folder of the kernel's, a folder below a file."""
    file = tmp_path / "some-file"
    file.write_text("mine")
    for keep in (file, file / "below", "/proc/x"):
        result = call("demo", *SMALL, "--keep", keep)
        assert result.exit_code == 2 and f"InputError: --keep={keep} cannot be made a folder" in result.stderr
    assert file.read_text() == "mine"


def test_the_version_is_printed():
    assert call("--version").stdout == f"headrace {headrace.__version__}\n"
