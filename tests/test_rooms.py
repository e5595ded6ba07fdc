"""The folders are the rooms of the house: what each may import, how long a module may be, what `import headrace` costs.

The rules are read off the source, not off what happens to be loaded: a rule that is broken in a branch that no test
takes is broken all the same.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "headrace"
LONGEST = 500

# What a room may import of Headrace, besides itself. A name stands for the module and all below it.
BASE = {"headrace.errors", "headrace.values"}
RULES: dict[str, set[str]] = {
    "errors": set(),
    "values": {"headrace.errors"},
    "config": {"headrace.errors"},
    "order": BASE | {"headrace.native.kernels"},
    "plan": BASE | {"headrace.native.kernels", "headrace.order"},
    "formats": BASE,
    "cost": BASE | {"headrace.config"},
    "stores": BASE,
    "cluster": BASE | {"headrace.config"},
    "native": set(),
    "workloads": BASE | {"headrace.cost.sizes"},
    "runtime": {"headrace"},
    "adapters": {"headrace"},
    "torch": {"headrace.adapters"},
    "bench": {"headrace"},
    "cli": {"headrace"},
}
ENGINE = "headrace.native.engine"
FRAMEWORKS = {"h5py", "torch", "typer", "rich", "mpi4py", "tensorflow", "jax", "pydantic", "multiprocessing"}


def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def room(module: str) -> str:
    """The room that a module belongs to: the folder below headrace, or the module at the top itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "headrace"


def within(module: str, names: set[str]) -> bool:
    """Whether a module is one of the names or lies below one of them."""
    return any(module == name or module.startswith(name + ".") for name in names)


def typing_only(node: ast.AST) -> bool:
    """Whether a node is an `if TYPE_CHECKING:` block."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imports(tree: ast.AST, module: str, *, at_import: bool = False) -> dict[str, int]:
    """The modules that a module imports, with a line; `at_import` leaves out functions and `if TYPE_CHECKING:`."""
    found: dict[str, int] = {}
    package = module if MODULES.get(module, Path()).name == "__init__.py" else module.rpartition(".")[0]

    def visit(node: ast.AST) -> None:
        if at_import and (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or typing_only(node)):
            return
        if isinstance(node, ast.Import):
            found.update({alias.name: node.lineno for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from package import module` imports the module, `from module import name` the module before the name.
                whole = f"{base}.{alias.name}"
                found[whole if whole in MODULES or base == "headrace.native" else base] = node.lineno
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return found


TREES = {module: ast.parse(path.read_text()) for module, path in MODULES.items()}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_room_imports_only_what_its_rule_allows(module):
    """plan and order see values; formats know no ranks; nobody below imports the runtime."""
    if module == "headrace":
        return
    assert room(module) in RULES, f"{module}: room '{room(module)}' has no rule in {Path(__file__).name}: add one"
    allowed = RULES[room(module)] | {f"headrace.{room(module)}"}
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{line} imports {name}"
        for name, line in imports(TREES[module], module).items()
        if within(name, {"headrace"}) and not within(name, allowed)
    ]
    assert not wrong, f"room '{room(module)}' may import only {sorted(allowed)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_only_the_runtime_imports_the_engine(module):
    """The half of the core that has effects is called from one room."""
    if room(module) != "runtime":
        lines = [line for name, line in imports(TREES[module], module).items() if within(name, {ENGINE})]
        assert not lines, f"{MODULES[module].relative_to(ROOT)}:{lines} imports the engine, which only runtime/ may"


@pytest.mark.parametrize("module", sorted(m for m in MODULES if room(m) not in ("headrace", "bench", "cli")))
def test_only_the_command_line_imports_the_bench(module):
    """What is measured must not depend on what measures it."""
    lines = [line for name, line in imports(TREES[module], module).items() if within(name, {"headrace.bench"})]
    assert not lines, f"{MODULES[module].relative_to(ROOT)}:{lines} imports the bench"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_only_config_reads_the_environment(module):
    """So that what the environment can change is written down in one place."""
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(TREES[module])
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv", "getenvb", "putenv"))
        or (isinstance(node, ast.alias) and node.name in ("environ", "getenv"))
    ]
    assert not wrong or module == "headrace.config", "\n".join(wrong)


PURE = {"plan", "order", "values"}
EFFECTS = {"os", "io", "time", "socket", "subprocess", "random", "pathlib", "mmap", "h5py", "shutil"}


@pytest.mark.parametrize("module", sorted(m for m in MODULES if room(m) in PURE))
def test_the_pure_rooms_have_nothing_to_open_a_file_or_read_a_clock_with(module):
    """A plan that depends on the time or on a file is not the same on every rank."""
    wrong = {name: line for name, line in imports(TREES[module], module).items() if within(name, EFFECTS)}
    assert not wrong, f"{MODULES[module].relative_to(ROOT)} is pure and imports {wrong}"
    opened = [
        node.lineno
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "print", "input")
    ]
    assert not opened, f"{MODULES[module].relative_to(ROOT)}: lines {opened} have an effect"


def test_no_module_imports_itself_by_a_detour():
    """A cycle means that two modules are one."""
    edges = {
        module: [name for name in imports(tree, module, at_import=True) if name in MODULES and name != module]
        for module, tree in TREES.items()
    }
    done: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, "import cycle: " + " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for name in edges[module]:
                walk(name, (*path, module))
            done.add(module)

    for module in edges:
        walk(module, ())


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_opens_with_a_docstring_and_ends_before_line_500(module):
    """The question it answers comes first; what does not fit is two modules."""
    assert ast.get_docstring(TREES[module]), f"{MODULES[module].relative_to(ROOT)} has no docstring"
    lines = len(MODULES[module].read_text().splitlines())
    assert lines <= LONGEST, f"{MODULES[module].relative_to(ROOT)} has {lines} lines; at most {LONGEST}: split it"


def test_a_file_of_the_core_ends_before_line_500():
    """The rule is the same for C++."""
    for path in sorted((ROOT / "native").rglob("*.[ch]pp")):
        lines = len(path.read_text().splitlines())
        assert lines <= LONGEST, f"{path.relative_to(ROOT)} has {lines} lines; at most {LONGEST}: split it"


def test_python_headers_stay_in_the_bindings():
    """The core could serve another language tomorrow."""
    wrong = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "native").rglob("*.[ch]pp")
        if "bind" not in path.relative_to(ROOT / "native").parts
        and any(line.startswith("#include") and ("nanobind" in line or "Python.h" in line)
                for line in path.read_text().splitlines())
    ]  # fmt: skip
    assert not wrong, f"Python headers outside native/bind: {wrong}"


def test_importing_headrace_pulls_in_no_framework_and_little_else():
    """Modules are counted, since seconds depend on the machine: NumPy and this package, and hardly anything besides."""
    code = (
        "import sys, json, numpy; before = set(sys.modules); import headrace; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    names = json.loads(done.stdout)
    loaded = sorted(FRAMEWORKS & {name.split(".")[0] for name in names})
    assert not loaded, f"import headrace loads {loaded}"
    foreign = [name for name in names if not within(name, {"headrace"})]
    assert len(foreign) <= 60, f"import headrace loads {len(foreign)} modules besides NumPy and itself: {foreign}"
