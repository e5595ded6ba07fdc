"""Every block of code in README and docs runs as it stands.

The blocks of a page run in their order, in one namespace, in an empty folder that holds `train/`: four small HDF5 files
as `headrace demo --keep train` makes them. ```python blocks are executed; lines of ```console and ```bash blocks that
start with `headrace ` go through the command line. What cannot run in a test says why, in the line above the block:

    <!-- not run: needs two nodes -->
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.workloads import neuron_inverter

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
NOT_RUN = re.compile(r"<!--\s*not run:\s*(.*?)\s*-->")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line it starts at, and why it is not run."""

    language: str
    text: str
    line: int
    reason: str


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    lines = text.split("\n")
    inside: tuple[str, int, str] | None = None
    body: list[str] = []
    for number, line in enumerate(lines):
        fence = re.match(r"\s*```\s*(\w*)", line)
        if fence and inside is None:
            before = NOT_RUN.search(lines[number - 1]) if number else None
            inside, body = (fence[1], number + 2, before[1] if before else ""), []
        elif fence and inside is not None:
            found.append(Block(inside[0], "\n".join(body), inside[1], inside[2]))
            inside = None
        elif inside is not None:
            body.append(line)
    assert inside is None, f"the block at line {inside and inside[1]} does not end"
    return found


def commands_of(block: Block) -> list[list[str]]:
    """The calls of `headrace` in a console block."""
    text = block.text.replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ").strip() for line in text.split("\n")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("headrace ")]


@pytest.fixture(scope="session")
def train(tmp_path_factory):
    """The dataset that pages may use."""
    folder = tmp_path_factory.mktemp("docs") / "train"
    neuron_inverter(folder, samples=400)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page, train, tmp_path, monkeypatch):
    """As a reader would run it, from top to bottom."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").symlink_to(train)
    namespace = {"__name__": "__main__"}
    for block in blocks_of(page.read_text()):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.reason:
            print(f"{where} is not run: {block.reason}")
        elif block.language == "python":
            # Padding makes the line numbers of a traceback those of the page.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, namespace)
        elif block.language in ("console", "bash", "sh"):
            for command in commands_of(block):
                run_command(command, where)


def run_command(command: list[str], where: str) -> None:
    """One call of the command line, in this process."""
    from typer.testing import CliRunner

    from headrace.cli.app import app

    result = CliRunner().invoke(app, command)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, (
        f"{where}: headrace {shlex.join(command)} ended with {result.exit_code}\n{result.output}"
    )


def test_pages_link_to_what_is_there():
    """A link within the project leads to a file."""
    wrong = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                wrong.append(f"{page.relative_to(ROOT)} -> {target}")
    assert not wrong, wrong


def test_pages_name_tests_that_exist():
    """A promise that points at a test which is gone is held by nothing."""
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    wrong = []
    for page in PAGES:
        for path, name in re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", page.read_text()):
            if path not in sources or (
                name and f"def {name}(" not in sources[path] and f"class {name}" not in sources[path]
            ):
                wrong.append(f"{page.relative_to(ROOT)} names {path}{'::' + name if name else ''}")
    assert not wrong, wrong


def test_a_block_that_is_not_run_says_why():
    """The marker without a reason is no marker."""
    page = "<!-- not run: needs a cluster -->\n```python\n1 / 0\n```\n<!-- not run: -->\n```python\n2\n```\n"
    first, second = blocks_of(page)
    assert first.reason == "needs a cluster"
    assert second.reason == ""


def test_commands_are_found_in_consoles_as_people_write_them():
    """With a prompt, output, comments, and lines that go on."""
    lines = [
        "```console",
        "$ headrace inspect 'a b' # look",
        "output",
        "headrace explain train \\",
        "  --json",
        "$ ls",
        "```",
    ]
    text = "\n".join(lines)
    assert commands_of(blocks_of(text)[0]) == [["inspect", "a b"], ["explain", "train", "--json"]]
