"""Do the stubs of the native core name what the core exports?

Stubs are written by hand, since types say more there than the generator can know. Here they are compared with the stubs
that nanobind generates from the built modules: the same classes, functions and properties, with the same parameters.

    python .ci/stubs.py
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "src" / "headrace" / "native"
MODULES = ("kernels", "engine")


def generate(module: str, folder: Path) -> str:
    """The stub that nanobind makes of a built module."""
    path = folder / f"{module}.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-i", str(ROOT / "src")]
    subprocess.run([*command, "-m", f"headrace.native.{module}", "-o", str(path)], check=True)
    return path.read_text()


def names(stub: str) -> set[str]:
    """Everything that a stub declares: `Class.method(self, start)`, `Class`, `CONSTANT`."""
    found = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                found.add(prefix + node.name)
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                found.add(f"{prefix}{node.name}({', '.join(a.arg for a in arguments)})")
            elif isinstance(node, ast.AnnAssign):
                found.add(prefix + ast.unparse(node.target))

    visit(ast.parse(stub).body, "")
    return found


def main() -> int:
    """Print every difference; 1 if there is one."""
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        for module in MODULES:
            path = FOLDER / f"{module}.pyi"
            written = names(path.read_text()) if path.exists() else set()
            exported = names(generate(module, Path(folder)))
            differences += [f"{path.name} lacks {name}" for name in sorted(exported - written)]
            differences += [f"{path.name} names {name}, which is not exported" for name in sorted(written - exported)]
    print("\n".join(differences) or "the stubs name what the core exports")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
