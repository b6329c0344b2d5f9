"""The measured figures of README and site: one set, read from the results of the benchmarks.

    python docs/figures.py            rewrite the table in README.md
    python docs/figures.py --check    say whether it is up to date

`benchmarks/RESULTS.md` is written by `make bench` on two cores; `benchmarks/RESULTS_LARGE.md` has the runs on 16 cores
and on a GPU.  A page writes `{{ mnist_fit }}`; conf.py replaces it with the value that `figures()` finds.  README and
home page share the table docs/_parts/costs.md, filled in the same way.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
RESULTS_LARGE = ROOT / "benchmarks" / "RESULTS_LARGE.md"
STORED = ROOT / "docs" / "results" / "stored.json"
PARTS = ROOT / "docs" / "_parts"
README = ROOT / "README.md"
BEGIN, END = "<!-- costs: filled by docs/figures.py -->", "<!-- end of costs -->"
TIME = r"([\d.]+ m?s)"
SHARE = r"(0\.\d{4}) \("

# name of a figure: section of RESULTS.md, beginning of the line, pattern whose group is the value
PLACES = {
    "mnist_fit": ("Kernel PCA at the price of PCA", "fit, m = 50 / PCA(10)", rf"\({TIME}; PCA"),
    "mnist_fit_pca": ("Kernel PCA at the price of PCA", "fit, m = 50 / PCA(10)", rf"PCA {TIME}, Nystroem"),
    "mnist_fit_nystroem": ("Kernel PCA at the price of PCA", "fit, m = 50 / PCA(10)", rf"Nystroem \+ PCA {TIME}"),
    "mnist_transform": ("Kernel PCA at the price of PCA", "transform 60000 rows", rf"\({TIME}; PCA"),
    "mnist_transform_pca": ("Kernel PCA at the price of PCA", "transform 60000 rows", rf"PCA {TIME}\)"),
    "fit_10000": ("Fit", "MNIST-10000, m = 50", rf"\({TIME}; KernelPCA"),
    "fit_10000_exact": ("Fit", "MNIST-10000, m = 50", rf"KernelPCA {TIME}"),
    "transform_10000": ("Transform", "times faster than KernelPCA", rf"\({TIME}; KernelPCA"),
    "transform_10000_exact": ("Transform", "times faster than KernelPCA", rf"KernelPCA {TIME}"),
    "transform_10000_nystroem": ("Transform", "times faster than KernelPCA", rf"Nystroem \+ PCA {TIME}"),
    "kept_digits_20": ("Accuracy", "digits, optimized, m = 20", SHARE),
    "kept_digits_50": ("Accuracy", "digits, optimized, m = 50", SHARE),
    "kept_digits_100": ("Accuracy", "digits, optimized, m = 100", SHARE),
    "kept_usps_20": ("Accuracy", "USPS, optimized, m = 20", SHARE),
    "kept_usps_50": ("Accuracy", "USPS, optimized, m = 50", SHARE),
    "kept_usps_100": ("Accuracy", "USPS, optimized, m = 100", SHARE),
    "kept_mnist_50": ("Accuracy", "MNIST-6000, optimized, m = 50", SHARE),
    "compress_transform": ("Compress", "median width: transform faster", rf"rows: {TIME} against"),
    "compress_transform_exact": ("Compress", "median width: transform faster", rf"against {TIME}"),
    "compress_error": ("Compress", "median width: scores' relative error", r"(0\.\d{4}) \("),
    "onnx_row": ("Export: MNIST", "one row: faster than the checked", r"\(([\d.]+ us) against"),
    "c_float32": ("Export: C", "float32: bytes", r"([\d,]+)$"),
    "c_int8": ("Export: C", "int8: bytes", r"([\d,]+)$"),
}
for _size in ("10,000", "100,000", "1,000,000", "10,000,000"):
    _name = "rows_" + _size.replace(",", "")
    PLACES[f"{_name}_seconds"] = ("Rows", f"{_size} rows", r"^([\d.]+ s)")
    PLACES[f"{_name}_memory"] = ("Rows", f"{_size} rows", r"([\d.]+ MB) beyond")
    PLACES[f"{_name}_speed"] = ("Rows", f"{_size} rows", r"([\d,]+) rows/s")


def lines_of(results: str) -> dict[str, list[list[str]]]:
    """The cells of every table line, by the title of their section."""
    sections: dict[str, list[list[str]]] = {}
    title = ""
    for line in results.splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif line.startswith("| "):
            sections.setdefault(title, []).append([cell.strip() for cell in line.strip("|").split("|")])
    return sections


def rounded(value: str) -> str:
    """Two digits of a time or a size, and milliseconds above a tenth of a second as seconds; others as they are."""
    match = re.fullmatch(r"([\d.]+) (ms|s|us)", value)
    if not match:
        return value
    number, unit = float(match.group(1)), match.group(2)
    if unit == "ms" and number >= 100:
        number, unit = number / 1000, "s"
    digits = 0 if number >= 10 else 1 if number >= 1 else 2
    return f"{number:.{digits}f} {unit}"


def percent(value: str) -> str:
    """A share such as 0.9894 as 98.9 %."""
    return f"{100 * float(value):.1f} %"


def from_results(results: str) -> dict[str, str]:
    """The figures of PLACES; one that the results do not have is an error that names it."""
    sections = lines_of(results)
    found: dict[str, str] = {}
    for name, (section, begins, pattern) in PLACES.items():
        for title, lines in sections.items():
            for cells in lines:
                if title.startswith(section) and cells[0].startswith(begins) and name not in found:
                    match = re.search(pattern, cells[2])
                    if match:
                        found[name] = match.group(1)
        if name not in found:
            raise KeyError(f"{name}: no line {begins!r} with {pattern!r} in the section {section!r} of RESULTS.md")
    return {
        name: percent(value) if name.startswith(("kept_", "compress_error")) else rounded(value)
        for name, value in found.items()
    }


def from_large_results(results: str) -> dict[str, str]:
    """Figures of RESULTS_LARGE.md that other pages quote: the whole fit of ten million rows."""
    lines = {cells[0]: cells for section in lines_of(results).values() for cells in section}
    fit = "whole fit, 10,000,000 rows, m = 200"
    host = f"{fit}, from host memory"
    return {"cores_fit": f"{lines[f'{fit}, threads'][-1]} s", "gpu_fit": lines[fit][1], "gpu_fit_host": lines[host][1]}


def from_stored(stored: str) -> dict[str, str]:
    """Numbers of docs/stored_results.py, as mnist_stored_ratio and the like."""
    return {
        f"{part}_stored_{name}": str(value).replace("%", " %")
        for part, numbers in json.loads(stored).items()
        for name, value in numbers.items()
    }


def figures() -> dict[str, str]:
    """Every figure by its name."""
    results = RESULTS.read_text(encoding="utf-8")
    run = re.search(r"on (\d{4}-\d\d-\d\d)", results)
    return {
        "bench_date": run.group(1) if run else "",
        **from_results(results),
        **from_large_results(RESULTS_LARGE.read_text(encoding="utf-8")),
        **from_stored(STORED.read_text(encoding="utf-8")),
    }


def filled(text: str, values: dict[str, str]) -> str:
    """`text` with every {{ name }} replaced; a name that is not known is an error."""
    return re.sub(r"\{\{ *(\w+) *\}\}", lambda match: values[match.group(1)], text)


def filled_readme(readme: str, values: dict[str, str]) -> str:
    """README with the table of costs between its marks."""
    table = filled((PARTS / "costs.md").read_text(encoding="utf-8"), values).strip()
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write README anew, or check it."""
    text = README.read_text(encoding="utf-8")
    wanted = filled_readme(text, figures())
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print("README.md does not show the figures of benchmarks/RESULTS.md: python docs/figures.py")
        return int(text != wanted)
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
