"""The reports of `make reproduce` as pages of the site, where they have been written.

Each experiment has a page under reports/, so that a method can link to it: the report itself with its pictures, copied
from experiments/output, or a line that says how to write it.
"""

from __future__ import annotations

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
