"""`kernelsieve export`: the format by suffix, and nothing of the user's overwritten."""

import numpy as np
import pytest
from export_oracles import compiled, run_onnx
from typer.testing import CliRunner

from kernelsieve import SparseKernelPCA
from kernelsieve.cli.commands import app

pytest.importorskip("onnx", reason="onnx is not installed")


ROWS = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    return SparseKernelPCA(2, n_support=10, random_state=0).fit(ROWS.astype(np.float64))


@pytest.fixture(scope="module")
def scores(model):
    return model.transform(ROWS.astype(np.float64))


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "model.ks")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)], env={"COLUMNS": "200"})


def assert_fails(result, words, code=1):
    assert result.exit_code == code, result.output
    assert words in result.output
    assert "Traceback" not in result.output


def test_the_suffix_says_what_is_written(folder, scores):
    for name in ("out.onnx", "out.h"):
        result = run(folder / "model.ks", "-o", folder / name)
        assert result.exit_code == 0, result.output
        assert name in result.output
    import onnx

    (found,) = run_onnx(onnx.load(folder / "out.onnx"), ROWS)
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-5)
    found, _ = compiled((folder / "out.h").read_text(), folder, "out")(ROWS)
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-5)


def test_a_torch_program_is_written_and_read(folder, scores):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    result = run(folder / "model.ks", "-o", folder / "out.pt")
    assert result.exit_code == 0, result.output
    found = torch.export.load(folder / "out.pt").module()(torch.tensor(ROWS))
    np.testing.assert_allclose(found.numpy(), scores, rtol=0, atol=1e-5)
    assert run(folder / "model.ks", "-o", folder / "out.pt").exit_code == 0  # its own kind is written over
    result = run(folder / "model.ks", "-o", folder / "out64.pt2", "--dtype", "float64")
    assert "torch program in float64" in result.output
    found = torch.export.load(folder / "out64.pt2").module()(torch.tensor(ROWS.astype(np.float64)))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), scores, rtol=0, atol=1e-13)


def test_options_reach_the_file(folder):
    assert run(folder / "model.ks", "-o", folder / "a.h", "--dtype", "int8", "--name", "plant").exit_code == 0
    assert "static const signed char plant_points" in (folder / "a.h").read_text()
    result = run(folder / "model.ks", "-o", folder / "a.onnx", "--dtype", "float64", "--outputs", "scores,error")
    assert result.exit_code == 0
    import onnx

    assert [value.name for value in onnx.load(folder / "a.onnx").graph.output] == ["scores", "error"]


def test_nothing_of_the_users_is_overwritten(folder):
    before = (folder / "model.ks").read_bytes()
    (folder / "link.onnx").symlink_to(folder / "model.ks")
    assert_fails(run(folder / "model.ks", "-o", folder / "link.onnx"), "is what the command reads", 2)
    (folder / "mine.h").write_text("int precious;\n")
    assert_fails(run(folder / "model.ks", "-o", folder / "mine.h"), "--force to replace it", 2)
    assert (folder / "mine.h").read_text() == "int precious;\n"
    assert run(folder / "model.ks", "-o", folder / "mine.h", "--force").exit_code == 0
    assert run(folder / "model.ks", "-o", folder / "mine.h").exit_code == 0  # an export now
    assert (folder / "model.ks").read_bytes() == before
    (folder / "dir.onnx").mkdir()
    assert_fails(run(folder / "model.ks", "-o", folder / "dir.onnx"), "it is a folder")


def test_bad_usage_and_bad_models_are_told_in_one_line(folder):
    assert_fails(run(folder / "model.ks", "-o", folder / "model.txt"), "does not end in .onnx, .h, .pt", 2)
    assert_fails(
        run(folder / "model.ks", "-o", folder / "m.onnx", "--dtype", "int8"), "is not one of float32, float64", 2
    )
    assert_fails(run(folder / "model.ks", "-o", folder / "m.h", "--outputs", "error"), "only .onnx files", 2)
    assert_fails(run(folder / "model.ks", "-o", folder / "m.onnx", "--name", "x"), "only .h files", 2)
    assert_fails(run(folder / "model.ks", "-o", folder / "m.onnx", "--outputs", "nonsense"), "give one or more of")
    assert_fails(run(folder / "model.ks", "-o", folder / "m.h", "--name", "a-b"), "cannot begin names in C")
    assert_fails(run(folder / "model.ks", "-o", folder / "no" / "m.h"), "there is no folder")
    assert_fails(run(folder / "none.ks", "-o", folder / "m.h"), "No such file")
    gram = ROWS @ ROWS.T
    SparseKernelPCA(2, n_support=8, kernel="precomputed", random_state=0).fit(gram).save(folder / "p.ks")
    assert_fails(run(folder / "p.ks", "-o", folder / "m.onnx"), "precomputed kernel has no points")
    assert sorted(path.name for path in folder.iterdir()) == ["model.ks", "p.ks"]
