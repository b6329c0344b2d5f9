"""What a release promises: no public name leaves, one version everywhere, bounds that are stated, clean imports."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import math
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from public_api import LIST, public_names, public_values

import kernelsieve

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_nothing_leaves_the_public_api():
    """Names that are new are added by `python tests/public_api.py`; none is taken out by accident."""
    listed = LIST.read_text().splitlines()
    for package, names in (("typer", "$"), ("torch", "kernelsieve.export.to_torch")):
        if importlib.util.find_spec(package) is None:
            listed = [name for name in listed if not name.startswith(names)]
    assert not sorted(set(listed) - set(public_names()))


def documented_defaults():
    """(name, parameter, documented default as text, default) of everything public."""
    for name, value in public_values():
        members = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
        public = [(f"{name}.{own}", one) for own, one in members if not own.startswith(("_", "set_"))]
        for full, one in [(name, value), *public]:
            for found in re.finditer(r"^([\w, ]+) : .*?default=(.+?)$", inspect.getdoc(one) or "", re.MULTILINE):
                named = found[1].split(", ")
                said = found[2].strip().split(", ") if len(named) > 1 else [found[2].strip()]
                for parameter, text in zip(named, said * (len(named) // len(said)), strict=True):
                    yield full, parameter, text, inspect.signature(one).parameters[parameter].default


def test_documented_defaults_are_the_defaults():
    found = list(documented_defaults())
    wrong = [one for one in found if one[3] != (math.inf if one[2] == "inf" else ast.literal_eval(one[2]))]
    assert not wrong
    assert len(found) > 200


def test_one_version_everywhere():
    version = kernelsieve.__version__
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == version
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version
    assert f'version: "{version}"' in (ROOT / "conda" / "recipe.yaml").read_text()


def test_every_dependency_of_users_has_a_lower_bound():
    extras = [one for name, extra in EXTRAS.items() if name not in ("dev", "docs") for one in extra]
    unbounded = [
        one for one in (*PROJECT["dependencies"], *extras) if not one.startswith("kernelsieve[") and ">=" not in one
    ]
    assert not unbounded


def test_all_is_every_extra_for_users_but_torch():
    named = set(re.search(r"\[(.+)\]", EXTRAS["all"][0])[1].split(","))
    held = {one for name in named for one in EXTRAS[name]}
    users = set(EXTRAS) - {"all", "dev", "docs", "torch"}
    assert {one for name in users for one in EXTRAS[name]} <= held


def test_the_conda_recipe_asks_for_what_pip_does():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    for one in (*PROJECT["dependencies"], *EXTRAS["cli"]):
        assert f"- {one.replace('>=', ' >=')}\n" in recipe


def test_types_are_shipped():
    assert (Path(kernelsieve.__file__).parent / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_imports_are_clean():
    """Of our own modules: what libraries warn of on their own import is not ours to mend."""
    code = """
        import importlib, pkgutil, sys, warnings
        extras = ["array_api_compat.numpy", "scipy.sparse.linalg", "scipy.stats", "sklearn.callback", "torch", "polars"]
        extras += ["pyarrow", "typer", "rich", "narwhals", "matplotlib.pyplot", "dask.array", "onnx", "pandas"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in extras:
                try:
                    importlib.import_module(name)
                except ImportError:
                    pass
        import kernelsieve
        for module in pkgutil.walk_packages(kernelsieve.__path__, "kernelsieve."):
            if not module.name.endswith("__main__"):
                try:
                    importlib.import_module(module.name)
                except ImportError as error:
                    assert "kernelsieve" not in str(error.name), error
    """
    code = "\n".join(line.removeprefix("        ") for line in code.splitlines())
    options = [f"-Werror::{kind}" for kind in ("DeprecationWarning", "FutureWarning", "SyntaxWarning")]
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
