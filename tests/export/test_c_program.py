"""The header as C sees it: its size, sanitizers, valgrind, C++, and no calls but those of math.h."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from export_oracles import C_FLAGS, KERNELS, compiler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.export import to_c

pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")

MAIN = """#include <stdio.h>
#include "model.h"
int main(void) {
    static const double rows[5] = {0.0, 1.0, -1e4, 1e30, 1e-30};
    REAL x[MODEL_N_FEATURES], z[MODEL_N_COMPONENTS];
    int i, j, k;
    for (i = 0; i < 5; i++) {
        for (j = 0; j < MODEL_N_FEATURES; j++) x[j] = (REAL)(rows[i] * (j % 3 - 1));
        model_scores(x, z);
        for (k = 0; k < MODEL_N_COMPONENTS; k++) printf("%.9g ", (double)z[k]);
        printf("%.9g\\n", (double)model_error(x));
    }
    return 0;
}
"""
OBJECT = """#include "model.h"
void scores(const REAL *x, REAL *z);
REAL error(const REAL *x);
void scores(const REAL *x, REAL *z) { model_scores(x, z); }
REAL error(const REAL *x) { return model_error(x); }
"""


@pytest.fixture(scope="module")
def plant():
    """500 rows of 52 variables on a few latent ones, as of a plant."""
    rng = np.random.default_rng(0)
    latent = np.cumsum(rng.standard_normal((500, 6)), axis=0) / 10
    return np.tanh(latent @ rng.standard_normal((6, 52))) + 0.2 * rng.standard_normal((500, 52))


def _built(text, folder, program, *flags, name="program"):
    (folder / "model.h").write_text(text)
    (folder / "main.c").write_text(program)
    real = "double" if "model_scores(const double" in text else "float"
    command = [compiler(), *C_FLAGS, f"-DREAL={real}", *flags, str(folder / "main.c"), "-o", str(folder / name)]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / name


def _bytes(text, folder):
    """Code and data of an object file that offers both functions."""
    if shutil.which("size") is None:
        pytest.skip("size (binutils) is not installed")
    made = _built(text, folder, OBJECT, "-Os", "-c", name="model.o")
    printed = subprocess.run(["size", str(made)], capture_output=True, text=True, check=True).stdout
    code, data, bss = map(int, printed.splitlines()[1].split()[:3])
    return code + data + bss


def test_a_plant_of_52_variables_on_20_points_takes_less_than_6_kB(plant, tmp_path):
    model = SparseKernelPCA(10, n_support=20, random_state=0).fit(plant)
    assert _bytes(to_c(model, name="model"), tmp_path) <= 6000
    assert _bytes(to_c(model, name="model", dtype="int8"), tmp_path) <= 3500
    text = to_c(model, name="model")
    constants = int(re.search(r"([\d,]+) bytes of constants", text).group(1).replace(",", ""))
    assert constants <= _bytes(text, tmp_path) <= constants + 1000  # as its comment says


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_sanitizers_find_nothing(kernel, dtype, plant, tmp_path):
    model = SparseKernelPCA(3, n_support=9, kernel=kernel, gamma=0.01, random_state=0)
    front = [StandardScaler(), MinMaxScaler(clip=True)] if dtype == "float32" else []
    pipeline = make_pipeline(*front, model).fit(plant)
    flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = _built(to_c(pipeline, name="model", dtype=dtype), tmp_path, MAIN, *flags)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5


def test_valgrind_finds_nothing_and_no_memory_is_allocated(plant, tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    text = to_c(SparseKernelPCA(10, n_support=20, random_state=0).fit(plant), name="model")
    quiet = MAIN.replace("#include <stdio.h>", "").replace('printf("%.9g ", (double)z[k]);', "sum += z[k];")
    quiet = quiet.replace('printf("%.9g\\n", (double)model_error(x));', "sum += model_error(x);")
    quiet = quiet.replace("    int i, j, k;", "    int i, j, k;\n    volatile REAL sum = 0;")
    program = _built(text, tmp_path, quiet, "-O1", "-g")
    command = ["valgrind", "--error-exitcode=9", "--leak-check=full", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "total heap usage: 0 allocs" in done.stderr


def test_a_header_needs_only_math_and_allocates_nothing(plant):
    for kernel in KERNELS:
        text = to_c(SparseKernelPCA(2, n_support=9, kernel=kernel, gamma=0.01, random_state=0).fit(plant), name="model")
        assert re.findall(r"#include.*", text) == ["#include <math.h>"]
        code = text[text.rindex("static const") :]
        called = set(re.findall(r"\b([a-z_0-9]+)\(", code)) - {"for", "if", "return"}
        allowed = {"expf", "exp", "fabsf", "fabs", "tanhf", "tanh", "sqrtf", "sqrt", "powf", "pow"}
        assert called <= allowed | {f"model_{word}" for word in ("walk", "kernel", "scores", "error")}


def test_it_is_cpp_too(plant, tmp_path):
    cpp = shutil.which("g++") or shutil.which("clang++")
    if cpp is None:
        pytest.skip("no C++ compiler is installed")
    (tmp_path / "model.h").write_text(to_c(SparseKernelPCA(2, n_support=9, random_state=0).fit(plant), name="model"))
    (tmp_path / "main.cpp").write_text(MAIN)
    command = [cpp, "-std=c++11", "-Wall", "-Wextra", "-Werror", "-DREAL=float", str(tmp_path / "main.cpp")]
    done = subprocess.run([*command, "-o", str(tmp_path / "a")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
