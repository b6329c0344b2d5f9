"""Make the page: fit the digits, export them to ONNX, fetch onnxruntime-web, and put all of it into one folder.

    python examples/onnx_web/build.py [FOLDER]         by default build/onnx_web

npm is needed once, for onnxruntime-web; what it fetches stays in build/npm and is never part of the repository.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from kernelsieve import SparseKernelPCA
from kernelsieve.export import to_onnx

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"
# The runtime on one WebAssembly thread: the file that the page loads, and the two that it loads itself.
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
N_COMPONENTS, N_SUPPORT = 12, 50
USUAL = 0.99  # share of the digits whose error is below the one that the page calls unusual


def main(folder: Path) -> None:
    """Write the page and all that it loads."""
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = load_digits(return_X_y=True)
    model = SparseKernelPCA(N_COMPONENTS, n_support=N_SUPPORT, random_state=0).fit(images)
    to_onnx(model, "float32", ("scores", "error"), path=folder / "digits.onnx")
    facts = {
        "images": images.astype(int).tolist(),
        "labels": labels.tolist(),
        "scores": np.round(model.transform(images), 4).tolist(),
        "shares": np.round(model.explained_variance_ratio_, 4).tolist(),
        "unusual": float(np.quantile(model.reconstruction_error(images), USUAL)),
        "bytes": (folder / "digits.onnx").stat().st_size,
        "n_support": model.n_support_,
    }
    (folder / "digits.json").write_text(json.dumps(facts))
    for name in ("page.css", "page.js"):
        shutil.copy(HERE / name, folder / name)
    shutil.copy(HERE / "page.html", folder / "index.html")
    for name in RUNTIME:
        shutil.copy(runtime_folder() / name, folder / name)


def runtime_folder() -> Path:
    """Where npm has put onnxruntime-web's files; fetched where they are not there yet."""
    root = BUILD / "npm"
    found = root / "node_modules" / "onnxruntime-web" / "dist"
    if not all((found / name).is_file() for name in RUNTIME):
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("npm is needed to fetch onnxruntime-web: install Node.js")
        root.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "package.json", root / "package.json")
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(command, cwd=root, check=True)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "onnx_web")
