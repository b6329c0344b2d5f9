"""The house holds ideas: layers import downwards, nothing goes in circles, state is where it is declared."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import kernelsieve
from kernelsieve import kernels
from kernelsieve.models.base import KernelTransformer

ROOT = Path(kernelsieve.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MAX_BODY, MAX_PARAMETERS = 45, 8

# From the ground up; a layer may import those before it.  What is done with a fitted model stands side by side on top.
LAYERS = [
    {"arrays", "errors", "numerics"},
    {"threads"},
    {"kernels"},
    {"spectrum"},
    {"solvers"},
    {"rows"},
    {"fit"},
    {"rules"},
    {"search"},
    {"compression", "linear"},
    {"streaming"},
    {"models"},
]
# The file format asks every class for what its file must hold, and classes save themselves: one registry, `io`.
REGISTRY = "io"


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path):
    """Modules of the package that a file imports, lazily too, but for those that only a type checker sees."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    package = [part for part in package if part]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            module = ".".join(base + (node.module.split(".") if node.module else []))
            for alias in node.names:
                inner = f"{module}.{alias.name}" if module else alias.name
                known = (ROOT / inner.replace(".", "/")).is_dir() or (ROOT / f"{inner.replace('.', '/')}.py").exists()
                yield inner if known else module


GRAPH = {module_of(path): set(imports_of(path)) - {""} for path in FILES if module_of(path)}


def layer_of(module):
    top = module.split(".")[0]
    return next((number for number, names in enumerate(LAYERS) if top in names), len(LAYERS))


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_layers_import_downwards(module):
    upwards = {m for m in GRAPH[module] if layer_of(m) > layer_of(module) and m.split(".")[0] != REGISTRY}
    assert not upwards


def test_no_imports_in_a_circle():
    graph = {m: {i for i in found if i.split(".")[0] != REGISTRY} for m, found in GRAPH.items()}
    done: set[str] = set()

    def visit(module, path):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for found in sorted(graph.get(module, ())):
                if not module.startswith(f"{found}."):  # a package's own door
                    visit(found, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])


def functions():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield path, node


def test_functions_fit_on_a_screen():
    long = []
    for path, node in functions():
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if body and body[-1].end_lineno - body[0].lineno + 1 > MAX_BODY:
            long.append(f"{module_of(path)}.{node.name}")
    assert not long


def test_functions_take_few_parameters():
    """Constructors excepted, and the functions and commands that a user calls by keyword."""
    wide = []
    for path, node in functions():
        given = [
            a.arg
            for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if a.arg not in ("self", "cls")
        ]
        public = node.name in kernelsieve.__all__ or node.name == "__init__" or module_of(path).startswith("cli")
        if len(given) > MAX_PARAMETERS and not public:
            wide.append(f"{module_of(path)}.{node.name}: {len(given)}")
    assert not wide


def test_estimators_differ_by_three_hooks_and_a_policy():
    """No class replaces a step of the base: `_check_parameters` and `_keep` add to it, `fit` of two is another fit."""
    own = {name for name, value in vars(KernelTransformer).items() if callable(value) and name != "__doc__"}
    hooks = {"_request", "_points", "_components", "_check_parameters", "_keep"}
    public = [getattr(kernelsieve, name) for name in kernelsieve.__all__]
    for cls in public:
        if isinstance(cls, type) and issubclass(cls, KernelTransformer):
            above = cls.__mro__[: cls.__mro__.index(KernelTransformer)]
            replaced = {name for base in above for name in vars(base) if name in own and not name.startswith("__")}
            assert replaced - hooks <= {"fit"}, cls.__name__
            if "fit" in replaced:
                assert cls in (kernelsieve.CompressedKernelPCA, kernelsieve.RobustSparseKernelPCA)


def test_inheritance_is_shallow():
    """No deeper than three of our own classes."""

    def depth(cls):
        return (1 if cls.__module__.startswith("kernelsieve") else 0) + max(map(depth, cls.__bases__), default=0)

    public = [getattr(kernelsieve, name) for name in kernelsieve.__all__]
    deep = {cls.__name__: depth(cls) for cls in public if isinstance(cls, type) and depth(cls) > 3}
    assert not deep


@pytest.fixture(scope="module")
def followed():
    """The modules that run in a default fit of a numpy array."""
    ran = set()

    def follow(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            ran.add(module_of(Path(frame.f_code.co_filename)))

    model, before = kernelsieve.SparseKernelPCA(n_components=2, n_jobs=1, random_state=0), sys.getprofile()
    sys.setprofile(follow)
    try:
        model.fit(load_iris().data)
    finally:
        sys.setprofile(before)
    return ran


def test_the_map_names_the_way_of_a_fit(followed):
    """CONTRIBUTING's reading order is of modules that such a fit runs."""
    text = Path(__file__).parents[1].joinpath("CONTRIBUTING.md").read_text()
    told = text[text.index("To follow `SparseKernelPCA.fit`") : text.index("What a class keeps")]
    named = {name.removesuffix(".py").replace("/", ".") for name in re.findall(r"`(\w+/\w+\.py)`", told)}
    assert named
    assert named <= followed


def test_kernels_answer_for_themselves():
    """No other file names a kernel class: what it needs to know is asked of the kernel."""
    assert all(hasattr(kernels, name) for name in kernels.__all__)  # loads every family
    kinds = {kind.__name__ for kind in kernels.KERNEL_TYPES.values()}
    named = [
        f"{module_of(path)}:{node.lineno}"
        for path in FILES
        if module_of(path).split(".")[0] != "kernels"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id in kinds
    ]
    assert not named


# Who may look into an object's own state: what rolls a failed fit back, what reads and writes model files, and
# attributes that one class makes when they are first asked for.
LOOKS_INSIDE = {"fit", "io", "threads", "cli"}


def test_one_name_one_meaning():
    """No two modules define a class or a constant of the same name."""
    where = defaultdict(set)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                where[node.name].add(module_of(path))
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [name for target in targets for name in getattr(target, "elts", [target])]
            for name in names:
                if isinstance(name, ast.Name) and name.id.isupper():
                    where[name.id].add(module_of(path))
    assert not {name: modules for name, modules in where.items() if len(modules) > 1}


def test_no_search_and_no_rule_looks_into_the_state_of_others():
    """Whether a property happens to have been computed must not change an algorithm."""
    looking = [
        f"{module_of(path)}:{node.lineno}"
        for path in FILES
        if module_of(path).split(".")[0] not in LOOKS_INSIDE
        for node in ast.walk(ast.parse(path.read_text()))
        if getattr(node, "id", None) == "vars" or getattr(node, "attr", None) == "__dict__"
    ]
    assert not looking
