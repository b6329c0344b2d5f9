"""Model files: what cannot be written is named, and the old file is kept when a write fails."""

import errno
import os
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from model_file_cases import make_rows
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import (
    ElasticNetKernelPCA,
    KernelPCA,
    LikelihoodKernelPCA,
    SparseKernelPCA,
)
from kernelsieve import io as model_io

pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


# --- what cannot be saved --------------------------------------------------------------------------------------


def test_unfitted_model(path):
    for unfitted in (SparseKernelPCA(), KernelPCA(), LikelihoodKernelPCA()):
        with pytest.raises(NotFittedError):
            unfitted.save(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "make", [SparseKernelPCA(2, n_support=5), ElasticNetKernelPCA(2), KernelPCA(2), LikelihoodKernelPCA(2)]
)
@pytest.mark.parametrize("kernel", [rbf_kernel, lambda x, y: float(x @ y)])
def test_callable_kernel(make, kernel, tmp_path):
    model = make.set_params(kernel=kernel).fit(make_rows())
    with pytest.raises(TypeError, match="callable kernel cannot be saved"):
        model.save(tmp_path / "model.ks")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([1, "a"], dtype=object), np.ones(2, complex), len])
def test_no_data(value, tmp_path):
    model = KernelPCA(1).fit(np.eye(3))
    model.extra_ = value
    with pytest.raises(TypeError, match="extra_"):
        model.save(tmp_path / "model.ks")
    assert list(tmp_path.iterdir()) == []


def test_other_classes(path):
    class Mine(KernelPCA):
        pass

    with pytest.raises(TypeError, match="Mine cannot be saved"):
        Mine(1).fit(np.eye(3)).save(path)


# --- writing: all or nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["fsync", "replace", "write"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_keeps_the_old_file(model, tmp_path, monkeypatch, where, error):
    path = tmp_path / "model.ks"
    KernelPCA(1).fit(np.eye(3)).save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        if where == "write":
            patch.setattr(np.lib.format, "write_array", fail)
        else:
            patch.setattr(model_io.os, where, fail)
        with pytest.raises(type(error)) as caught:
            model.save(path)
    if isinstance(error, OSError):
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_disk_that_fills_up_keeps_the_old_file(tmp_path):
    script = """
        import errno, os, resource, sys
        import numpy as np
        from kernelsieve import KernelPCA
        path = sys.argv[1]
        KernelPCA(1).fit(np.eye(3)).save(path)
        before = open(path, "rb").read()
        model = KernelPCA(2).fit(np.random.default_rng(0).normal(size=(300, 50)))
        for limit in (0, 1, 100, 5_000, 60_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                model.save(path)
            except OSError as error:
                assert error.errno == errno.EFBIG and error.filename == path, error
            else:
                raise AssertionError(limit)
            assert open(path, "rb").read() == before
            assert os.listdir(os.path.dirname(path)) == ["model.ks"]
    """
    path = os.path.realpath(tmp_path / "model.ks")
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), path], check=True, timeout=120)


def test_modes_and_links(model, tmp_path):
    path, link = tmp_path / "model.ks", tmp_path / "link.ks"
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    model.save(path)
    assert path.stat().st_mode == plain.stat().st_mode
    if sys.platform == "win32":
        return
    path.chmod(0o640)
    link.symlink_to(path)
    model.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_unwritable_places(model, tmp_path):
    with pytest.raises(IsADirectoryError):
        model.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "model.ks")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(FileExistsError, match="not a file"):
            model.save(tmp_path / "pipe")
    model.save(tmp_path / ("x" * 200 + ".ks"))
    model.save(str(tmp_path / "a string.ks"))
    model.save(os.fsencode(tmp_path / "bytes.ks"))
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]
