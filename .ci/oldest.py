"""Print the lower bound of every dependency and every extra as `name==version`, for `make test-oldest`."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
for requirement in dict.fromkeys(asked):
    if bound := re.fullmatch(r"([\w-]+)(\[[\w,]+\])?>=([\w.]+)", requirement):
        print(f"{bound[1]}{bound[2] or ''}=={bound[3]}")
