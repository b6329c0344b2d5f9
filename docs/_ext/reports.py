"""The reports of `make reproduce` as pages of the site, where they have been written, and the numbers that pages quote.

Each experiment has a page under reports/, so that a method can link to it: the report itself with its pictures, copied
from experiments/output, or a line that says how to write it.  Pages quote results as {{ experiment.name }}, filled in
from experiments/results, which `python -m experiments --record` writes after a whole run with all data.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

EXPERIMENTS = (
    "kernel_pca_lecture",
    "tipping_2000",
    "wang_tanaka_2016",
    "xu_2011",
    "wang_cheng_2012",
    "zou_2006",
    "vollgraf_obermayer_2006",
    "tennessee_eastman",
    "novelty",
    "online",
)
NOT_WRITTEN = """# Report: {name}

This report is written by `make reproduce REPRODUCE={name}`, to `experiments/output/{name}.md`. It had not been
when this site was built; build the site again afterwards, and it stands here.
"""


def recorded_facts(docs: Path) -> dict[str, dict[str, str]]:
    """Numbers of the recorded results, by experiment and name."""
    folder = docs.parent / "experiments" / "results"
    read = {name: folder / f"{name}.json" for name in EXPERIMENTS}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))["facts"] for name, path in read.items() if path.is_file()
    }


def copy_reports(docs: Path) -> None:
    """Fill docs/reports anew."""
    folder, output = docs / "reports", docs.parent / "experiments" / "output"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in EXPERIMENTS:
        written = output / f"{name}.md"
        text = written.read_text(encoding="utf-8") if written.is_file() else NOT_WRITTEN.format(name=name)
        (folder / f"{name}.md").write_text(f"---\norphan: true\n---\n\n{text}", encoding="utf-8")
        for picture in output.glob(f"{name}_*.png"):
            shutil.copy(picture, folder)
