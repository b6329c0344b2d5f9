"""Print the lower bounds of pyproject.toml as `name==version`, and what the tests need beside them.

Tools have no lower bound of their own, and the newest that go with those versions are taken.
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
users = [one for name, extra in extras.items() if name not in ("docs", "dev", "torch") for one in extra]
tools = {"ruff", "mypy", "build", "twine", "check-wheel-contents"}

bounded = {}
for requirement in (*project["dependencies"], *users):
    if found := re.fullmatch(r"([\w-]+)(\[[\w,]+\])?>=([\w.]+)", requirement):
        bounded[found[1]] = f"{found[1]}{found[2] or ''}=={found[3]}"
print(*bounded.values(), sep="\n")
for requirement in extras["dev"]:
    name = re.match(r"[\w-]+", requirement)[0]
    if name not in {*bounded, *tools, "kernelsieve"}:
        print(requirement)
