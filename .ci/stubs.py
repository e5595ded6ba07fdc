"""Do the stubs of the native core say what the core exports?

    python .ci/stubs.py            writes src/headrace/native/<module>.pyi from the built modules
    python .ci/stubs.py --check    fails when what stands there is not what would be written

Type checkers and editors read the stubs, never the core itself.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "src" / "headrace" / "native"
MODULES = ("kernels", "engine")


def generate(module: str, folder: Path) -> str:
    """The stub of one native module, formatted as the rest of the code."""
    path = folder / f"{module}.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-i", str(ROOT / "src")]
    subprocess.run([*command, "-m", f"headrace.native.{module}", "-o", str(path)], check=True)
    for command in (["check", "-q", "--fix-only", "--select", "F401,I"], ["format", "-q"]):
        config = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([sys.executable, "-m", "ruff", *command, *config, str(path)], check=True)
    return path.read_text()


def main(arguments: list[str]) -> int:
    """Write the stubs, or compare them; the number of stubs that differ."""
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for module in MODULES:
            committed = FOLDER / f"{module}.pyi"
            old = committed.read_text() if committed.exists() else ""
            new = generate(module, Path(folder))
            if arguments != ["--check"]:
                committed.write_text(new)
            elif old != new:
                different += 1
                sys.stdout.writelines(
                    difflib.unified_diff(
                        old.splitlines(True), new.splitlines(True), str(committed.relative_to(ROOT)), "the built core"
                    )
                )
                sys.stdout.write(f"{committed.name} is not what the core exports: run python .ci/stubs.py, commit it\n")
    return different


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
